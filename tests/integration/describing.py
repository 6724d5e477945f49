"""What Kafka's own tools say of a cluster, and scripts of these tools as `kafkalog cluster --recreate shell` prints."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.integration.broker import Broker

__all__ = ["SETTING_UP", "TOOL", "describe", "run_script"]

_TOOLS: Final = "org.apache.kafka.tools."
_PROGRAMS: Final = {
    "kafka-topics.sh": f"{_TOOLS}TopicCommand",
    "kafka-acls.sh": f"{_TOOLS}AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
}
_SECONDS: Final = 600
_DESCRIBE: Final = """
tool kafka-topics.sh --describe
for kind in users clients ips brokers groups client-metrics; do
    tool kafka-configs.sh --describe --entity-type $kind || true
done
tool kafka-configs.sh --describe --entity-type users --entity-type clients
tool kafka-acls.sh --list
"""
TOOL: Final = 'set -u\nserver=$1\ntool() { program=$1; shift; "$program" --bootstrap-server "$server" "$@"; }\n'
"""The first lines of a script: `tool PROGRAM OPTION...`."""
SETTING_UP: Final = """
create() { tool kafka-topics.sh --create "$@"; }
configs() { tool kafka-configs.sh --alter "$@"; }
users() { configs --entity-type users "$@"; }
acls() { tool kafka-acls.sh --add "$@"; }
create --topic orders --partitions 3 --replication-factor 1 --config retention.ms=86400000
create --topic Old_Ones --partitions 1 --replication-factor 1 --config cleanup.policy=compact,delete
create --topic plain --partitions 2 --replication-factor 1
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
"""What an administrator makes in a cluster, of all kinds; the commands follow `TOOL`."""


def run_script(broker: Broker, text: str, *, given: str = "") -> str:
    """Run a script with Kafka's tools in its PATH and the broker's address as its argument; what it prints."""
    bin_dir = broker.work_dir / "bin"
    bin_dir.mkdir(exist_ok=True)
    java = " ".join(f"'{word}'" for word in broker.java_command)
    for name, program in _PROGRAMS.items():
        (bin_dir / name).write_text(f'#!/bin/sh\nexec {java} {program} "$@"\n')
        (bin_dir / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", text, "recreate", broker.bootstrap],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env=os.environ | {"PATH": f"{bin_dir}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def describe(broker: Broker) -> tuple[list[str], list[str]]:
    """All that the tools say of a cluster, without ids and placement; and the nodes of each partition's replicas.

    ACLs and values, which have no order, are sorted.
    """
    text = re.sub(r"TopicId: \S+", "", run_script(broker, f"{TOOL}{_DESCRIBE}"))
    lines, places, resource = [], [], ""
    for line in text.splitlines():
        partition, leads, rest = line.partition("Leader: ")
        if leads:
            replicas = rest.partition("Replicas: ")[2].split()[0]
            places.append(f"{partition.strip()} {replicas}")
        elif line.startswith("Current ACLs for resource"):
            resource = line
        elif line.strip():
            what, _, values = line.partition(" are ")
            lines.append(f"{resource} {what} {sorted(values.split(', '))}")
    return sorted(lines), sorted(places)
