"""What Kafka's own tools say of a cluster, and scripts of these tools as `kafkalog cluster --recreate shell` prints."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.integration.broker import Broker

__all__ = ["TOOL", "describe", "run_script"]

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
