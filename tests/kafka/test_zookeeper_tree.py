"""Trees from the files of real ZooKeeper servers: equal to what clients were shown; damage and gaps are found."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import SelectionError, UnknownFileError
from kafkalog_core.format.zookeeper.layout import FILE_HEADER
from kafkalog_core.format.zookeeper.txn_log import LogEntry, read_entry
from kafkalog_core.kafka.sim.zookeeper.changes import changes_under, differing
from kafkalog_core.kafka.sim.zookeeper.data_dir import is_data_dir, read_data_dir
from kafkalog_core.kafka.sim.zookeeper.ensemble import best_of, differences, end_of, majority_zxid
from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid, restore, transactions_from
from kafkalog_core.kafka.sim.zookeeper.tree import is_next, node_kind
from tests.support.for_each import for_each
from tests.support.znodes import SERVERS, dumped, shown_lines, shown_nodes, unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.kafka.sim.zookeeper.restoring import Restored


def restored(directory: Path) -> Restored:
    return restore(read_data_dir(str(directory)))


def codes(directory: Path) -> list[str]:
    return [finding.code for finding in restored(directory).findings]


def last_log(directory: Path) -> Path:
    return max((directory / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16))


def entries(log: Path) -> list[LogEntry]:
    data, at, found = log.read_bytes(), FILE_HEADER.size, []
    while isinstance(entry := read_entry(data, at, is_last=True), LogEntry):
        found.append(entry)
        at = entry.next_position
    return found


def change(log: Path, position: int, value: bytes) -> None:
    data = bytearray(log.read_bytes())
    data[position : position + len(value)] = value
    log.write_bytes(data)


@pytest.mark.parametrize("version", SERVERS)
def test_the_tree_is_what_a_client_was_shown(version: str, tmp_path: Path) -> None:
    run = unpacked(version, tmp_path)
    found = restored(run / "data")
    assert shown_lines(found.tree) == set((run / "live.txt").read_text().splitlines())
    assert (found.can_be_restored, found.findings) == (True, [])
    assert found.digest_is_equal is (True if version >= "3.6" else None)


@pytest.mark.parametrize("version", SERVERS)
def test_the_tree_at_a_transaction_has_its_digest(version: str, tmp_path: Path) -> None:
    """Every seventh moment here; the real servers' tests have each."""
    data_dir = read_data_dir(str(unpacked(version, tmp_path) / "data"))
    zxids = [each.zxid for each in transactions_from(data_dir, 0, []) if each.digest is not None]
    for zxid in zxids[::7]:
        assert restore(data_dir, UntilZxid(zxid=zxid)).digest_is_equal


@pytest.mark.parametrize("name", ["groups-0.8.2.2", "k07-0.7.2"])
def test_the_tree_of_a_kafka_cluster_is_the_live_one(name: str, tmp_path: Path) -> None:
    """ZooKeeper 3.4.6, and 3.3, which counts deleted children in the cversion."""
    directory = unpacked(name, tmp_path)
    assert shown_nodes(restored(directory).tree) == dumped(directory / "tree.json")


def test_an_ensemble_is_read_where_it_has_the_most(tmp_path: Path) -> None:
    directory = unpacked("ensemble-2.8.2", tmp_path)
    ends = [end_of(read_data_dir(str(directory / f"server.{number}"))) for number in (3, 2, 1)]
    best = best_of(ends)
    assert best.data_dir.server_id == 2
    assert hex(majority_zxid(ends)) == hex(best.last_zxid) == "0x200000042"
    assert [(each.code, each.path[-8:]) for each in differences(ends, best)] == [("zookeeper.behind", "server.3")]
    lagging = restored(directory / "server.3")
    assert lagging.can_be_restored
    assert "/brokers/topics/later0" not in lagging.tree.nodes
    shown, live = shown_nodes(restore(best.data_dir).tree), dumped(directory / "tree.json")
    # Each server writes its own time into this node when it starts, without a transaction.
    own = "/zookeeper/config"
    assert shown.pop(own)["data_b64"] == live.pop(own)["data_b64"]
    assert shown == live


def test_a_server_that_went_another_way_is_named(tmp_path: Path) -> None:
    """The last transaction of a server has a zxid under which the others have another one."""
    directory = unpacked("ensemble-2.8.2", tmp_path)
    log = last_log(directory / "server.3")
    last = entries(log)[-1]
    raw = bytearray(log.read_bytes()[last.start : last.end])
    raw[8:12] = b"\0\0\7\7"  # the cxid
    data = bytearray(log.read_bytes())
    from kafkalog_core.format.zookeeper.txn_log import frame_bytes  # noqa: PLC0415 -- of this test alone

    data[last.position : last.next_position] = frame_bytes(bytes(raw))
    log.write_bytes(data)
    ends = [end_of(read_data_dir(str(directory / f"server.{number}"))) for number in (1, 2, 3)]
    assert [each.code for each in differences(ends, best_of(ends))] == ["zookeeper.same-zxid"]


def test_a_torn_end_is_no_damage(tmp_path: Path) -> None:
    data = unpacked("3.8.4", tmp_path) / "data"
    log = last_log(data)
    last = entries(log)[-1]
    log.write_bytes(log.read_bytes()[: last.end - 3])
    found = restored(data)
    assert [(each.code, each.severity) for each in found.findings] == [("zookeeper.log-torn", "info")]
    assert (found.can_be_restored, found.digest_is_equal) == (True, True)


def test_a_wrong_checksum_leaves_a_gap(tmp_path: Path) -> None:
    data = unpacked("3.8.4", tmp_path) / "data"
    log = last_log(data)
    change(log, entries(log)[3].start + 20, b"\xff")
    found = restored(data)
    assert [each.code for each in found.findings] == ["zookeeper.log-damaged", "zookeeper.gap"]
    assert [last - first for first, last in found.gaps] == [0]
    assert not found.can_be_restored


@pytest.mark.parametrize("what", ["zeros", "end byte"])
def test_transactions_behind_what_a_server_takes_for_the_end_are_read(what: str, tmp_path: Path) -> None:
    data = unpacked("3.8.4", tmp_path) / "data"
    log = last_log(data)
    entry = entries(log)[3]
    end = entry.next_position
    if what == "zeros":
        change(log, entry.position, bytes(end - entry.position))
    else:
        change(log, entry.end, b"\0")
    found = restored(data)
    assert [each.code for each in found.findings] == ["zookeeper.log-hidden", "zookeeper.gap"]
    assert found.last_zxid == 0x91


def test_a_damaged_snapshot_is_replaced_by_an_older_one(tmp_path: Path) -> None:
    run = unpacked("3.6.3", tmp_path)
    newest = read_data_dir(str(run / "data")).snapshots[0]
    change(run / "data" / "version-2" / newest.path.rpartition("/")[2], 3000, b"?")
    found = restored(run / "data")
    assert [each.code for each in found.findings] == ["zookeeper.snapshot-damaged"]
    assert shown_lines(found.tree) == set((run / "live.txt").read_text().splitlines())


def test_without_a_snapshot_every_transaction_is_needed(tmp_path: Path) -> None:
    data = unpacked("3.6.3", tmp_path) / "data"
    for path in (data / "version-2").glob("snapshot.*"):
        path.unlink()
    assert codes(data) == ["zookeeper.no-snapshot"]
    min((data / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16)).unlink()
    assert codes(data)[-1] == "zookeeper.gap"


def test_a_fuzzy_snapshot_without_its_log_is_of_no_moment(tmp_path: Path) -> None:
    """It has effects of transactions after its own: without these it is a mixture."""
    directory = unpacked("groups-0.8.2.2", tmp_path)
    for path in (directory / "version-2").iterdir():
        if path.name != "snapshot.49":
            path.unlink()
    found = restored(directory)
    assert (found.last_zxid, found.gaps) == (0x49, [(0x4A, 0x4A)])
    assert [each.code for each in found.findings] == ["zookeeper.no-log", "zookeeper.gap"]


def test_the_tree_at_a_moment_within_a_fuzzy_snapshot_begins_with_an_older_one(tmp_path: Path) -> None:
    data_dir = read_data_dir(str(unpacked("groups-0.8.2.2", tmp_path)))
    found = restore(data_dir, UntilZxid(zxid=0x49))
    assert found.snapshot is not None
    assert (found.snapshot.zxid, found.last_zxid, found.tree.newest_zxid()) == (0x2A, 0x49, 0x47)


def test_a_moment_before_the_files_is_an_error(tmp_path: Path) -> None:
    directory = str(unpacked("groups-0.8.2.2", tmp_path))
    with pytest.raises(SelectionError, match="the logs begin at"):
        restore(read_data_dir(directory), UntilZxid(time_ms=5))
    late = restore(read_data_dir(directory), UntilZxid(time_ms=2**62))
    assert (hex(late.last_zxid), late.is_cut) == ("0xb2", False)


def test_other_directories_are_not_taken_for_a_server_s(tmp_path: Path) -> None:
    """A topic named version has a partition directory of that name too."""
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "00000000000000000000.log").touch()
    assert not is_data_dir(str(tmp_path))
    with pytest.raises(UnknownFileError, match="no snapshot and no transaction log"):
        read_data_dir(str(tmp_path))


def test_logs_may_be_in_another_directory(tmp_path: Path) -> None:
    data = unpacked("3.5.9", tmp_path) / "data"
    logs = tmp_path / "logs" / "version-2"
    logs.mkdir(parents=True)
    whole = shown_lines(restored(data).tree)
    for path in (data / "version-2").glob("log.*"):
        shutil.move(path, logs)
    assert shown_lines(restore(read_data_dir(str(data), str(tmp_path / "logs"))).tree) == whole


def test_changes_of_a_subtree_in_their_order(tmp_path: Path) -> None:
    data_dir = read_data_dir(str(unpacked("3.8.4", tmp_path) / "data"))
    events = list(changes_under(data_dir, "/brokers/ids", UntilZxid(), []))
    assert [(event.change, event.path) for event in events] == [
        ("created", "/brokers/ids"),
        ("created", "/brokers/ids/2"),
        ("created", "/brokers/ids/3"),
        ("deleted", "/brokers/ids/3"),
        ("session-closed", "/brokers/ids/2"),
        ("created", "/brokers/ids/1"),
    ]
    assert [event.before for event in changes_under(data_dir, "/multi", UntilZxid(), [])][:2] == [None, None]


def test_what_differs_between_two_moments(tmp_path: Path) -> None:
    data_dir = read_data_dir(str(unpacked("3.8.4", tmp_path) / "data"))
    after = restore(data_dir)
    created = after.tree.nodes["/multi"].stat.czxid
    before = restore(data_dir, UntilZxid(zxid=created - 1))
    assert [(each.change, each.path) for each in differing(before.tree, after.tree, "/multi")] == [
        ("created", "/multi")
    ]
    assert ("changed", "/empty") in [(each.change, each.path) for each in differing(before.tree, after.tree)]
    assert [each.change for each in differing(after.tree, before.tree, "/multi")] == ["deleted"]


@for_each(
    [(1, 0, True), (2, 0, False), (0x100000001, 5, True), (0x100000002, 5, False), (0x100000001, 0x200000000, False)]
)
def test_a_leader_counts_without_a_gap(case: tuple[int, int, bool]) -> None:
    zxid, before, follows = case
    assert is_next(zxid, before) is follows


@for_each(
    [(0, "persistent"), (5, "ephemeral"), (-(2**63), "container"), (-(2**56) + 7, "ttl"), (-(2**55), "ephemeral")]
)
def test_what_an_owner_means(case: tuple[int, str]) -> None:
    owner, kind = case
    assert node_kind(owner) == kind
