"""`kafkalog cluster` over data directories of ZooKeeper: what the admin client of the live cluster described."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from kafkalog_cli.main import cli
from kafkalog_core.format.zookeeper.snapshots import Znode, decode_snapshot, encode_snapshot
from tests.support.znodes import unpacked

FIXTURES: Final = Path(__file__).parents[3] / "fixtures"
ENSEMBLE: Final = FIXTURES / "ensemble"
Row = dict[str, Any]


def run(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli, ["cluster", *map(str, words)], catch_exceptions=False)


def rows(*words: object) -> dict[str, list[Row]]:
    """The rows by type."""
    found: dict[str, list[Row]] = {}
    for line in run("--ndjson", *words).stdout.splitlines():
        row = json.loads(line)
        found.setdefault(row["type"], []).append(row)
    return found


@pytest.fixture
def secured(tmp_path: Path) -> Path:
    return unpacked("kafka-3.9.2", tmp_path)


def test_the_first_screen_has_the_cluster(secured: Path) -> None:
    lines = run(secured / "data", secured / "logdir").stdout.splitlines()
    assert lines[0] == (
        "CLUSTER Nxx5RAv0QBqUAHs4pxv0Ew at /kafka/prod: with ZooKeeper up to zxid 0x82, 1 broker alive, controller 1 "
        "(epoch 1), 2 topics, 5 partitions."
    )
    text = " ".join(" ".join(lines).split())
    assert "1 PLAINTEXT 127.0.0.1:29502 r1 5 5" in text
    assert "The cluster id is that of meta.properties in" in text
    assert "5 partitions of broker 1 are in none of its log directories here: orders-0" in text


def test_the_rows_are_what_the_live_admin_client_described(secured: Path) -> None:
    """live.txt: written by the AdminClient of 3.9.2 just before the servers were killed."""
    live = list(csv.reader((secured / "live.txt").read_text().splitlines(), delimiter="\t"))
    said = {kind: {tuple(line[1:]) for line in live if line[0] == kind} for kind in {line[0] for line in live}}
    found = rows(secured / "data")
    (cluster,) = found["cluster"]
    assert {(cluster["cluster_id"], str(cluster["leader_id"]))} == said["cluster"]
    partitions = {
        (
            row["topic"],
            row["topic_id"],
            str(row["partition"]),
            str(row["leader"]),
            str(row["replicas"]),
            str(row["isr"]),
        )
        for row in found["cluster_partition"]
    }
    assert partitions == said["partition"]
    names = ("resource_type", "pattern_type", "resource", "principal", "permission", "operation", "host")
    assert {tuple(row[name] for name in names) for row in found["cluster_acl"]} == said["acl"]
    assert {row["acl_id"] for row in found["cluster_acl"]} == {None}
    users = {(row["user"], row["mechanism"], str(row["iterations"])) for row in found["cluster_user"]}
    assert users == said["user"]
    quotas = {
        (
            "{" + ", ".join(f"{kind}={name or 'null'}" for kind, name in sorted(row["entity"].items())) + "}",
            f"{{{row['name']}={row['value']}}}",
        )
        for row in found["cluster_quota"]
    }
    assert quotas == said["quota"]
    configs = {
        (f"{row['resource_type']}s", row["resource"], row["name"], row["value"])
        for row in found["cluster_config"]
        if row["resource_type"] == "topic"
    }
    assert configs == {line for line in said["config"] if line[0] == "topics"}
    assert {row["value"] for row in found["cluster_config"] if row["is_secret"]} == {None}


def test_what_zookeeper_does_not_have_is_absent() -> None:
    found = rows(ENSEMBLE)
    (cluster,) = found["cluster"]
    absent = ("base_offset", "end_offset", "kraft_version", "metadata_version")
    assert [cluster[name] for name in absent] == [None] * 4
    assert (cluster["voters"], cluster["zxid"], cluster["chroot"], cluster["dead"]) == ([], 0x82, "/kafka/prod", [])
    assert "cluster_controller" not in found
    assert all(row["directories"] == [] for row in found["cluster_partition"])


def test_a_topic_with_its_history_in_zookeeper() -> None:
    text = run("--topic", "orders", ENSEMBLE).stdout
    assert "orders-2        1      0  1         1" in text
    assert f"kafkalog zookeeper --history /kafka/prod/brokers/topics/orders {ENSEMBLE}" in text
    assert "retention.ms    777000" in text


def test_nodes_that_were_not_alive_are_in_the_first_line(tmp_path: Path) -> None:
    first = run(unpacked("3.9.3", tmp_path) / "data").stdout.splitlines()[0]
    assert "1 broker alive, no controller" in first
    assert "BROKER 2 NOT ALIVE; 20 PARTITIONS WITHOUT A LEADER" in first


def test_a_tree_with_a_gap_is_not_whole(tmp_path: Path) -> None:
    directory = unpacked("groups-0.8.2.2", tmp_path)
    (directory / "version-2" / "snapshot.99").unlink()
    (directory / "version-2" / "log.6a").unlink()
    done = run(directory)
    assert done.exit_code == 4
    assert "THE TREE OF ZOOKEEPER CANNOT BE RESTORED AS A WHOLE" in done.stdout.splitlines()[0]
    script = run("--recreate", "shell", directory)
    assert (script.exit_code, "It is not whole" in script.stderr) == (4, True)


def test_a_log_directory_of_another_cluster_is_found(secured: Path) -> None:
    file = secured / "logdir" / "meta.properties"
    file.write_text(file.read_text().replace("Nxx5RAv0QBqUAHs4pxv0Ew", "J7uHl5JGSxWCqb4unebxMQ"))
    done = run(secured / "data", secured / "logdir")
    assert done.exit_code == 4
    assert "LOOK AT" in done.stdout.splitlines()[0]
    assert "zookeeper.other-cluster" in done.stdout


def test_moments_and_differences(tmp_path: Path) -> None:
    created = rows("--diff", "2026-11-30T07:58:30Z", ENSEMBLE)["cluster_difference"]
    added = {(row["kind"], row["what"]) for row in created}
    assert ("cluster_acl", "User:bob DENY WRITE 10.0.0.1 TOPIC orders LITERAL") in added
    assert {row["change"] for row in created} == {"added"}
    assert rows("--at", "2026-11-30T07:58:31Z", ENSEMBLE)["cluster"][0]["topics"] == 0
    (then,) = rows("--at", "0x1e", ENSEMBLE)["cluster"]
    assert (then["zxid"], then["topics"]) == (0x1E, 0)
    since = rows("--diff", "0x1e", ENSEMBLE)["cluster_difference"]
    assert [row for row in since if row["kind"] != "cluster_broker"] == created[1:]
    assert "kafkalog cluster --topic orders --at 0x80" in run("--at", "0x80", ENSEMBLE).stdout
    migrating = unpacked("migrating-3.9.2", tmp_path) / "data"
    assert "cluster_difference" not in rows("--topic", "orders", "--diff", ENSEMBLE, migrating)
    mixed = rows("--diff", FIXTURES / "demo", ENSEMBLE)["cluster_difference"]
    assert {row["column"] for row in mixed if row["kind"] == "cluster_broker"} == {"listeners", "rack", "replicas"}
    assert "cluster_feature" not in {row["kind"] for row in mixed}


def test_a_migration_that_was_begun_is_noted(tmp_path: Path) -> None:
    text = run(unpacked("migrating-3.9.2", tmp_path) / "data").stdout
    assert "controller 3000 (epoch 3)" in text.splitlines()[0]
    assert "A migration to KRaft was begun" in text


def test_the_same_cluster_again() -> None:
    script = run("--recreate", "shell", "--assignments", ENSEMBLE).stdout
    assert f"# Read from {ENSEMBLE} up to zxid 0x82." in script
    assert "--topic orders --replica-assignment 1,1,1 --config cleanup.policy=compact" in script
    assert "set by hand, because they are secrets: listener.name.plaintext.ssl.keystore.password" in script
    assert "scram_user 'b b+*' SCRAM-SHA-256 4096" in script
    assert "--allow-principal User:alice --allow-host '*' --operation All --group team-" in script
    assert 'topicName: "payments"' in run("--recreate", "strimzi", ENSEMBLE).stdout


def test_secrets_are_shown_only_when_they_are_asked_for() -> None:
    for form in ("table", "ndjson", "csv"):
        assert "doX9JtKHQPK9RAIh2FhNaQ" not in run("--config", "--users", "--output", form, ENSEMBLE).stdout
    assert "doX9JtKHQPK9RAIh2FhNaQ" in run("--output", "ndjson", "--show-secrets", ENSEMBLE).stdout


def test_of_several_clusters_the_one_of_the_log_directories_is_shown(secured: Path, tmp_path: Path) -> None:
    directory = tmp_path / "shared" / "version-2"
    directory.mkdir(parents=True)
    snapshot = decode_snapshot(memoryview((ENSEMBLE / "version-2" / "snapshot.59").read_bytes()))
    for path, node in list(snapshot.nodes.items()):
        if path.startswith("/kafka/prod"):
            other = Znode(node.data, node.packed)
            if path.endswith("/cluster/id"):
                other.data = b'{"version":"1","id":"J7uHl5JGSxWCqb4unebxMQ"}'
            snapshot.nodes[path.replace("/kafka/prod", "/other")] = other
    (directory / "snapshot.59").write_bytes(encode_snapshot(snapshot))
    done = run(directory.parent)
    assert done.exit_code == 3
    assert "the tree has 2 Kafka clusters, below /other, /kafka/prod: name a log directory" in done.stderr
    (cluster,) = rows(directory.parent, secured / "logdir")["cluster"]
    assert (cluster["chroot"], cluster["cluster_id"]) == ("/kafka/prod", "Nxx5RAv0QBqUAHs4pxv0Ew")


def test_what_cannot_be_shown_is_refused_with_the_command_that_does(tmp_path: Path) -> None:
    history = run("--history", ENSEMBLE)
    assert (history.exit_code, "kafkalog zookeeper --history /brokers/topics" in history.stderr) == (2, True)
    offset = run("--at", "45", ENSEMBLE)
    assert (offset.exit_code, "a time or a zxid, such as 0x200000045" in offset.stderr) == (3, True)
    zxid = run("--at", "0x45", FIXTURES / "demo")
    assert (zxid.exit_code, "a metadata log has offsets, not zxids" in zxid.stderr) == (3, True)
    assert run("--at", "0xyz", ENSEMBLE).exit_code == 2
    old = unpacked("k07-0.7.2", tmp_path)
    done = run(old)
    assert (done.exit_code, f"run: kafkalog zookeeper {old}" in done.stderr) == (3, True)
    empty = tmp_path / "logdir"
    empty.mkdir()
    (empty / "meta.properties").write_text("version=0\nbroker.id=1\n")
    assert "name the dataDir of a ZooKeeper server too" in run(empty).stderr
