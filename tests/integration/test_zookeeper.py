"""Trees of real ZooKeeper servers that were killed: what their clients were shown, at the end and at each moment."""

from __future__ import annotations

import shutil
from itertools import islice
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.format.zookeeper.layout import FILE_HEADER
from kafkalog_core.format.zookeeper.snapshots import Snapshot, encode_snapshot
from kafkalog_core.format.zookeeper.txn_log import LogEntry, read_entry
from kafkalog_core.kafka.sim.zookeeper.data_dir import read_data_dir, read_snapshot
from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid, restore, transactions_from
from tests.integration.zookeeper_server import VERSIONS, ZooKeeperServer
from tests.support import jars
from tests.support.znodes import shown_lines

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.java]

COMPRESSED: Final = {"3.8.4": "gz", "3.9.3": "snappy"}
"""Releases whose snapshots are compressed here; 3.6 and later can do it."""
WITHOUT_NEW: Final = {"3.4.10"}
_NUMBER: Final = 2
"""Of the transaction that is damaged, from 0 on."""


@pytest.fixture(scope="module", params=VERSIONS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `data`, as a killed server left it, and `live.txt`, what a client was shown just before."""
    version: str = request.param
    place = tmp_path_factory.mktemp("zookeeper") / version
    place.mkdir()
    codec = COMPRESSED.get(version)
    options = () if codec is None else (f"-Dzookeeper.snapshot.compression.method={codec}",)
    try:
        with ZooKeeperServer(version, place / "data", *options) as server:
            lines = server.client("work", *(() if version in WITHOUT_NEW else ("new",)))
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    (place / "live.txt").write_text("\n".join(sorted(lines)) + "\n")
    return place


def lines_of(run: Path) -> set[str]:
    return set((run / "live.txt").read_text().splitlines())


def test_the_tree_is_what_a_client_was_shown(run: Path) -> None:
    restored = restore(read_data_dir(str(run / "data")))
    assert shown_lines(restored.tree) == lines_of(run)
    assert restored.can_be_restored
    assert restored.findings == []


def test_every_snapshot_leads_to_the_same_tree(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run / "data", tmp_path / "data")
    for snapshot in read_data_dir(str(copy)).snapshots:
        assert shown_lines(restore(read_data_dir(str(copy))).tree) == lines_of(run)
        (copy / "version-2" / snapshot.path.rpartition("/")[2]).unlink()


def test_the_tree_has_the_recorded_digest_after_each_transaction(run: Path) -> None:
    """Since 3.6 a transaction records the digest of the whole tree: the replay is right at every moment."""
    data_dir = read_data_dir(str(run / "data"))
    transactions = list(transactions_from(data_dir, 0, []))
    recorded = [each.zxid for each in transactions if each.digest is not None]
    assert bool(recorded) == (run.name >= "3.6")
    for zxid in recorded:
        restored = restore(data_dir, UntilZxid(zxid=zxid))
        assert (zxid, restored.digest_is_equal, restored.gaps) == (zxid, True, [])


def test_a_server_loads_the_snapshot_that_is_written_of_the_tree(run: Path, tmp_path: Path) -> None:
    """All of it in one snapshot, of the last transaction: its client is shown the same tree."""
    restored = restore(read_data_dir(str(run / "data")))
    version_dir = tmp_path / "data" / "version-2"
    version_dir.mkdir(parents=True)
    tree = restored.tree
    snapshot = Snapshot(sessions=tree.sessions, acls=tree.acl_table, nodes=tree.nodes)
    (version_dir / f"snapshot.{restored.last_zxid:x}").write_bytes(encode_snapshot(snapshot))
    with ZooKeeperServer(run.name, tmp_path / "data") as server:
        assert server.client() == lines_of(run)


def _entry(log: Path) -> LogEntry:
    """The third transaction of a log."""
    data, at = log.read_bytes(), FILE_HEADER.size
    for _ in range(_NUMBER + 1):
        entry = read_entry(data, at, is_last=True)
        assert isinstance(entry, LogEntry)
        at = entry.next_position
    return entry


def _codes(data_dir: Path) -> set[str]:
    return {finding.code for finding in restore(read_data_dir(str(data_dir))).findings}


def _late_log(data_dir: Path) -> Path:
    """The newest log with several transactions, which a start needs: later snapshots are removed."""
    version_dir = data_dir / "version-2"
    logs = sorted(version_dir.glob("log.*"), key=lambda path: int(path.suffix[1:], 16), reverse=True)
    log = next(path for path in logs if _has_more(path))
    for snapshot in read_data_dir(str(data_dir)).snapshots:
        if snapshot.zxid >= int(log.suffix[1:], 16):
            (version_dir / snapshot.path.rpartition("/")[2]).unlink()
    return log


def _has_more(log: Path) -> bool:
    """Whether a transaction follows the one that is damaged."""
    data, at = log.read_bytes(), FILE_HEADER.size
    for _ in range(_NUMBER + 2):
        entry = read_entry(data, at, is_last=True)
        if not isinstance(entry, LogEntry):
            return False
        at = entry.next_position
    return True


def test_a_server_does_not_start_on_a_wrong_checksum(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run / "data", tmp_path / "data")
    log = _late_log(copy)
    entry = _entry(log)
    data = bytearray(log.read_bytes())
    data[entry.end - 1] ^= 1
    log.write_bytes(data)
    assert "zookeeper.log-damaged" in _codes(copy)
    with ZooKeeperServer(run.name, copy) as server:
        assert not server.starts()
        assert "CRC check failed" in server.output


def test_a_server_ends_a_log_at_a_transaction_without_its_end(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run / "data", tmp_path / "data")
    log = _late_log(copy)
    entry = _entry(log)
    data = bytearray(log.read_bytes())
    data[entry.end] = 0
    log.write_bytes(data)
    assert {"zookeeper.log-hidden", "zookeeper.gap"} <= _codes(copy)
    for later in log.parent.glob("log.*"):
        if int(later.suffix[1:], 16) > int(log.suffix[1:], 16):
            later.unlink()
    last = int(log.suffix[1:], 16) + _NUMBER - 1  # before the damaged one, as the name of a log is its first zxid
    before = restore(read_data_dir(str(run / "data")), UntilZxid(zxid=last))
    with ZooKeeperServer(run.name, copy) as server:
        assert server.client() == shown_lines(before.tree)


def test_a_server_without_snapshots_starts_before_3_5_4_alone(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run / "data", tmp_path / "data")
    for path in (copy / "version-2").glob("snapshot.*"):
        path.unlink()
    assert _codes(copy) == {"zookeeper.no-snapshot"}
    with ZooKeeperServer(run.name, copy) as server:
        assert server.starts() == (run.name < "3.5")
        assert ("No snapshot found, but there are log entries" in server.output) == (run.name >= "3.5")


def test_a_server_goes_on_after_a_gap(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run / "data", tmp_path / "data")
    logs = sorted((copy / "version-2").glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
    lost = logs[-2]
    lost.unlink()
    for snapshot in islice(read_data_dir(str(copy)).snapshots, 2):
        (copy / "version-2" / snapshot.path.rpartition("/")[2]).unlink()
    assert "zookeeper.gap" in _codes(copy)
    with ZooKeeperServer(run.name, copy) as server:
        assert server.starts()


def test_a_server_takes_an_older_snapshot_if_the_newest_is_damaged(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run / "data", tmp_path / "data")
    newest = copy / "version-2" / read_data_dir(str(copy)).snapshots[0].path.rpartition("/")[2]
    data = bytearray(newest.read_bytes())
    data[-40] ^= 0x5A
    newest.write_bytes(data)
    restored = restore(read_data_dir(str(copy)))
    assert {finding.code for finding in restored.findings} == {"zookeeper.snapshot-damaged"}
    assert shown_lines(restored.tree) == lines_of(run)
    with ZooKeeperServer(run.name, copy) as server:
        assert server.client() == lines_of(run)


def test_snapshots_are_read_whatever_compressed_them(run: Path) -> None:
    snapshots = read_data_dir(str(run / "data")).snapshots
    assert {each.codec for each in snapshots} == {COMPRESSED.get(run.name, "")}
    assert all(read_snapshot(each).nodes for each in snapshots)
