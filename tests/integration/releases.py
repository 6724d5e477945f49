"""A real broker of every minor release from 0.8 on, each with the newest bug fix on Maven Central."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.integration.broker import Broker
from tests.integration.zookeeper_broker import ZooKeeperBroker
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["VERSIONS", "broker_of", "clients_of", "make_topic", "numbers_of", "write"]

VERSIONS: Final = (
    *("0.8.0", "0.8.1.1", "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3"),
    *("1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2"),
    *("3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2"),
    *("4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0"),
)
_KRAFT: Final = (3, 3)  # the first release that is fit for use without ZooKeeper
_OWN_VOTERS: Final = (3, 9)
_LISTENERS: Final = (0, 9)
_ADMIN: Final = (0, 10, 1)  # the first broker that makes topics itself
_CLIENTS: Final = (0, 10)
_OWN_CLIENTS: Final = (4,)
_LAST_OF_ALL: Final = "3.9.2"  # its clients speak to every broker from 0.10.0 on
_LEGACY_CLIENT: Final = "0.8.2.2"
_SOURCES: Final = Path(__file__).parent / "java"
_WRITE_SECONDS: Final = 150
_SESSION_SECONDS: Final = 5
_LOG4J: Final = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %c %m%n
"""
_MATRIX: Final = {
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "controlled.shutdown.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.message.timestamp.difference.max.ms": "9223372036854775807",
}
QUIET: Final = {
    "log.retention.check.interval.ms": "3600000",
    "log.initial.task.delay.ms": "3600000",
    "log.cleaner.enable": "false",
}
"""Settings of a broker that loads its logs and then leaves them alone."""


def numbers_of(version: str) -> tuple[int, ...]:
    """`(0, 10, 2, 2)`."""
    return tuple(map(int, version.split(".")))


class _ReleaseKraft(Broker):
    """A node of the releases from 3.3 on; before 3.9 its voters are settings."""

    @property
    def format_options(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the format tool is asked besides."""
        return () if numbers_of(self.release) < _OWN_VOTERS else ("--standalone",)

    def _places(self, controller_port: int) -> dict[str, str]:
        settings = super()._places(controller_port)
        if numbers_of(self.release) < _OWN_VOTERS:
            settings["controller.quorum.voters"] = f"1@{settings.pop('controller.quorum.bootstrap.servers')}"
        return settings


class _ReleaseZooKeeper(ZooKeeperBroker):
    """A broker of the releases before."""

    java_options = (
        *Broker.java_options,
        "-Dzookeeper.admin.enableServer=false",
        "-Dzookeeper.jmx.log4j.disable=true",
    )

    def _places(self, controller_port: int) -> dict[str, str]:
        settings = super()._places(controller_port)
        host, _, port = self.bootstrap.partition(":")
        if numbers_of(self.release) < _LISTENERS:
            del settings["listeners"]
            settings |= {"host.name": host, "port": port, "log.retention.ms": "2147483647"}
        return settings

    def kill(self) -> None:
        """A crash, and enough time for the session to end in the old releases too."""
        super().kill()
        time.sleep(_SESSION_SECONDS)

    @property
    def zookeeper(self) -> str:
        """Where its ZooKeeper is."""
        return f"127.0.0.1:{self._zookeeper_port}"


def broker_of(version: str, work_dir: Path, *, with_zookeeper: bool = False) -> Broker:
    """A broker of a release, not started; with ZooKeeper: also of 3.3 to 3.9. Raises jars.MissingError."""
    numbers = numbers_of(version)
    java, libs = jars.runtime(version), jars.fetch(version)
    log4j = work_dir / "log4j.properties"
    log4j.write_text(_LOG4J)
    base = _ReleaseKraft if numbers >= _KRAFT and not with_zookeeper else _ReleaseZooKeeper
    options = (*base.java_options, f"-Dlog4j.configuration=file:{log4j}")
    kind = type("ReleaseBroker", (base,), {"release": version, "java_options": options, "extra": _MATRIX})
    broker: Broker = kind(libs, work_dir, java=java)
    return broker


def clients_of(version: str) -> str:
    """The release whose clients write to it."""
    numbers = numbers_of(version)
    if numbers < _CLIENTS:
        return _LEGACY_CLIENT
    return version if numbers >= _OWN_CLIENTS else _LAST_OF_ALL


def make_topic(broker: Broker, name: str, configs: dict[str, str]) -> None:
    """A topic of one partition, by the release's own tool where no client can ask the broker for one."""
    numbers = numbers_of(broker.release)
    assert isinstance(broker, _ReleaseZooKeeper)
    words = ["--zookeeper", broker.zookeeper, "--topic", name]
    if numbers < (0, 8, 1):
        tool, words = "kafka.admin.CreateTopicCommand", [*words, "--partition", "1", "--replica", "1"]
    else:
        tool, words = "kafka.admin.TopicCommand", ["--create", *words, "--partitions", "1", "--replication-factor", "1"]
        words += [word for key, value in configs.items() for word in ("--config", f"{key}={value}")]
    _run([*broker.java_command, tool, *words], 60)


def has_admin(version: str) -> bool:
    """Whether clients make topics."""
    return numbers_of(version) >= _ADMIN


def write(version: str, bootstrap: str, seed: int, steps: Sequence[str]) -> None:
    """Let a client write."""
    client = clients_of(version)
    name = "LegacyWriter" if client == _LEGACY_CLIENT else "ReleaseWriter"
    libs = jars.fetch(client)
    java = shutil.which("java") or "java"
    options = ["-Xmx256m", *jars.QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    source = _SOURCES / f"{name}.java"
    _run([java, *options, "-cp", f"{libs}/*", str(source), bootstrap, str(seed), *steps], _WRITE_SECONDS)


def _run(command: list[str], seconds: int) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    if done.returncode or "Exception" in done.stdout:
        raise RuntimeError(f"{command[-8:]} ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
