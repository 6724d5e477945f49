"""Recoveries that were once wrong: random faults and Kafka's own classes showed them, each a small case here.

`tests/integration/bringing_back.py` makes them; the seed of its kind `recover` is with each.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Final

import crc32c
import pytest

from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from tests.support import build
from tests.support.corpus.brought_back import readable
from tests.support.excising import Written, batch_of, places_of, read_offsets, write, write_batches
from tests.support.recover_plans import plan, recover
from tests.support.repairs import snapshot, undo_all
from tests.support.truncating import MARK, NOW_MS, RECOVERY, started

FIELD: Final = Path(__file__).parents[3] / "fixtures" / "field"


def test_where_only_the_simulation_ends_a_broker_is_not_said_to_stop(tmp_path: Path) -> None:
    """Fault `file.unpadded_name`: "would not start" was said of a disk on which real brokers started."""
    written = write(tmp_path)
    (written.partition / "5.log").touch()
    (left,) = (each for each in plan(written.root, only_copy=True).plan.report.refusals if "recover." in each.code)
    assert left.code == "recover.not-simulated"


@pytest.mark.parametrize("offset", [0, 12, 35])
def test_beside_a_clean_shutdown_file_the_recovery_point_is_put_at_the_end(tmp_path: Path, offset: int) -> None:
    """Seed 3: a broker does the same (LogLoader.recoverLog); it was left as what a person has to repair."""
    written = write(tmp_path, is_clean=True)
    (written.root / RECOVERY).write_bytes(build.offset_checkpoint([("t", 0, offset)]))
    draft = recover(written.root, only_copy=True)
    assert {each.code for each in draft.plan.report.refusals} <= {"meta.not-known"}
    assert (written.root / RECOVERY).read_text() == "0\n1\nt 0 36\n"
    assert (written.root / MARK).exists()
    assert set(read_offsets(written.partition)) == set(range(36))


def test_a_recovery_point_of_a_refused_file_is_put_at_the_end_too(tmp_path: Path) -> None:
    """Fault `recovery_point.malformed_line`: the first recovery repaired the file, and the next one its low line."""
    written = write(tmp_path, is_clean=True)
    (written.root / RECOVERY).write_text("0\n2\nt 0 5\nt\n")
    recover(written.root, only_copy=True)
    assert (written.root / RECOVERY).read_text() == "0\n1\nt 0 36\n"
    assert not plan(written.root, only_copy=True).plan.changes


def test_a_replacement_gets_the_index_that_it_lacks(tmp_path: Path) -> None:
    """Seed 19: the new time index took owner and mode from the log, which the same plan makes of the replacement."""
    written = write(tmp_path, is_clean=True)
    for suffix in ("log", "index"):
        path = written.log(12, suffix)
        path.rename(path.with_suffix(f".{suffix}.swap"))
    written.log(12, "timeindex").unlink()
    recover(written.root, only_copy=True)
    assert set(read_offsets(written.partition)) == set(range(36))
    assert written.log(12, "timeindex").stat().st_size
    assert started(written.partition).problem is None


def test_nothing_is_begun_beside_a_replacement_that_stays(tmp_path: Path) -> None:
    """Seeds 7 and 23: the start stops at another place, so the replacement waited, and the run ended in the middle."""
    written = write(tmp_path)
    written.flip(12, written.at(12, 1)[1] - 5)
    written.log(24, "log").with_suffix(".log.swap").write_bytes(written.log(24).read_bytes())
    (written.partition / "foo.log").write_bytes(b"x")
    draft = plan(written.root, only_copy=True)
    assert {"segment.swap", "recover.not-started"} <= {each.code for each in draft.plan.report.refusals}
    assert not any(change.path.endswith((".log", "index")) for change in draft.plan.changes)


def test_a_whole_batch_that_is_removed_is_a_loss(tmp_path: Path) -> None:
    """Seed 41: of two batches in the wrong order one was removed, and no loss was listed."""
    written = write(tmp_path)
    data, (start, middle), (_, end) = written.log(12).read_bytes(), written.at(12, 0), written.at(12, 2)
    written.log(12).write_bytes(data[middle:end] + data[start:middle] + data[end:])  # the first one after two others
    before = set(read_offsets(written.partition))
    draft = recover(written.root, only_copy=True)
    losses = [(each.first_offset, each.next_offset) for each in draft.plan.report.losses]
    gone = before - set(read_offsets(written.partition))
    assert gone == {offset for first, end_offset in losses for offset in range(first or 0, end_offset or 0)} != set()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_two_exchanged_batches_are_put_in_order(tmp_path: Path, number: int) -> None:
    """Seed 41: consumers skipped the earlier one, or it was removed."""
    written = write(tmp_path)
    data, (start, middle), (_, end) = written.log(12).read_bytes(), written.at(12, number), written.at(12, number + 1)
    written.log(12).write_bytes(data[:start] + data[middle:end] + data[start:middle] + data[end:])
    draft = recover(written.root, only_copy=True)
    assert written.log(12).read_bytes() == data
    assert draft.plan.report.losses == ()


def test_a_last_offset_that_no_record_has_is_corrected(tmp_path: Path) -> None:
    """Seed 1: consumers skipped what follows, or the batch was emptied, here with the marker of a transaction."""
    single = [batch_of(2, build.NONE, offset, offset) for offset in (4, 5, 6)]
    batches = [build.txn_marker(build.COMMIT, offset=3, producer_id=7), *single]
    longer = bytearray(batches[0])
    longer[23:27] = (2).to_bytes(4, "big")
    longer[17:21] = crc32c.crc32c(bytes(longer[21:])).to_bytes(4, "big")
    first = [batch_of(2, build.NONE, 0, 2)]
    written = write_batches(tmp_path, {0: [*first, bytes(longer), *batches[1:]], 7: [batch_of(2, build.NONE, 7, 9)]})
    draft = recover(written.root, only_copy=True)
    assert written.log(0).read_bytes() == b"".join([*first, *batches])
    assert "its last offset delta, 0 in place of 2" in str(draft.plan.report.findings)


def _ended(batch: bytes, delta: int) -> bytes:
    """A batch with another last offset delta, and a checksum to match."""
    content = bytearray(batch)
    content[23:27] = delta.to_bytes(4, "big", signed=True)
    content[17:21] = crc32c.crc32c(bytes(content[21:])).to_bytes(4, "big")
    return bytes(content)


def test_a_last_offset_is_corrected_next_to_a_compressed_message(tmp_path: Path) -> None:
    """Seed 460069: the first offset of such a message is not in its header, and the batch was emptied, unlisted."""
    before, batch, after = batch_of(1, build.GZIP, 0, 2), batch_of(2, build.NONE, 3, 3), batch_of(1, build.GZIP, 4, 6)
    written = write_batches(tmp_path, {0: [before, _ended(batch, -1), after]})
    draft = recover(written.root, only_copy=True)
    assert written.log(0).read_bytes() == before + batch + after
    assert draft.plan.report.losses == ()
    assert "its last offset delta, 0 in place of -1" in str(draft.plan.report.findings)


@pytest.mark.parametrize("delta", [-1, 9])
@pytest.mark.parametrize("is_followed", [True, False])
def test_a_last_offset_is_corrected_in_a_compacted_batch(tmp_path: Path, delta: int, is_followed: bool) -> None:
    """Its records, or those of the next batch, were lost, unlisted: only consecutive records were recognized."""
    records = [build.Record(offset=offset, timestamp_ms=1000, value=b"v") for offset in (3, 5)]
    right = [batch_of(2, build.NONE, 0, 2), build.batch_v2(records)]
    right += [batch_of(2, build.NONE, 6, 8)] if is_followed else []
    wrong = b"".join([right[0], _ended(right[1], delta), *right[2:]])
    written = write_batches(tmp_path, {0: right})
    written.log(0).write_bytes(wrong)
    for suffix in ("index", "timeindex"):
        written.log(0, suffix).unlink()
    draft = recover(written.root, only_copy=True)
    contradicts = is_followed or delta < 0
    assert written.log(0).read_bytes() == (b"".join(right) if contradicts else wrong)
    assert draft.plan.report.losses == ()


def _move(written: Written, base: int, numbers: range, step: int) -> None:
    """Add a number to the offsets of some batches of a segment."""
    for number in numbers:
        written.patch(base, written.at(base, number)[0], (base + 3 * number + step).to_bytes(8, "big", signed=True))


def _contents(written: Written) -> dict[int, bytes]:
    """The bytes of each log, by its base offset."""
    return {int(path.stem): path.read_bytes() for path in written.partition.glob("*.log")}


@pytest.mark.parametrize(
    ("base", "first", "end", "step"),
    [
        *((12, 1, 3, step) for step in (1, 1000, 2**33, -1, -(2**31))),  # between two batches
        *((12, 2, 4, step) for step in (1, 5, 2**33, -5)),  # before the next segment, whose records they hid
        *((12, 0, 4, step) for step in (1, -5)),  # a whole segment, also if it gets the name of its first offset
        *((24, 2, 4, step) for step in (-1, -(2**31))),  # at the end of the log
        *((24, 0, 4, step) for step in (-1, -5)),
    ],
)
def test_batches_that_were_moved_together_get_their_offsets_back(
    tmp_path: Path, base: int, first: int, end: int, step: int
) -> None:
    """Seeds 7001 and 7019: whole batches became empty ones, or hid those of the next segment from consumers."""
    written = write(tmp_path)
    _move(written, base, range(first, end), step)
    draft = recover(written.root, only_copy=True)
    assert _contents(written) == {each: b"".join(batches) for each, batches in written.segments.items()}
    assert draft.plan.report.losses == ()


def test_a_gap_before_the_end_of_the_log_is_left(tmp_path: Path) -> None:
    """Nothing shows that batches with higher offsets at the end were moved: what was there may be deleted."""
    written = write(tmp_path)
    _move(written, 24, range(2, 4), 5)
    before = _contents(written)
    recover(written.root, only_copy=True)
    assert _contents(written) == before


def test_batches_that_were_written_twice_are_not_given_other_offsets(tmp_path: Path) -> None:
    written = write(tmp_path)
    with written.log(24).open("ab") as log:
        log.write(b"".join(written.segments[24][2:]))
    recover(written.root, only_copy=True)
    assert _contents(written)[24] == b"".join(written.segments[24])


@pytest.mark.parametrize("base", [12, 24])
@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("codec", [build.NONE, build.LZ4])
@pytest.mark.parametrize(
    ("delta", "count"), [(4, 5), (9, 3), (2**31 - 1, 3), (-1, 3)], ids=["both", "delta", "largest", "negative"]
)
def test_a_last_offset_and_a_count_that_the_records_contradict_are_corrected(
    tmp_path: Path, base: int, number: int, codec: int, delta: int, count: int
) -> None:
    """The next batch was taken for the wrong one and became an empty one, or the whole log from there was truncated."""
    if (base, number, delta) == (24, 3, 4):
        return
    written = write(tmp_path, codec=codec)
    batch = bytearray(written.segments[base][number])
    batch[23:27], batch[57:61] = delta.to_bytes(4, "big", signed=True), count.to_bytes(4, "big")
    batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
    written.patch(base, written.at(base, number)[0], bytes(batch))
    draft = recover(written.root, only_copy=True)
    # Where the next batch leaves room for it, or the log ends, nothing contradicts the header without its records
    is_left = (base, number, delta) == (24, 3, 9)
    assert is_left or _contents(written) == {each: b"".join(batches) for each, batches in written.segments.items()}
    assert set(read_offsets(written.partition)) >= set(range(36))
    assert draft.plan.report.losses == ()


def test_several_batches_that_their_records_contradict_are_corrected_in_a_log_with_gaps(tmp_path: Path) -> None:
    batches = [batch_of(2, build.NONE, first, first + 2) for first in (0, 7, 10, 20)]
    written = write_batches(tmp_path, {0: batches, 30: [batch_of(2, build.NONE, 30, 32)]})
    for number, count in ((1, 5), (2, 3)):  # room for three records, and for ten
        batch = bytearray(batches[number])
        batch[23:27], batch[57:61] = (40).to_bytes(4, "big"), count.to_bytes(4, "big")
        batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
        written.patch(0, written.at(0, number)[0], bytes(batch))
    draft = recover(written.root, only_copy=True)
    assert written.log(0).read_bytes() == b"".join(batches)
    assert draft.plan.report.losses == ()


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(("base", "numbers"), [(24, (3,)), (24, (2, 3)), (12, (0, 1)), (0, (0,))])
def test_a_magic_of_no_release_is_corrected(
    tmp_path: Path, base: int, numbers: tuple[int, ...], is_clean: bool
) -> None:
    """A broker loads such a batch, and consumers stop at it: it was left, or the plan named a snapshot that it made."""
    written = write(tmp_path, is_clean=is_clean)
    for number in numbers:
        written.patch(base, written.at(base, number)[0] + 16, b"\x7f")
    recover(written.root, only_copy=True)
    assert _contents(written) == {each: b"".join(batches) for each, batches in written.segments.items()}
    assert (written.root / MARK).exists()


# --- segments with names that are too high ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("magic", "codec", "new_base"),
    [
        (magic, codec, base)
        for magic, codec in ((2, build.NONE), (1, build.GZIP), (0, build.NONE))
        for base in (15, 1012)
    ],
)
def test_a_renamed_segment_gets_its_name_back(tmp_path: Path, magic: int, codec: int, new_base: int) -> None:
    """Seeds 35 and 46: a broker stops, because no index of the segment can hold its first offset."""
    written = write(tmp_path, magic, codec)
    data, old = written.log(12).read_bytes(), snapshot(written.root)
    for suffix in ("log", "index", "timeindex"):
        if written.log(12, suffix).exists():
            written.log(12, suffix).rename(written.log(new_base, suffix))
    renamed = snapshot(written.root)
    draft = recover(written.root, only_copy=True)
    assert not list(written.partition.glob(f"{new_base:020d}.*"))
    assert written.log(12).read_bytes() == data
    assert set(read_offsets(written.partition)) == set(range(36))
    assert draft.plan.report.losses == ()
    assert "recover.renamed" in {each.code for each in draft.plan.report.findings}
    for is_clean in (True, False):
        result = started(written.partition, is_clean=is_clean)
        assert (result.problem, result.lost_bytes, result.end_offset) == (None, 0, 36)
    undo_all(written.root)
    assert {name: row[0] for name, row in snapshot(written.root).items()} == {
        name: row[0] for name, row in renamed.items()
    }
    assert old != renamed


def test_a_renamed_segment_of_one_batch_fits_where_it_is_missing(tmp_path: Path) -> None:
    """Its offset could be wrong instead: but another segment continues it."""
    segments = {base: [batch_of(2, build.NONE, base, base + 2)] for base in (0, 3, 6)}
    written = write_batches(tmp_path, segments)
    for suffix in ("log", "index", "timeindex"):
        written.log(3, suffix).rename(written.log(1003, suffix))
    recover(written.root, only_copy=True)
    assert read_offsets(written.partition) == [*range(9)]
    assert not written.log(1003).exists()


def test_a_copy_of_a_segment_under_a_higher_name_is_deleted(tmp_path: Path) -> None:
    """Seed 19: "segment 35 once more at 36"."""
    written = write(tmp_path)
    shutil.copy(written.log(12), written.log(16))
    draft = recover(written.root, only_copy=True)
    assert read_offsets(written.partition) == [*range(36)]
    assert not written.log(16).exists()
    assert draft.plan.report.losses == ()
    assert "recover.copy-deleted" in {each.code for each in draft.plan.report.findings}


def test_other_records_of_the_same_offsets_are_left_to_a_person(tmp_path: Path) -> None:
    """Neither of the two segments is a copy of the other, and only one of them can have the name."""
    written = write(tmp_path)
    written.log(16).write_bytes(b"".join(batch_of(2, build.GZIP, first, first + 2) for first in (12, 15, 18, 21)))
    draft = plan(written.root, only_copy=True)
    assert "reindex.overflow" in {each.code for each in draft.plan.report.refusals}
    assert not any(change.path.endswith(".log") for change in draft.plan.changes)


# --- transactions that the log contradicts ----------------------------------------------------------------------------
def test_a_batch_that_contradicts_an_open_transaction_keeps_its_records(tmp_path: Path) -> None:
    """Seeds 52, 62: a broker stops there (`ProducerAppendInfo.appendDataBatch`), and recover left it."""
    ids = {"producer_id": 7, "producer_epoch": 0}
    open_batch = batch_of(2, build.NONE, 0, 2, is_transactional=True, base_sequence=0, **ids)
    plain = [batch_of(2, build.NONE, first, first + 2, base_sequence=first, **ids) for first in (3, 6)]
    written = write_batches(tmp_path, {0: [open_batch, plain[0]], 6: [plain[1]], 9: [batch_of(2, build.NONE, 9, 11)]})
    assert started(written.partition, is_clean=False).problem is not None
    draft = recover(written.root, only_copy=True)
    assert read_offsets(written.partition) == [*range(12)]
    assert draft.plan.report.losses == ()
    codes = [each.code for each in draft.plan.report.findings]
    assert codes.count("excise.unlinked") == 2
    assert "excise.transaction-open" in codes
    assert started(written.partition, is_clean=False).problem is None
    assert (written.root / MARK).exists()


def test_a_first_snapshot_that_names_later_offsets_is_deleted(tmp_path: Path) -> None:
    """Seed 4: "82.snapshot as 0.snapshot", whose open transaction the whole log contradicts."""
    ids = {"producer_id": 7, "producer_epoch": 0}
    written = write_batches(tmp_path, {0: [batch_of(2, build.NONE, 0, 2, base_sequence=0, **ids)]})
    entry = build.Producer(producer_id=7, last_offset=50, last_sequence=50, current_txn_first_offset=48)
    written.log(0, "snapshot").write_bytes(build.snapshot([entry]))
    draft = recover(written.root, only_copy=True)
    assert not written.log(0, "snapshot").exists()
    assert read_offsets(written.partition) == [0, 1, 2]
    assert "snapshot.later-producer" in {each.code for each in draft.plan.report.findings}
    assert (written.root / MARK).exists()


def test_a_replacement_at_which_a_broker_stops_is_given_up(tmp_path: Path) -> None:
    """Seed 23: without the marker that is in the segment, its last batch contradicts the transaction."""
    ids = {"producer_id": 7, "producer_epoch": 0}
    begun = batch_of(2, build.NONE, 0, 2, is_transactional=True, base_sequence=0, **ids)
    plain = batch_of(2, build.NONE, 4, 6, base_sequence=3, **ids)
    segments = {0: [begun, build.txn_marker(build.COMMIT, offset=3, producer_id=7), plain]}
    written = write_batches(tmp_path, {**segments, 7: [batch_of(2, build.NONE, 7, 9)]})
    swap = written.log(0, "log.swap")
    swap.write_bytes(begun + plain)
    draft = recover(written.root, only_copy=True)
    assert not swap.exists()
    assert written.log(0).read_bytes() == b"".join(segments[0])
    assert "recover.replacement-refused" in {each.code for each in draft.plan.report.findings}


def test_the_offsets_of_a_compressed_message_that_is_removed_are_a_loss(tmp_path: Path) -> None:
    """Its header has the last one alone."""
    written = write(tmp_path, 1, build.GZIP)
    data, (_, first_end), (start, end) = written.log(12).read_bytes(), written.at(12, 0), written.at(12, 3)
    moved = written.log(12).read_bytes()[start:end]
    written.log(12).write_bytes(data[:first_end] + moved + data[first_end:start])
    draft = recover(written.root, only_copy=True)
    losses = [(each.first_offset, each.next_offset) for each in draft.plan.report.losses]
    assert {*range(36)} - {*read_offsets(written.partition)} == {*range(21, 24)}
    assert losses == [(21, 24)]


def test_a_directory_with_the_name_of_a_replacement_stops_no_run_in_the_middle(tmp_path: Path) -> None:
    """Seed 190 of recover-2.8: the apply ended after its first change."""
    written = write(tmp_path)
    written.flip(12, written.at(12, 1)[1] - 5)
    written.log(24, "txnindex.swap").mkdir()
    draft = plan(written.root, only_copy=True)
    assert "segment.swap" in {each.code for each in draft.plan.report.refusals}
    assert not any(change.path.endswith((".log", "index")) for change in draft.plan.changes)


@pytest.mark.parametrize(("magic", "codec"), [(1, build.GZIP), (0, build.NONE)])
def test_a_copied_message_at_the_end_is_removed(tmp_path: Path, magic: int, codec: int) -> None:
    """Seed 72: a broker empties the whole segment where its indexes would have to go back."""
    written = write(tmp_path, magic, codec)
    data, (start, end) = written.log(24).read_bytes(), written.at(24, 1)
    written.log(24).write_bytes(data + data[start:end])
    recover(written.root, only_copy=True)
    assert written.log(24).read_bytes() == data


def test_the_same_batch_once_more_is_none(tmp_path: Path) -> None:
    """Its offsets remain."""
    written = write(tmp_path)
    data, (start, end) = written.log(12).read_bytes(), written.at(12, 1)
    written.log(12).write_bytes(data + data[start:end])
    draft = recover(written.root, only_copy=True)
    assert set(read_offsets(written.partition)) == set(range(36))
    assert all(each.first_offset is None for each in draft.plan.report.losses)


def test_damage_before_a_whole_batch_with_a_wrong_offset_is_not_the_end_of_the_log(tmp_path: Path) -> None:
    """The last batch of the first segment is damaged; the only one of the next, whole, gets its own offset back."""
    first = [batch_of(2, build.NONE, 0, 2), batch_of(2, build.NONE, 3, 5)]
    written = write_batches(tmp_path, {0: first, 6: [batch_of(2, build.NONE, 6, 8)]})
    written.patch(0, written.at(0, 1)[0] + 17, bytes(6))  # its checksum and attributes
    written.patch(6, 0, bytes(8))
    damaged, misplaced = places_of(written.partition)
    assert not damaged.is_tail
    assert misplaced.is_whole
    recover(written.root, only_copy=True)
    assert read_offsets(written.partition) == [0, 1, 2, 6, 7, 8]


def test_a_replacement_that_a_start_comes_to_later_is_moved_first(tmp_path: Path) -> None:
    """Seed 78: a snapshot without content stops the start, which comes to the replacement after the damage is gone."""
    written = write(tmp_path, is_clean=True)
    (written.partition / f"{12:020d}.snapshot").write_bytes(b"")
    for suffix in ("log", "index", "timeindex"):
        written.log(12, suffix).unlink()
    for suffix in ("log.swap", "index.swap"):
        written.log(12, suffix).write_bytes(b"")
    written.patch(24, 0, bytes(61))
    recover(written.root, only_copy=True)
    assert read_offsets(written.partition) == [*range(12), *range(27, 36)]


@pytest.mark.parametrize("name", ["c24-unclean", "c24-legacy-undecodable-good-crc"])
def test_messages_that_nothing_opens_keep_no_broker_from_starting(tmp_path: Path, name: str) -> None:
    """4.3.1 did not start on these logs, and did on the recovered ones (`tests/integration/recovered_starts.txt`)."""
    with tarfile.open(FIELD / f"{name}.tgz") as tar:
        tar.extractall(tmp_path, filter="data")
    root = tmp_path / name
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    kept = readable(root)
    draft = recover(root, only_copy=True)
    assert readable(root) == kept
    assert "9 places that cannot be read (records of 8 partitions" in str(draft.plan.report.verdict)
    assert {each.code for each in draft.plan.report.findings} >= {"excise.removed"}
    assert (root / MARK).exists()
    undo_all(root)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_a_log_on_which_only_a_later_release_starts_is_not_led_in_circles(tmp_path: Path) -> None:
    """Field c17: 0.10 does not start and 2.0 does; recover sent to truncate, and its own finding back to recover."""
    with tarfile.open(FIELD / "c17-overlapping-wrappers.tgz") as archive:
        archive.extractall(tmp_path, filter="data")
    target = target_dir([str(tmp_path / "c17-overlapping-wrappers")])
    report = make_plan("recover", PlanRequest(target=target, options={}, now_ms=NOW_MS)).plan.report
    assert report.verdict is not None
    assert report.verdict.startswith("by itself the broker does not start, because of music-20;")
    (left,) = report.refusals
    assert left.code == "log.first-offset-back"
    assert (left.next_command or "").endswith("/music-20 --kafka 2.0")
    left_as_it_is = [finding.cure or "" for finding in (*report.findings, *report.refusals)]
    assert not [cure for cure in left_as_it_is if "kafkalog recover" in cure]


def _with_closed_message(root: Path, number: int) -> tuple[Written, bytes]:
    """A log of compressed messages, of which one of the second segment does not open, as its checksum has it."""
    opened = [batch_of(1, build.GZIP, first, first + 2) for first in range(12, 24, 3)]
    record = build.Record(offset=14 + 3 * number, timestamp_ms=1000, value=b"no gzip stream")
    closed = build.message_v1(record, attributes=build.GZIP)
    batches = [closed if each == number else batch for each, batch in enumerate(opened)]
    first = [batch_of(1, build.GZIP, 0, 2), batch_of(1, build.GZIP, 3, 11)]
    return write_batches(root, {0: first, 12: batches}), closed


@pytest.mark.parametrize(("number", "fate"), [(1, "missing afterwards"), (3, "assigned again")])
@pytest.mark.parametrize("release", ["4.1", "4.4"])
def test_a_message_at_which_later_fetches_fail_is_removed(tmp_path: Path, release: str, number: int, fate: str) -> None:
    """Seeds 470020 and 470062 of recover-4.4: Kafka failed at each read that had to pass over it."""
    written, closed = _with_closed_message(tmp_path, number)
    kept = readable(written.root)
    data = written.log(12).read_bytes()
    assert closed in data
    draft = recover(written.root, only_copy=True, kafka={"kafka": release})
    assert written.log(12).read_bytes() == data.replace(closed, b"")
    assert readable(written.root) == kept
    first = 12 + 3 * number
    assert [(each.first_offset, each.next_offset) for each in draft.plan.report.losses] == [(first, first + 3)]
    (removed,) = (each.message for each in draft.plan.report.findings if each.code == "excise.removed")
    assert removed.endswith(f"offsets {first} to {first + 2} are {fate}.")


def test_a_message_that_does_not_open_is_kept_where_only_its_own_offsets_fail(tmp_path: Path) -> None:
    """Releases before 4.0 serve it, and 4.0 reads the base offset of no other batch than the one that it has found."""
    written, _ = _with_closed_message(tmp_path, 1)
    for release in ("3.9", "4.0"):
        draft = plan(written.root, only_copy=True, kafka={"kafka": release})
        assert not any(change.path.endswith(".log") for change in draft.plan.changes)
        assert not draft.plan.report.losses


def test_the_release_has_to_be_known_where_it_decides_about_a_message(tmp_path: Path) -> None:
    written, _ = _with_closed_message(tmp_path, 1)
    report = plan(written.root, only_copy=True, kafka=None).plan.report
    assert report.needs_release
