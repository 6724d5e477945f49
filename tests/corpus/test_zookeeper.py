"""The trees of all old releases' ZooKeeper directories are those that were dumped from the live servers."""

from __future__ import annotations

import base64
import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.format.zookeeper.layout import FILE_HEADER
from kafkalog_core.format.zookeeper.snapshots import decode_snapshot, encode_snapshot
from kafkalog_core.format.zookeeper.transactions import decode_transaction, encode_transaction
from kafkalog_core.format.zookeeper.txn_log import LogEntry, read_entry
from kafkalog_core.kafka.sim.zookeeper.data_dir import read_data_dir
from kafkalog_core.kafka.sim.zookeeper.ensemble import best_of, end_of
from kafkalog_core.kafka.sim.zookeeper.restoring import restore
from kafkalog_core.topics.zookeeper_state import kafka_states
from tests.support.znodes import dumped, shown_nodes, unpacked

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

OWN_NODE = "/zookeeper/config"
"""Each server of 3.5 and later writes its own time there when it starts, without a transaction."""


@pytest.fixture
def trees(corpus: Path, tmp_path: Path) -> list[Path]:
    """The directories with a dumped tree: those of the corpus; where it is not there, those of fixtures/."""
    found = sorted(path.parent for path in (corpus / "old").glob("*/zk/*/tree.json"))
    return found or [unpacked(name, tmp_path) for name in ("groups-0.8.2.2", "k07-0.7.2", "ensemble-2.8.2")]


def servers(directory: Path) -> list[Path]:
    """The data directories of the servers that were copied with a tree."""
    return sorted(directory.glob("server.*")) or [directory]


def test_every_tree_is_that_of_the_live_server(trees: list[Path]) -> None:
    differing = {}
    for directory in trees:
        ends = [end_of(read_data_dir(str(each))) for each in servers(directory)]
        restored = restore(best_of(ends).data_dir)
        shown, live = shown_nodes(restored.tree), dumped(directory / "tree.json")
        names = {path for path in shown.keys() | live.keys() if shown.get(path) != live.get(path)} - {OWN_NODE}
        codes = {finding.code for finding in restored.findings} - {"zookeeper.no-snapshot"}
        if names or codes or not restored.can_be_restored:
            differing[directory] = (names, codes)
    assert differing == {}


def test_every_server_that_ends_with_the_others_has_the_same_tree(trees: list[Path]) -> None:
    for directory in trees:
        ends = [end_of(read_data_dir(str(each))) for each in servers(directory)]
        newest = best_of(ends).last_zxid
        shown = [
            {path: node for path, node in shown_nodes(restore(end.data_dir).tree).items() if path != OWN_NODE}
            for end in ends
            if end.last_zxid == newest
        ]
        assert all(each == shown[0] for each in shown)


def test_every_record_has_the_same_bytes_again(trees: list[Path]) -> None:
    records = 0
    for directory in trees:
        for path in directory.glob("**/version-2/*"):
            data = path.read_bytes()
            if path.name.startswith("snapshot."):
                assert encode_snapshot(decode_snapshot(data)) == data
            at = FILE_HEADER.size
            while path.name.startswith("log.") and isinstance(entry := read_entry(data, at, is_last=True), LogEntry):
                raw = data[entry.start : entry.end]
                assert encode_transaction(decode_transaction(raw)) == raw
                at = entry.next_position
                records += 1
    assert records > 100


def _nodes_of(live: dict[str, Any], above: str) -> dict[str, Any]:
    """The JSON of the nodes below one, by name, as they were dumped from the live server."""
    prefix = f"{above}/"
    return {
        path.removeprefix(prefix): json.loads(base64.b64decode(node["data_b64"]))
        for path, node in live.items()
        if path.startswith(prefix) and node["data_b64"] and "/" not in path.removeprefix(prefix)
    }


def test_the_cluster_is_that_of_the_live_tree(trees: list[Path]) -> None:
    """`kafkalog cluster` next to the nodes that a client of the live servers was shown."""
    compared = 0
    for directory in trees:
        live = dumped(directory / "tree.json")
        topics = _nodes_of(live, "/brokers/topics")
        done = CliRunner().invoke(cli, ["cluster", "--ndjson", *map(str, servers(directory))])
        if not topics:  # 0.7
            assert (done.exit_code, "kafkalog zookeeper" in done.stderr) == (3, True)
            continue
        found = [json.loads(line) for line in done.stdout.splitlines()]
        named = {row["topic"]: row["topic_id"] for row in found if row["type"] == "cluster_topic"}
        assert named == {name: node.get("topic_id") for name, node in topics.items()}
        shown = {
            (row["topic"], row["partition"]): (row["replicas"], row["leader"], row["leader_epoch"], row["isr"])
            for row in found
            if row["type"] == "cluster_partition"
        }
        for name, node in topics.items():
            for number, replicas in node["partitions"].items():
                state = _nodes_of(live, f"/brokers/topics/{name}/partitions/{number}")["state"]
                expected = (replicas, state["leader"], state["leader_epoch"], state["isr"])
                assert shown.pop((name, int(number))) == expected
        assert not shown
        brokers = {str(row["node_id"]): row["listeners"] for row in found if row["type"] == "cluster_broker"}
        registered = _nodes_of(live, "/brokers/ids")
        assert {name: [(each["host"], each["port"]) for each in listeners] for name, listeners in brokers.items()} == {
            name: [(node["host"], node["port"])] for name, node in registered.items()
        }
        settings: dict[str, dict[str, str]] = {}
        for row in found:
            if row["type"] == "cluster_config" and row["resource_type"] == "topic":
                settings.setdefault(row["resource"], {})[row["name"]] = row["value"]
        configured = {name: node["config"] for name, node in _nodes_of(live, "/config/topics").items()}
        assert settings == {name: config for name, config in configured.items() if config}
        compared += 1
    assert compared > 1


def test_the_volumes_of_an_ensemble_are_those_of_its_cluster(corpus: Path) -> None:
    """The broker of 2.8.2 was stopped cleanly, and its log directory copied, just before the servers were stopped."""
    for case in sorted((corpus / "old").glob("ensemble-2.8*")):
        words = [*servers(case / "zk" / "final"), case / "final" / "logdir"]
        done = CliRunner().invoke(cli, ["cluster", "--ndjson", *map(str, words)])
        assert done.exit_code == 0
        found = [json.loads(line) for line in done.stdout.splitlines()]
        (volume,) = [row for row in found if row["type"] == "cluster_directory"]
        (cluster,) = [row for row in found if row["type"] == "cluster"]
        assert (volume["cluster_id"], volume["strays"], volume["detail"]) == (cluster["cluster_id"], [], None)
        assert all(row["here"] == row["partitions"] for row in found if row["type"] == "cluster_topic")


def _checked(directory: Path) -> list[tuple[str, ...]]:
    """What kafka.tools.ConsumerOffsetChecker printed: group, topic, partition, offset, log size, lag, owner."""
    found = []
    for path in sorted(directory.glob("ConsumerOffsetChecker-zk*.txt")):
        lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
        found += [tuple(line) for line in lines[1:]]
    return found


def _rows(*arguments: object) -> list[dict[str, Any]]:
    done = CliRunner().invoke(cli, ["groups", "--jobs", "1", "--ndjson", *map(str, arguments)])
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_offsets_lag_and_owners_are_those_that_kafka_s_checker_printed(corpus: Path) -> None:
    cases = [
        path.parent for path in (corpus / "old").glob("groups-0.8*/expected") if (path.parent / "zk" / "live").is_dir()
    ]
    for case in cases:
        rows = _rows(case / "zk" / "live", case / "final" / "logdir")
        types = {row["group"] for row in rows if row["type"] == "group" and row["group_type"] == "zookeeper"}
        shown = {
            (row["group"], row["topic"], str(row["partition"]), str(row["offset"]), str(row["log_end_offset"]),
             str(row["lag"]), row["member_id"] or "none")
            for row in rows
            if row["type"] == "group_offset" and row["group"] in types
        }  # fmt: skip
        assert set(_checked(case / "expected")) <= shown


def test_what_is_exported_is_what_is_committed(trees: list[Path]) -> None:
    for directory in trees:
        state = next(iter(kafka_states(restore(read_data_dir(str(servers(directory)[0]))).tree.nodes)))
        groups = {name: group for name, group in state.groups.items() if group.offsets and not group.is_07}
        if not groups:
            continue
        named = [option for name in groups for option in ("--group", name)]
        done = CliRunner().invoke(cli, ["groups", "--export", "csv", *named, str(servers(directory)[0])])
        lines = [tuple(line[-3:]) for line in csv.reader(io.StringIO(done.stdout))]
        assert sorted(lines) == sorted(
            (topic, number, str(each.offset))
            for group in groups.values()
            for (topic, number), each in group.offsets.items()
        )
