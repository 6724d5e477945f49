"""`kafkalog cluster --recreate shell` builds, in a fresh real cluster of as many brokers, what the first one had."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.ops.cluster.recreate_shell import recreate_shell
from tests.integration import broker as brokers
from tests.integration.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

_TOOLS: Final = "org.apache.kafka.tools."
PROGRAMS: Final = {
    "kafka-topics.sh": f"{_TOOLS}TopicCommand",
    "kafka-acls.sh": f"{_TOOLS}AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
}
SECONDS: Final = 300
FIRST: Final = """
create() { tool kafka-topics.sh --create --replication-factor 1 "$@"; }
configs() { tool kafka-configs.sh --alter "$@"; }
users() { configs --entity-type users "$@"; }
acls() { tool kafka-acls.sh --add "$@"; }
create --topic orders --partitions 3 --config retention.ms=86400000
create --topic Old_Ones --partitions 1 --config cleanup.policy=compact,delete
create --topic plain --partitions 2
configs --entity-type brokers --entity-default --add-config log.cleaner.threads=2
configs --entity-type brokers --entity-name 1 --add-config log.cleaner.backoff.ms=20000
configs --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000
configs --entity-type client-metrics --entity-name m --add-config 'metrics=[org.apache.kafka.a,b]'
users --entity-name ann --add-config 'SCRAM-SHA-512=[iterations=8192,password=x]'
users --entity-name ann --add-config 'SCRAM-SHA-256=[iterations=4096,password=y]'
users --entity-name 'b o$b' --add-config 'SCRAM-SHA-256=[password=z]'
users --entity-name ann --add-config 'producer_byte_rate=1024,request_percentage=12.5'
users --entity-default --entity-type clients --entity-name c --add-config consumer_byte_rate=99
configs --entity-type clients --entity-default --add-config producer_byte_rate=77
configs --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=5
acls --allow-principal User:ann --operation Read --operation Write --topic orders
acls --deny-principal User:ann --deny-host 10.0.0.1 --operation Describe --topic old --resource-pattern-type prefixed
acls --allow-principal 'User:*' --operation All --group '*'
acls --allow-principal User:CN=tls --operation IdempotentWrite --cluster
acls --allow-principal User:ann --operation TwoPhaseCommit --operation Write --transactional-id 'tx 1'
"""
DESCRIBE: Final = """
tool kafka-topics.sh --describe
for kind in users clients ips brokers groups client-metrics; do
    tool kafka-configs.sh --describe --entity-type $kind || true
done
tool kafka-configs.sh --describe --entity-type users --entity-type clients
tool kafka-acls.sh --list
"""
TOOL: Final = 'set -u\nserver=$1\ntool() { program=$1; shift; "$program" --bootstrap-server "$server" "$@"; }\n'


class Guarded(Broker):
    """A broker with an authorizer, for which everyone who is not known is a superuser."""

    extra = {  # noqa: RUF012 - a mapping of settings, as the base class has it
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def script(self, text: str, *, given: str = "") -> str:
        """Run a script with Kafka's tools in its PATH; what it prints."""
        bin_dir = self.work_dir / "bin"
        bin_dir.mkdir(exist_ok=True)
        java = " ".join(f"'{word}'" for word in self.java_command)
        for name, program in PROGRAMS.items():
            (bin_dir / name).write_text(f'#!/bin/sh\nexec {java} {program} "$@"\n')
            (bin_dir / name).chmod(0o755)
        done = subprocess.run(
            ["bash", "-c", text, "recreate", self.bootstrap],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=os.environ | {"PATH": f"{bin_dir}:{os.environ['PATH']}"},
        )
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        return done.stdout

    def describe(self) -> list[str]:
        """All that the tools say of it, without ids and placement; ACLs and values, which have no order, in one."""
        text = re.sub(r"TopicId: \S+", "", self.script(f"{TOOL}{DESCRIBE}"))
        lines, resource = [], ""
        for line in text.splitlines():
            if line.startswith("Current ACLs for resource"):
                resource = line
            elif line.strip() and "Leader: " not in line:
                what, _, values = line.partition(" are ")
                lines.append(f"{resource} {what} {sorted(values.split(', '))}")
        return sorted(lines)


@contextmanager
def running(libs: Path, place: Path, cluster_id: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    monkeypatch.setattr(brokers, "_CLUSTER_ID", cluster_id)
    place.mkdir()
    broker = Guarded(libs, place)
    try:
        broker.start()
        yield broker
        broker.stop()
    finally:
        broker.close()


def test_a_fresh_cluster_becomes_the_same(libs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics, settings, ACLs, quotas; users by name, mechanism and iterations."""
    with running(libs, tmp_path / "first", "b2xkLWNsdXN0ZXItLS0wMQ", monkeypatch) as first:
        first.script(f"{TOOL}set -e{FIRST}")
        wanted = first.describe()
    reading = read_image(str(first.log_dir / "__cluster_metadata-0"))
    assert reading.is_whole
    script = "".join(recreate_shell(reading.image, [], source=reading.path))
    with running(libs, tmp_path / "second", "bmV3LWNsdXN0ZXItLS0wMQ", monkeypatch) as second:
        second.script(script, given="one\ntwo\nthree\n")
        assert second.describe() == wanted
        second.script(script, given="one\ntwo\nthree\n")  # once more: nothing fails, and nothing is different
        assert second.describe() == wanted
    assert len(wanted) > 20
    assert any("SCRAM-SHA-512=iterations=8192" in line for line in wanted)
