"""Offset and time indexes against their log: every release's are true, and a change that makes one untrue is found."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import AccessError, NotFoundError, StorageError
from kafkalog_core.ops.verify import indexes
from kafkalog_core.storage.source import Source
from tests.ops.verify.index_checking import check_indexes
from tests.ops.verify.index_model import Model, models
from tests.support.build import Record, batch_v2, message_v0, message_v1, offset_index, time_index, wrapper_v1
from tests.support.corpus import faults
from tests.support.corpus.snapshots import snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding
    from tests.support.corpus.snapshots import Snapshot
    from tests.support.corpus.tree import Tree

RELATIVE = st.one_of(st.integers(-2, 60), st.integers(-(2**31), 2**31 - 1))


def summary(findings: list[Finding]) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.position) for finding in findings]


def above_info(findings: list[Finding]) -> list[Finding]:
    """Many stops and starts look a little like entries taken away, which is an info."""
    return [finding for finding in findings if finding.severity != "info"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model")


# --- what brokers wrote -----------------------------------------------------------------------------------------------
HARMED = re.compile(r"/damaged/|-aftermath-")
HEALTHY = [snapshot for snapshot in snapshots() if snapshot.fault is None and not HARMED.search(snapshot.id)]
FOUND = {
    "index.empty.above": [("index.sparse", 0)],
    "index.empty.below": [("index.sparse", 0)],
    "index.empty.last": [("index.sparse", 0)],
    "index.last_entry_zero.below": [("index.zero-entries", 40)],
    "index.missing.above": [],
    "index.missing.below": [],
    "index.missing.last": [],
    "index.non_monotonic_middle.below": [("index.unsorted", 8)],
    "index.not_multiple_of_8.below": [("index.partial-entry", 48)],
    "index.positions_past_end.below": [("index.beyond-log", 40)],
    "index.trailing_zeros.below": [("index.zero-entries", 48)],
    "index.wrong_offsets.below": [("index.wrong-offset", 0), ("index.beyond-log", 40)],
    "index.wrong_positions.below": [("index.wrong-position", 0)],
    "timeindex.empty.below": [("timeindex.empty", 0)],
    "timeindex.future_timestamps.below": [("timeindex.wrong-timestamp", 0)],
    "timeindex.last_before_first.below": [("timeindex.wrong-timestamp", 60)],
    "timeindex.last_offset_zero.below": [("timeindex.before-base", 60)],
    "timeindex.missing.above": [],
    "timeindex.missing.below": [],
    "timeindex.missing.last": [],
    "timeindex.non_monotonic_middle.below": [("timeindex.unsorted", 12)],
    "timeindex.not_multiple_of_12.below": [("timeindex.partial-entry", 72)],
}
"""What is found in the partition where it was done. That a file is missing is said of the directory, not here."""
RANDOM = {"index.random_bytes.below", "index.random_bytes.last", "timeindex.random_bytes.below"}
DONE_TO_THE_END = {"index.not_multiple_of_8.last"}
FAULTS = [
    snapshot
    for snapshot in snapshots()
    if snapshot.fault is not None
    and snapshot.state == faults.BEFORE
    and snapshot.fault.path.rpartition("/")[2].startswith(("index.", "timeindex."))
]


@pytest.mark.corpus
@pytest.mark.parametrize("snapshot", HEALTHY, ids=lambda snapshot: snapshot.id)
def test_indexes_of_brokers_are_true(snapshot: Snapshot, tree: Tree) -> None:
    assert above_info(check_indexes(tree.partition_dir(snapshot))) == []


@pytest.mark.corpus
@pytest.mark.parametrize("snapshot", FAULTS, ids=lambda snapshot: snapshot.id)
def test_faults_are_found(snapshot: Snapshot, tree: Tree) -> None:
    assert snapshot.fault is not None
    name = snapshot.fault.path.rpartition("/")[2]
    findings = check_indexes(tree.partition_dir(snapshot))
    if not any(file.startswith(f"{snapshot.partition}/") for file in snapshot.fault.brought(faults.BEFORE)):
        assert findings == []
    elif name in RANDOM:
        assert findings[0].position == 0
        assert {finding.severity for finding in findings} == {"error"}
    elif name in DONE_TO_THE_END:
        assert [finding.code for finding in findings] == ["index.partial-entry"]
    else:
        assert summary(findings) == FOUND[name]
        severity = "info" if name.startswith("index.empty") else "error"
        assert {finding.severity for finding in findings} <= {severity}


# --- the model --------------------------------------------------------------------------------------------------------
@given(model=models(), is_last=st.booleans())
def test_every_release_writes_true_indexes(model: Model, is_last: bool, directory: Path) -> None:
    assert above_info(check_indexes(model.write(directory, is_last=is_last))) == []


@given(data=st.data())
def test_changed_offset_entry_is_found_unless_true(data: st.DataObject, directory: Path) -> None:
    model = data.draw(models(min_sets=6).filter(lambda model: model.offsets))
    slot = data.draw(st.integers(0, len(model.offsets) - 1))
    relative = data.draw(st.one_of(RELATIVE, st.just(model.offsets[slot][0])))
    place = data.draw(st.one_of(RELATIVE, st.sampled_from([batch.position for batch in model.batches])))
    model.offsets[slot] = (relative, place)
    findings = above_info(check_indexes(model.write(directory, is_last=False)))
    if model.allows_offset(slot):
        assert findings == []
    else:
        assert findings
        slots = {slot for found in findings for slot in _slots(found, 8)}
        assert slots & {slot - 1, slot, slot + 1}
        assert all(finding.severity == "error" and finding.code.startswith("index.") for finding in findings)


@given(data=st.data())
def test_changed_time_entry_is_found_unless_true(data: st.DataObject, directory: Path) -> None:
    model = data.draw(models(min_sets=6))
    slot = data.draw(st.integers(0, len(model.times) - 1))
    timestamp = data.draw(
        st.one_of(st.integers(1, 60), st.integers(-(2**63), 2**63 - 1), st.just(model.times[slot][0]))
    )
    relative = data.draw(st.one_of(RELATIVE, st.just(model.times[slot][1])))
    model.times[slot] = (timestamp, relative)
    findings = above_info(check_indexes(model.write(directory, is_last=False)))
    if model.allows_time(slot):
        assert findings == []
    else:
        assert findings
        slots = {slot for found in findings for slot in _slots(found, 12)}
        assert slots & {slot - 1, slot, slot + 1}
        assert all(finding.severity == "error" and finding.code.startswith("timeindex.") for finding in findings)


def _slots(finding: Finding, entry_bytes: int) -> range:
    assert finding.position is not None
    first = finding.position // entry_bytes
    return range(first, first + (finding.size_bytes or entry_bytes) // entry_bytes)


# --- by hand ----------------------------------------------------------------------------------------------------------
def plain(count: int = 10, convention: str = "last of batch") -> Model:
    """Batches of three records at intervals of 1, timestamps that grow."""
    model = Model(100, 1, convention)
    for number in range(count):
        model.append([[10 * number + 1, 10 * number + 2, 10 * number + 3]])
    model.note_time()
    return model


def test_findings_name_slot_values_and_what_the_log_holds(tmp_path: Path) -> None:
    model = plain()
    batch = model.batches[4]
    model.offsets[3] = (15, batch.position)  # of the batch behind
    model.times[4] = (54, model.times[4][1])
    first, second = check_indexes(model.write(tmp_path / "t-0", is_last=False))
    assert (first.code, first.position, first.size_bytes, first.offset) == ("index.wrong-offset", 24, 8, 115)
    place = model.batches[5].position
    assert first.message.endswith(
        f"entry 3 says offset 115 at byte {batch.position}, "
        f"which is not before the batch of offsets 115 to 117 at byte {place}, where the next entry is."
    )
    assert (second.code, second.position, second.offset) == ("timeindex.wrong-timestamp", 48, 117)
    assert second.message.endswith(
        f"entry 4 says timestamp 54 at offset 117, where the batch of offsets 115 to 117 at byte {place} has 53."
    )


def test_bad_entries_in_a_row_are_one_finding(tmp_path: Path) -> None:
    model = plain(60)
    model.offsets[10:50] = [(relative, place + 1) for relative, place in model.offsets[10:50]]
    model.times[10:50] = [(timestamp + 1, relative) for timestamp, relative in model.times[10:50]]
    findings = check_indexes(model.write(tmp_path / "t-0", is_last=False))
    assert summary(findings) == [("index.wrong-position", 80), ("timeindex.wrong-timestamp", 120)]
    assert [finding.size_bytes for finding in findings] == [320, 480]
    assert all("40 in a row, entries 10 to 49" in finding.message for finding in findings)


@pytest.mark.parametrize("entries", [1, 2, 7])
def test_windows_and_full_faults_change_nothing(entries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = plain(120)
    model.offsets[::3] = [(relative, place + 1) for relative, place in model.offsets[::3]]
    model.times[::3] = [(timestamp + 1, relative) for timestamp, relative in model.times[::3]]
    whole = check_indexes(model.write(tmp_path / "t-0", is_last=False))
    assert [finding.code for finding in whole] == ["index.wrong-position"] * 20 + ["timeindex.wrong-timestamp"] * 20
    assert whole[19].message.endswith("And 20 more of these in this file.")
    monkeypatch.setattr(indexes, "WINDOW_ENTRIES", entries)
    assert check_indexes(tmp_path / "t-0") == whole


def test_garbage_in_the_middle_does_not_spoil_what_is_behind(tmp_path: Path) -> None:
    model = plain(60)
    model.offsets[20:30] = [(7_000_000 + i, 3_000 + i * 20) for i in range(10)]
    model.times[20:30] = [(2**50 + i, 100_000 + i * 20) for i in range(10)]
    findings = check_indexes(model.write(tmp_path / "t-0", is_last=False))
    for subject, size in (("index", 8), ("timeindex", 12)):
        ours = [found for found in findings if found.code.partition(".")[0] == subject]
        assert {slot for found in ours for slot in _slots(found, size)} == set(range(20, 30))


# --- damaged logs -----------------------------------------------------------------------------------------------------
def test_entries_of_damaged_batches_are_not_judged(tmp_path: Path) -> None:
    model = plain()
    for number in (3, 4, 9):
        model.data[model.batches[number].position + 70] ^= 1
    assert check_indexes(model.write(tmp_path / "t-0", is_last=False)) == []
    start = model.batches[5].position
    model.data[start : start + 30] = bytes(30)
    assert check_indexes(model.write(tmp_path / "t-0", is_last=False)) == []


def test_torn_tail_is_not_judged_but_what_was_cut_off_is(tmp_path: Path) -> None:
    model = plain()
    torn = bytes(model.data)
    model.data = bytearray(torn[: model.batches[8].position + 20])
    findings = check_indexes(model.write(tmp_path / "t-0", is_last=True))
    assert summary(findings) == [("index.beyond-log", 64)]
    model.data = bytearray(torn[: model.batches[8].position])
    findings = check_indexes(model.write(tmp_path / "t-0", is_last=True))
    assert summary(findings) == [("index.beyond-log", 56), ("timeindex.beyond-log", 84)]
    assert f"the log ends at byte {model.batches[8].position} with offset 123" in findings[0].message


def test_what_a_live_broker_appends_meanwhile_is_no_fault(tmp_path: Path) -> None:
    model = plain()
    end = model.batches[8].position
    directory = model.write(tmp_path / "t-0", is_last=True)
    assert check_indexes(directory, end=end) == []
    model.data = model.data[:end]
    assert check_indexes(model.write(directory, is_last=True), end=end) != []


# --- ends of index files ----------------------------------------------------------------------------------------------
def test_room_for_entries_is_the_active_segments_alone(tmp_path: Path) -> None:
    model = plain()
    for is_last in (True, False):
        directory = model.write(tmp_path / "t-0", is_last=is_last)
        for name, size in (("index", 800), ("timeindex", 1200)):
            with (directory / f"{100:020d}.{name}").open("ab") as file:
                file.truncate(size)
        expected = [] if is_last else [("index.zero-entries", 72), ("timeindex.zero-entries", 108)]
        assert summary(check_indexes(directory)) == expected


def test_rests_of_a_truncation_are_a_warning(tmp_path: Path) -> None:
    model = plain()
    model.data = model.data[: model.batches[6].position]
    directory = model.write(tmp_path / "t-0", is_last=True)
    with (directory / f"{100:020d}.index").open("ab") as file:
        file.truncate(800)
    found = {finding.code: finding.severity for finding in check_indexes(directory)}
    assert found == {"index.beyond-log": "warning", "timeindex.beyond-log": "error"}


def test_last_time_entry_of_a_closed_segment(tmp_path: Path) -> None:
    model = plain()
    last = model.times.pop()
    assert check_indexes(model.write(tmp_path / "t-0", is_last=True)) == []
    (finding,) = check_indexes(model.write(tmp_path / "t-0", is_last=False))
    assert (finding.code, finding.severity, finding.position) == ("timeindex.incomplete", "error", 84)
    assert finding.offset == 129
    assert f"says {model.times[-1][0]}" in finding.message
    assert f"has {last[0]}" in finding.message


@pytest.mark.parametrize("twice", [0, 1, 4])
def test_a_time_that_the_entry_before_has_too_is_out_of_order(twice: int, tmp_path: Path) -> None:
    model = Model(100, 1, "last of batch")
    for number in range(8):
        model.append([[10 * (number - (number > twice))]])  # two batches have one time, and one entry of both
    model.note_time()
    slot = [timestamp for timestamp, _ in model.times].index(10 * twice)
    model.times.insert(slot + 1, (10 * twice, twice + 1))
    (finding,) = check_indexes(model.write(tmp_path / "t-0", is_last=False))
    assert (finding.code, finding.position) == ("timeindex.unsorted", 12 * (slot + 1))


def test_no_entry_for_long(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    log = b"".join(batch_v2([Record(offset=n, timestamp_ms=1 + n, value=bytes(6 * 1024 * 1024))]) for n in range(5))
    (directory / f"{0:020d}.log").write_bytes(log)
    (directory / f"{0:020d}.index").touch()
    (finding,) = check_indexes(directory)
    assert (finding.code, finding.severity, finding.position) == ("index.sparse", "warning", 0)
    assert "from byte 0 on" in finding.message


def test_more_time_entries_than_offset_entries_explain(tmp_path: Path) -> None:
    for count, severity in ((10, "info"), (1000, "warning")):
        model = plain(count)
        model.offsets = []
        (finding,) = check_indexes(model.write(tmp_path / "t-0", is_last=True))
        assert (finding.code, finding.severity, finding.position) == ("index.sparse", severity, 0)
        model.times = model.times[:2]
        assert check_indexes(model.write(tmp_path / "t-0", is_last=True)) == []


@pytest.mark.parametrize("name", ["index", "timeindex"])
def test_bytes_that_the_disk_cannot_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = plain(1200)
    path = model.write(tmp_path / "t-0", is_last=False) / f"{100:020d}.{name}"
    whole = Source._pread

    def pread(source: Source, target: memoryview, position: int) -> int:
        if source.path == str(path) and position < 8192 and position + len(target) > 4096:
            raise OSError(errno.EIO, "Input/output error")
        return whole(source, target, position)

    monkeypatch.setattr(Source, "_pread", pread)
    assert summary(check_indexes(tmp_path / "t-0")) == [(f"{name}.unreadable", 4096)]


@pytest.mark.parametrize("name", ["index", "timeindex"])
def test_files_that_cannot_be_opened(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plain().write(tmp_path / "t-0", is_last=False) / f"{100:020d}.{name}"
    opened = Source.open

    for error, code in ((NotFoundError, "file.vanished"), (AccessError, "file.not-readable")):

        def refuse(name: str, error: type[StorageError] = error) -> Source:
            if name == str(path):
                raise error("no permission to read it", path=name)
            return opened(name)

        monkeypatch.setattr(Source, "open", refuse)
        assert [finding.code for finding in check_indexes(tmp_path / "t-0")] == [code]


def test_files_that_are_not_there_or_empty(tmp_path: Path) -> None:
    model = plain(2)
    model.offsets, model.times = [], []
    directory = model.write(tmp_path / "t-0", is_last=True)
    assert check_indexes(directory) == []
    (directory / f"{100:020d}.index").unlink()
    (directory / f"{100:020d}.timeindex").unlink()
    assert check_indexes(directory) == []


# --- legacy -----------------------------------------------------------------------------------------------------------
def legacy(directory: Path, log: bytes, offsets: list[tuple[int, int]], times: list[tuple[int, int]]) -> list[Finding]:
    directory.mkdir(exist_ok=True)
    stem = directory / f"{0:020d}"
    stem.with_suffix(".log").write_bytes(log)
    stem.with_suffix(".index").write_bytes(offset_index(offsets))
    stem.with_suffix(".timeindex").write_bytes(time_index(times))
    (directory / f"{99:020d}.log").touch()
    return check_indexes(directory)


def test_wrappers_hold_whatever_is_behind_the_entry_before(tmp_path: Path) -> None:
    first = wrapper_v1([Record(offset=n, timestamp_ms=5, value=b"v") for n in range(5)], codec=1)
    second = wrapper_v1([Record(offset=n, timestamp_ms=7, value=b"v") for n in range(5, 9)], codec=1)
    for offset in range(5, 9):
        assert legacy(tmp_path / "t-0", first + second, [(offset, len(first))], [(7, 8)]) == []
    assert summary(legacy(tmp_path / "t-0", first + second, [(4, len(first))], [(7, 8)])) == [("index.wrong-offset", 0)]
    assert summary(legacy(tmp_path / "t-0", first + second, [(9, len(first))], [(7, 8)])) == [("index.beyond-log", 0)]


def test_messages_without_time_may_have_any(tmp_path: Path) -> None:
    log = message_v1(Record(offset=0, timestamp_ms=5)) + message_v0(Record(offset=1))
    assert legacy(tmp_path / "t-0", log, [], [(9, 1)]) == []
    assert summary(legacy(tmp_path / "t-0", log, [], [(4, 1)])) == [("timeindex.wrong-timestamp", 0)]


def test_segments_older_than_time_indexes(tmp_path: Path) -> None:
    log = message_v1(Record(offset=0, timestamp_ms=5)) + message_v1(Record(offset=1, timestamp_ms=6))
    (finding,) = legacy(tmp_path / "t-0", log, [], [])
    assert (finding.code, finding.severity) == ("timeindex.empty", "info")
