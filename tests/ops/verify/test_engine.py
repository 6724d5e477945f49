"""The same verdicts in the same order, whoever makes them; and a directory that is not the same all the time."""

from __future__ import annotations

import os
import pickle
import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine import processes, spool
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import NotFoundError
from kafkalog_core.ops.verify import engine, work
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from tests.ops.verify.keeper import NOW_MS, Kept
from tests.support import build
from tests.support.corpus.snapshots import snapshots
from tests.support.log_dirs import write_log_dir
from tests.support.logs import records, write_segments
from tests.support.partitions import PartitionWriter

if TYPE_CHECKING:
    from pathlib import Path


class Acting:
    """Does something when so much has been read."""

    def __init__(self, act):
        self._act = act
        self.bytes = self.expected = 0

    def expect(self, size_bytes):
        self.expected += size_bytes

    def advance(self, size_bytes):
        self.bytes += size_bytes
        act, self._act = self._act, None
        if act is not None:
            act()


class Elsewhere:
    """Workers that share nothing with this process: whatever goes to them and back is pickled."""

    jobs = 3
    scratch = None

    def __init__(self):
        self.maps = []

    def map(self, work_of, pieces):
        self.maps.append(0)
        number = len(self.maps) - 1
        for piece in pieces:
            self.maps[number] += 1
            work, sent = _sent((work_of, piece))
            yield _sent(work(*sent, lambda size_bytes: None))


def _sent(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - made here


def check(*paths, jobs=1, progress=None, keeper=None, workers=None):
    request = VerifyRequest(targets=tuple(resolve([str(path) for path in paths])), now_ms=NOW_MS, jobs=jobs)
    return list(verify(request, progress or Acting(None), keeper, workers=workers))


def write(path: Path, segments: int = 3, **options) -> PartitionWriter:
    writer = PartitionWriter(path, **options)
    writer.begin()
    for _ in range(segments):
        writer.segment()
    return writer


def codes(verdicts):
    return [(finding.severity, finding.code) for verdict in verdicts for finding in verdict.findings]


def damage(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


# --- several processes ------------------------------------------------------------------------------------------------
@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes from the first partition on, and segment by segment."""
    monkeypatch.setattr(engine, "_ALONE_WORK", 0)
    monkeypatch.setattr(engine, "SHARED_PARTITION_BYTES", 0)


def test_what_a_broker_writes_is_healthy(tmp_path: Path) -> None:
    write(tmp_path / "t-0")
    assert codes(check(tmp_path / "t-0")) == []


@pytest.mark.corpus
@pytest.mark.usefixtures("eager")
def test_two_processes_say_what_one_says(corpus: Path) -> None:
    log_dirs = sorted({corpus / snapshot.log_dir for snapshot in snapshots() if snapshot.fault is None})
    alone = check(*log_dirs)
    assert check(*log_dirs, jobs=2) == alone


def test_a_large_partition_is_put_together_out_of_its_segments(tmp_path: Path) -> None:
    writer = write(tmp_path / "t-0", segments=5, value_bytes=2_000_000)
    damage(tmp_path / "t-0" / f"{writer.bases[1]:020d}.log", 7_000_000)
    (tmp_path / "t-0" / f"{writer.bases[3]:020d}.snapshot").write_bytes(build.snapshot([]))
    alone, kept, kept_by_two = check(tmp_path / "t-0"), Kept(), Kept()
    assert {"batch.crc-mismatch", "snapshot.wrong-state"} & {code for _, code in codes(alone)}
    assert sum(segment.size_bytes for segment in alone[0].segments) > work.SHARED_PARTITION_BYTES
    progress = Acting(None)
    assert check(tmp_path / "t-0", jobs=2, progress=progress) == alone
    assert progress.bytes == sum(segment.size_bytes for segment in alone[0].segments)
    assert check(tmp_path / "t-0", keeper=kept) == check(tmp_path / "t-0", jobs=2, keeper=kept_by_two) == alone
    assert kept.lines == kept_by_two.lines
    for partition, lines in kept.lines.items():
        kept.lines[partition] = lines[:1]
    assert check(tmp_path / "t-0", jobs=2, keeper=kept) == alone
    assert kept.skipped_bytes == alone[0].segments[0].size_bytes


def test_files_and_large_partitions_among_small_ones_keep_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log_dir(tmp_path / "kafka", [f"s-{number}" for number in range(6)])
    write(tmp_path / "kafka" / "a-0", segments=2)
    write(tmp_path / "kafka" / "s-9", segments=2)
    write(tmp_path / "x-1", segments=2)
    paths = [tmp_path / "kafka", tmp_path / "x-1", tmp_path / "kafka" / "meta.properties"]
    alone = check(*paths)
    for pieces in (0, 1, 3, 8):
        monkeypatch.setattr(engine, "_ALONE_WORK", pieces)
        assert check(*paths, jobs=2) == alone


def test_little_work_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(processes, "Pool")
    write_log_dir(tmp_path / "kafka", [f"s-{number}" for number in range(20)])
    assert check(tmp_path / "kafka", jobs=4) == check(tmp_path / "kafka")


def test_a_single_large_segment_needs_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "t-0", segments=1)
    monkeypatch.delattr(processes, "Pool")
    monkeypatch.setattr(work, "SHARED_PARTITION_BYTES", 0)
    assert check(tmp_path / "t-0", jobs=4) == check(tmp_path / "t-0")


# --- workers of somebody else's --------------------------------------------------------------------------------------
@pytest.mark.parametrize("alone", [0, 2, 100])
def test_workers_that_share_nothing_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: int) -> None:
    """Large partitions are cut, side by side with others, and what is spooled travels in the results."""
    monkeypatch.setattr(engine, "_ALONE_WORK", alone)
    monkeypatch.setattr(work, "SHARED_PARTITION_BYTES", 2000)
    monkeypatch.setattr(engine, "SHARED_PARTITION_BYTES", 2000)
    monkeypatch.setattr(spool, "_BLOCK_BYTES", 100)
    write_log_dir(tmp_path / "kafka", [f"s-{number}" for number in range(4)])
    for name in ("a-0", "b-0", "s-9"):
        writer = write(tmp_path / "kafka" / name, segments=3)
    damage(tmp_path / "kafka" / "b-0" / f"{writer.bases[1]:020d}.log", 100)
    write(tmp_path / "x-1", segments=2)
    paths = [tmp_path / "kafka", tmp_path / "x-1", tmp_path / "kafka" / "meta.properties"]
    alone_verdicts, workers, kept, kept_elsewhere = check(*paths), Elsewhere(), Kept(), Kept()
    assert check(*paths, workers=workers) == alone_verdicts
    assert workers.maps
    assert check(*paths, keeper=kept) == check(*paths, keeper=kept_elsewhere, workers=workers) == alone_verdicts
    assert kept.lines == kept_elsewhere.lines


def test_segments_of_several_large_partitions_are_one_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SHARED_PARTITION_BYTES", 0)
    monkeypatch.setattr(engine, "SHARED_PARTITION_BYTES", 2000)
    write_log_dir(tmp_path / "kafka", [])
    for name in ("a-0", "b-0", "c-0"):
        write(tmp_path / "kafka" / name, segments=4)
    workers = Elsewhere()
    assert check(tmp_path / "kafka", workers=workers) == check(tmp_path / "kafka")
    assert workers.maps == [12]


def test_small_segments_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SHARED_PARTITION_BYTES", 0)
    monkeypatch.setattr(engine, "SHARED_PARTITION_BYTES", 10_000)
    write(tmp_path / "t-0", segments=60)
    workers = Elsewhere()
    assert check(tmp_path / "t-0", workers=workers) == check(tmp_path / "t-0")
    [pieces] = workers.maps
    assert 12 <= pieces <= 20


def test_among_many_partitions_a_large_one_is_done_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger than little goes to the workers, but only what is larger than the others is cut."""
    monkeypatch.setattr(work, "SHARED_PARTITION_BYTES", 1000)
    monkeypatch.setattr(engine, "SHARED_PARTITION_BYTES", 1000)
    write_log_dir(tmp_path / "kafka", [])
    for number in range(20):
        write(tmp_path / "kafka" / f"a-{number}", segments=2)
    workers = Elsewhere()
    assert check(tmp_path / "kafka", workers=workers) == check(tmp_path / "kafka")
    assert workers.maps == [20]
    write(tmp_path / "kafka" / "b-0", segments=40)
    workers = Elsewhere()
    assert check(tmp_path / "kafka", workers=workers) == check(tmp_path / "kafka")
    assert len(workers.maps) == 2


# --- a directory that changes meanwhile -------------------------------------------------------------------------------
def test_a_log_that_grows_is_checked_up_to_where_it_was(tmp_path: Path) -> None:
    writer = write(tmp_path / "t-0", segments=2)
    assert codes(check(tmp_path / "t-0", progress=Acting(lambda: writer.append(rounds=2)))) == []
    write(tmp_path / "u-0", segments=1)
    log = tmp_path / "u-0" / f"{0:020d}.log"
    data = log.read_bytes()
    log.write_bytes(data[:-5])  # in a marker, which its index knows already
    assert ("info", "file.grew") not in codes(check(tmp_path / "u-0"))
    assert "log.torn-tail" in {code for _, code in codes(check(tmp_path / "u-0"))}
    found = codes(check(tmp_path / "u-0", progress=Acting(lambda: log.write_bytes(data))))
    known = {("warning", "txnindex.unknown-entry"), ("warning", "partition.changing"), ("warning", "txn.open")}
    assert [one for one in found if one not in known] == [("info", "file.grew")]


def test_a_partition_that_is_rolled_and_loses_its_first_segment(tmp_path: Path) -> None:
    writer = write(tmp_path / "t-0", segments=3)

    def live() -> None:
        for file in (tmp_path / "t-0").glob(f"{writer.bases[1]:020d}.*"):
            file.unlink()
        writer.segment()

    found = codes(check(tmp_path / "t-0", progress=Acting(live)))
    assert "error" not in {severity for severity, _ in found}
    assert ("info", "file.vanished") in found


def test_a_leader_that_is_new_meanwhile(tmp_path: Path) -> None:
    """A broker replaces the epochs by a rename, before it appends: the new ones are read after the log."""
    place = tmp_path / "t-0"
    write_segments(place, {base: build.batch_v2(records(base, 10), leader_epoch=0) for base in (0, 10, 20)})
    epochs, log = place / "leader-epoch-checkpoint", place / f"{20:020}.log"
    epochs.write_text("0\n1\n0 0\n")

    def lead() -> None:
        new = place / "leader-epoch-checkpoint.tmp"
        new.write_text("0\n2\n0 0\n1 30\n")
        new.rename(epochs)
        with log.open("ab") as file:
            file.write(build.batch_v2(records(30, 5), leader_epoch=1))

    before = codes(check(place))
    assert codes(check(place, progress=Acting(lead))) in ([*before, ("info", "file.grew")], before)


def test_damage_in_what_stays_as_it_was_is_an_error_all_the_same(tmp_path: Path) -> None:
    writer = write(tmp_path / "t-0", segments=3)
    damage(tmp_path / "t-0" / f"{writer.bases[1]:020d}.log", 70)
    found = codes(check(tmp_path / "t-0", progress=Acting(writer.append)))
    assert ("error", "batch.crc-mismatch") in found
    (tmp_path / "t-0" / f"{writer.bases[1]:020d}.log").rename(tmp_path / "hidden")
    shutil.copy(tmp_path / "hidden", tmp_path / "t-0" / f"{writer.bases[1]:020d}.log")
    found = codes(
        check(
            tmp_path / "t-0",
            progress=Acting(lambda: os.utime(tmp_path / "t-0" / f"{writer.bases[1]:020d}.log", (5, 5))),
        )
    )
    assert ("warning", "batch.crc-mismatch") in found
    assert ("warning", "partition.changing") in found


def test_a_partition_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    write_log_dir(tmp_path / "kafka", ["s-1"])
    write(tmp_path / "kafka" / "a-0")
    found = codes(check(tmp_path / "kafka", progress=Acting(lambda: shutil.rmtree(tmp_path / "kafka" / "s-1"))))
    assert ("info", "file.vanished") in found
    assert "dir.unreadable" not in {code for _, code in found}


def test_a_file_that_was_named_itself_and_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "t-0", segments=1)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    damage(path, 70)
    request = VerifyRequest(targets=tuple(resolve([str(path)])), now_ms=NOW_MS)
    [verdict] = list(verify(request))
    assert ("error", "batch.crc-mismatch") in codes([verdict])
    assert isinstance(verdict, PartitionVerdict)
    assert engine.with_doubts(verdict) is verdict
    path.unlink()
    with pytest.raises(NotFoundError):
        resolve([str(path)])
    assert {severity for severity, _ in codes([engine.with_doubts(verdict)])} == {"warning"}


def test_errors_are_before_other_findings_and_in_the_order_of_the_files(tmp_path: Path) -> None:
    write(tmp_path / "t-0", segments=4)
    first, gone, *others = sorted((tmp_path / "t-0").glob("*.log"))
    gone.unlink()
    for path in (first, *others):
        damage(path, 70)
    [verdict] = check(tmp_path / "t-0")
    severities = [finding.severity for finding in verdict.findings]
    assert severities == sorted(severities, key=lambda severity: severity != "error")
    assert {"error", "warning"} <= set(severities)
    of_batches = [finding.path for finding in verdict.findings if finding.code == "batch.crc-mismatch"]
    assert of_batches == [str(path) for path in (first, *others)]


# --- somebody who waits -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_named", [False, True])
def test_small_files_of_any_size_can_be_stopped(tmp_path: Path, is_named: bool) -> None:
    """Whoever listens is called while they are read, and may end it there."""
    write(tmp_path / "t-0", segments=1)
    epochs = tmp_path / "t-0" / "leader-epoch-checkpoint"
    epochs.write_bytes(build.epoch_checkpoint([(number, number) for number in range(50_000)]))
    looks: list[int] = []

    class Listening(Acting):
        def advance(self, size_bytes):
            looks.append(size_bytes)
            if looks.count(0) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(epochs if is_named else tmp_path / "t-0", progress=Listening(None))
    assert looks.count(0) == 3
