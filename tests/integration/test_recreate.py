"""`kafkalog cluster --recreate shell` builds, in a fresh real cluster of as many brokers, what the first one had."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.ops.cluster.recreate_shell import recreate_shell
from tests.integration import broker as brokers
from tests.integration.broker import Broker
from tests.integration.describing import SETTING_UP, TOOL, describe, run_script
from tests.integration.quorums import cluster, start_all
from tests.integration.records import KAFKALOG
from tests.support.znodes import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.quorums import QuorumNode

pytestmark = [pytest.mark.java, pytest.mark.slow]

THREE: Final = """
create --topic two --partitions 5 --replication-factor 2 --config min.insync.replicas=2
create --topic three --partitions 4 --replication-factor 3 --config 'retention.ms=-1' --config compression.type=zstd
create --topic odd.Name_-1 --partitions 1 --replication-factor 3
create --topic placed --replica-assignment 3:1,2:3,1:2
create --topic __consumer_offsets --partitions 6 --replication-factor 3 --config cleanup.policy=compact
tool kafka-topics.sh --alter --topic two --partitions 7
configs --entity-type topics --entity-name three --add-config 'leader.replication.throttled.replicas=[0:1,1:2]'
configs --entity-type brokers --entity-name 2 --add-config leader.replication.throttled.rate=1000000
configs --entity-type brokers --entity-name 3 --add-config 'num.network.threads=2,num.io.threads=4'
configs --entity-type topics --entity-name placed --add-config retention.bytes=1000000
configs --entity-type topics --entity-name placed --delete-config retention.bytes
users --entity-name gone --add-config 'SCRAM-SHA-256=[password=x]'
users --entity-name gone --delete-config SCRAM-SHA-256
users --entity-name ann --entity-type clients --entity-name c --add-config consumer_byte_rate=1e7
acls --allow-principal User:three --producer --topic three
acls --allow-principal User:three --consumer --topic three --group g
"""
"""Of three brokers, after the same as of one."""


class Guarded(Broker):
    """A broker with an authorizer, for which everyone who is not known is a superuser."""

    extra = {  # noqa: RUF012 - a mapping of settings, as the base class has it
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


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
        run_script(first, f"{TOOL}set -e{SETTING_UP}")
        wanted, _ = describe(first)
    reading = read_image(str(first.log_dir / "__cluster_metadata-0"))
    assert reading.is_whole
    script = "".join(recreate_shell(reading.image, [], source=reading.path))
    with running(libs, tmp_path / "second", "bmV3LWNsdXN0ZXItLS0wMQ", monkeypatch) as second:
        run_script(second, script, given="one\ntwo\nthree\n")
        assert describe(second)[0] == wanted
        run_script(second, script, given="one\ntwo\nthree\n")  # once more: nothing fails, and nothing is different
        assert describe(second)[0] == wanted
    assert len(wanted) > 20
    assert any("SCRAM-SHA-512=iterations=8192" in line for line in wanted)


@contextmanager
def three(libs: Path, place: Path, cluster_id: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, QuorumNode]]:
    """Three brokers that are the controllers too; they are killed at the end: not all of them can stop cleanly."""
    monkeypatch.setattr(brokers, "_CLUSTER_ID", cluster_id)
    with cluster(libs, place) as nodes:
        for node in nodes.values():
            node.configure({"broker.session.timeout.ms": "60000"})  # nobody is killed here, and the machine may be busy
        start_all(nodes)
        yield nodes


def recreation(*words: object) -> str:
    """What the command prints."""
    command = [*KAFKALOG, "cluster", "--recreate", "shell", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_three_brokers(libs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several replication factors, more partitions, throttles; and each replica on its node where that is asked for."""
    with three(libs, tmp_path / "first", "b2xkLWNsdXN0ZXItLS0wMQ", monkeypatch) as first:
        run_script(first[1], f"{TOOL}set -e{SETTING_UP}{THREE}")
        wanted, placed = describe(first[2])
    dirs = [node.log_dir for node in first.values()]
    with three(libs, tmp_path / "second", "bmV3LWNsdXN0ZXItLS0wMQ", monkeypatch) as second:
        run_script(second[3], recreation(*dirs), given="one\ntwo\nthree\n")
        assert describe(second[2])[0] == wanted
        run_script(second[1], f"{TOOL}set -e\ntool kafka-topics.sh --delete --topic '.*'")
        topics, settings, _ = recreation("--assignments", *dirs).partition("\n# --- settings")
        assert settings
        run_script(second[1], topics)
        assert describe(second[2]) == (wanted, placed)
    assert len(placed) == 3 + 1 + 2 + 7 + 4 + 1 + 3 + 6


def test_a_cluster_with_zookeeper(libs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the Admin client of 3.9.2 described just before the servers were killed (`live.txt`), in KRaft."""
    disk = unpacked("kafka-3.9.2", tmp_path)
    live = [line.split("\t") for line in (disk / "live.txt").read_text().splitlines()]
    script = recreation(disk / "data", disk / "logdir")
    with running(libs, tmp_path / "second", "bmV3LWNsdXN0ZXItLS0wMQ", monkeypatch) as second:
        run_script(second, script, given="one\n" * 9)
        lines, places = describe(second)
    assert [place.split()[1:4:2] for place in places] == [line[1:4:2] for line in live if line[0] == "partition"]
    text = "\n".join(lines)
    for kind, *fields in live:
        if kind == "acl":
            of, pattern, name, principal, permission, operation, host = fields
            resource = f"ResourcePattern(resourceType={of}, name={name}, patternType={pattern})"
            entry = f"(principal={principal}, host={host}, operation={operation}, permissionType={permission})"
            assert any(resource in line and entry in line for line in lines), fields
        elif kind == "user":
            (line,) = (line for line in lines if f"SCRAM credential configs for user-principal '{fields[0]}'" in line)
            assert f"'{fields[1]}=iterations={fields[2]}'" in line
        elif kind == "quota":
            assert f"['{fields[1][1:-1]}']" in text
        elif kind == "config":
            (line,) = (line for line in lines if f"Topic: {fields[1]}\t" in line)
            assert f"{fields[2]}={fields[3]}" in line
    assert len([line for line in lines if "principal=" in line]) == len([line for line in live if line[0] == "acl"])
