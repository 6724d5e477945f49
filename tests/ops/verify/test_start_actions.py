"""What verify and truncate say of a start that ends early, hides an end, or forgets: both ask the simulated start.

`tests/integration/test_start_actions.py` starts real brokers on such disks.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.preflight.preflight import PreflightRequest, preflight
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.storage.changing.writer import Disk
from tests.support import build
from tests.support.clusters import TOPIC, config_record, topic_record, write_meta, write_metadata_log
from tests.support.truncating import EPOCHS, NOW_MS, batch, batches_of, codes, plan, write_log, write_tops

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.findings import Finding

FAR = 2**31
OWN = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}


def disk(tmp_path: Path, segments: Mapping[int, Sequence[Any]], *, is_clean: bool) -> Path:
    """A log directory of one partition, in which nothing is flushed for certain."""
    root = write_tops(tmp_path / "disk", is_clean=is_clean, recovery=[("t", 0, 0)])
    write_meta(root)
    write_log(root / "t-0", segments)
    return root


def spoilt(data: bytes) -> bytes:
    return data[:70] + bytes([data[70] ^ 1]) + data[71:]


def findings(*paths: Path, code: str) -> list[Finding]:
    request = VerifyRequest(targets=tuple(resolve(list(map(str, paths)))), now_ms=NOW_MS)
    return [one for verdict in verify(request) for one in verdict.findings if one.code == code]


def of_subject(root: Path, subject: str) -> list[Finding]:
    request = VerifyRequest(targets=tuple(resolve([str(root)])), now_ms=NOW_MS)
    return [one for verdict in verify(request) for one in verdict.findings if one.code.startswith(f"{subject}.")]


def action(root: Path, code: str) -> str:
    (finding,) = findings(root, code=code)
    return finding.broker_action or ""


# --- gaps -------------------------------------------------------------------------------------------------------------
def test_a_gap_alone_is_loaded_silently(tmp_path: Path) -> None:
    root = disk(tmp_path, {0: [(0, 1)], 4: [(4, 5)]}, is_clean=False)
    assert action(root, "segment.gap") == "Loads the log silently; consumers skip these offsets."


def test_a_gap_in_a_segment_that_the_start_deletes(tmp_path: Path) -> None:
    root = disk(tmp_path, {0: [spoilt(batch(0, 1))], 2: [(2, 3)], 8: [(8, 9)]}, is_clean=False)
    for finding in findings(root, code="segment.gap"):
        assert (finding.broker_action or "").startswith("Deletes the whole segment")
        assert (finding.cure or "").startswith(("Look for the missing records", "If the topic is or was compacted"))


def test_a_gap_that_damage_leaves(tmp_path: Path) -> None:
    """The finding about the damage says what consumers get: they do not skip what is served."""
    root = disk(tmp_path, {0: [spoilt(batch(0, 1))], 2: [(2, 3)]}, is_clean=True)
    told = "Loads the log silently. What consumers get of these offsets depends on the damage before them."
    assert action(root, "segment.gap") == told


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        (b"0\n3\n0 0\n", "Takes the whole log directory offline because of leader-epoch-checkpoint. Without that it "),
        (b"0\n1\nzero 0\n", "Does not start because of leader-epoch-checkpoint. Without that it "),
    ],
)
def test_a_gap_next_to_a_file_that_ends_the_start(tmp_path: Path, text: bytes, opening: str) -> None:
    root = disk(tmp_path, {0: [(0, 1)], 4: [(4, 5)]}, is_clean=True)
    (root / "t-0" / EPOCHS).write_bytes(text)
    assert action(root, "segment.gap") == f"{opening}loads the log silently; consumers skip these offsets."


def test_offsets_that_are_elsewhere_are_not_missing(tmp_path: Path) -> None:
    root = disk(tmp_path, {0: [(0, 1), (20, 21), (4, 5), (6, 7)]}, is_clean=True)
    (gap,) = findings(root, code="batch.gap")
    assert gap.message.startswith("Offsets 2 to 3 are missing before the batch at byte ")
    assert findings(root, code="batch.gaps") == []


# --- a far offset -----------------------------------------------------------------------------------------------------
def test_a_segment_is_split_by_a_recovery_alone(tmp_path: Path) -> None:
    root = disk(tmp_path, {0: [(0, 1), (FAR, FAR + 1)]}, is_clean=False)
    told = "Splits the segment when it recovers it at its next start: "
    assert action(root, "segment.offset-overflow").startswith(told)
    assert codes(plan(root, as_broker=True)) == ["truncate.split-first"]
    assert codes(plan(root, as_broker=True, kafka="1.1")) == [], "1.1 loads it, as a real one does"
    (root / ".kafka_cleanshutdown").touch()
    assert "Else it loads the segment as it is." in action(root, "segment.offset-overflow")
    assert codes(plan(root, as_broker=True)) == []


# --- a file that is refused -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kafka", "text", "code"),
    [
        ("4.3", b"0\n3\n0 0\n", "truncate.broker-offline"),
        ("3.2", b"1\n1\n0 0\n", "truncate.broker-offline"),
        ("3.1", b"0\n3\n0 0\n", "truncate.broker-stops"),
        ("1.1", b"0\n3\n0 0\n", "truncate.broker-stops"),
        ("4.3", b"0\n1\nzero 0\n", "truncate.broker-stops"),
    ],
)
def test_a_refused_leader_epoch_checkpoint(tmp_path: Path, kafka: str, text: bytes, code: str) -> None:
    root = disk(tmp_path, {0: [(0, 1), spoilt(batch(2, 3))]}, is_clean=False)
    (root / "t-0" / EPOCHS).write_bytes(text)
    (refusal,) = plan(root, as_broker=True, kafka=kafka).plan.report.refusals
    assert (refusal.code, refusal.next_command) == (code, f"kafkalog verify {root}/t-0")
    assert "it refuses leader-epoch-checkpoint: " in refusal.message


def test_damage_next_to_a_refused_file_is_not_truncated_first(tmp_path: Path) -> None:
    root = disk(tmp_path, {0: [(0, 1), spoilt(batch(2, 3))]}, is_clean=True)
    (root / "t-0" / EPOCHS).write_bytes(b"0\n3\n0 0\n")
    (finding,) = findings(root, code="batch.crc-mismatch")
    assert (finding.broker_action or "").startswith("Takes the whole log directory offline: it refuses leader-epoch")
    assert (finding.cure or "").startswith("The other file comes first")
    assert "truncate" not in (finding.next_command or "")


# --- the end of a log whose offsets go back ---------------------------------------------------------------------------
@pytest.mark.parametrize("is_clean", [True, False])
def test_the_last_batch_hides_others(tmp_path: Path, is_clean: bool) -> None:
    root = disk(tmp_path, {0: [(0, 1), (2, 3), (4, 5), (2, 3)]}, is_clean=is_clean)
    (root / "t-0" / f"{0:020}.index").write_bytes(b"")
    assert "takes offset 4 as the log end offset" in action(root, "batch.offset-order")
    (refusal,) = plan(root, as_broker=True).plan.report.refusals
    assert refusal.code == "truncate.end-lost"
    told = "takes offset 4 as the log end offset, although the log holds whole batches up to offset 5"
    assert told in refusal.message
    assert refusal.next_command == f"kafkalog recover --kafka 4.3 {root}"


def test_offsets_below_the_base_alone_hide_nothing(tmp_path: Path) -> None:
    """The circle was: as-broker "the index misleads", reindex "neither indexed nor split", as-broker again."""
    root = disk(tmp_path, {0: [(0, 1), (2, 3)], 4: [(0, 1), (2, 3)]}, is_clean=True)
    (root / "t-0" / f"{4:020}.index").write_bytes(b"")
    assert codes(plan(root, as_broker=True)) == []
    told = "consumers get its records only if no earlier segment has these offsets or later ones."
    assert action(root, "batch.offset-order").endswith(told)
    (root / ".kafka_cleanshutdown").unlink()
    (refusal,) = plan(root, as_broker=True).plan.report.refusals
    assert (refusal.code, refusal.next_command) == (
        "truncate.broker-stops",
        f"kafkalog recover --kafka 4.3 {root}",
    )


def test_an_index_that_leads_to_a_batch_below_it(tmp_path: Path) -> None:
    """A reindex refuses a log whose offsets go back, so that it is not the next command."""
    root = disk(tmp_path, {0: [(0, 1), (2, 3), (4, 5), (2, 3)]}, is_clean=True)
    position = sum(len(batch(first, first + 1)) for first in (0, 2, 4))
    (root / "t-0" / f"{0:020}.index").write_bytes(build.offset_index([(5, position)]))
    (refusal,) = plan(root, as_broker=True).plan.report.refusals
    assert refusal.code == "truncate.end-lost"
    assert "takes offset 0 as the log end offset" in refusal.message


# --- names and ranges -------------------------------------------------------------------------------------------------
def test_a_misnamed_log_has_one_answer(tmp_path: Path) -> None:
    root = disk(tmp_path, {0: [(0, 1)]}, is_clean=True)
    (root / "t-0" / "5.log").write_bytes(batch(5, 6))
    (refusal,) = plan(root, as_broker=True).plan.report.refusals
    (finding,) = findings(root, code="segment.misnamed")
    assert refusal.code == "truncate.misnamed"
    assert "creates an empty segment at offset 5, and never reads 5.log" in refusal.message
    assert "offset 5 from the name, creates an empty segment there" in (finding.broker_action or "")
    assert refusal.next_command == finding.next_command


def test_no_range_has_a_negative_offset(tmp_path: Path) -> None:
    root = disk(tmp_path, {0: [(-5, -3), spoilt(batch(3, 4)), (5, 6)]}, is_clean=False)
    (damage,) = findings(root, code="batch.crc-mismatch")
    assert (damage.offset, damage.message.rpartition("; ")[2]) == (0, "nothing of offsets 0 to 4 can be read.")
    (loss,) = plan(root / "t-0", at_damage=True).plan.report.losses
    assert (loss.first_offset, loss.next_offset, loss.records) == (5, 7, 5)


# --- transactions -----------------------------------------------------------------------------------------------------
def test_an_open_transaction_is_forgotten_without_a_snapshot(tmp_path: Path) -> None:
    root = disk(tmp_path, {0: [batch(0, 1, **OWN), (2, 3)]}, is_clean=True)
    (finding,) = findings(root, code="txn.open")
    assert (finding.broker_action or "").startswith("Forgets the transaction at its next start")
    assert finding.next_command == f"kafkalog recover {root}"
    (root / "t-0" / f"{4:020}.snapshot").write_bytes(build.snapshot([]))
    assert action(root, "txn.open").startswith("Waits for its marker")
    (root / "t-0" / f"{4:020}.snapshot").unlink()
    (root / ".kafka_cleanshutdown").unlink()
    assert action(root, "txn.open").startswith("Waits for its marker")


def test_an_open_transaction_whose_records_the_start_truncates(tmp_path: Path) -> None:
    """Seen of 4.3.1 (seeds 8101 and 8189 of `tests/integration/mutated_starts.py`): nobody waits for it."""
    root = disk(tmp_path, {0: [spoilt(batch(0, 1))], 2: [batch(2, 3, **OWN)]}, is_clean=False)
    told = "Deletes its records at its next start, which truncates the log before them."
    assert action(root, "txn.open") == told
    (root / ".kafka_cleanshutdown").touch()
    (root / "t-0" / f"{4:020}.snapshot").write_bytes(build.snapshot([]))
    assert action(root, "txn.open").startswith("Waits for its marker")


def test_a_transaction_index_whose_first_wrong_entry_has_it_built_again(tmp_path: Path) -> None:
    """TransactionIndex.sanityCheck meets the offsets first, so that the entry of another version is gone: 4.3.1."""
    root = disk(tmp_path, {0: [(0, 1)], 2: [(2, 3)]}, is_clean=False)
    entries = b"".join(struct.pack(">hqqqq", version, 7, 0, last, 3) for version, last in ((0, 1), (9267, 3)))
    (root / "t-0" / f"{2:020}.txnindex").write_bytes(entries)
    rebuilds = "Recovers the segment, because {why}, and rebuilds its indexes."
    assert action(root, "txnindex.bad-version") in {
        rebuilds.format(why="the last shutdown was not clean, and the segment is not below the recovery point"),
        rebuilds.format(why="its transaction index is corrupt"),
    }
    (root / "t-0" / f"{2:020}.txnindex").write_bytes(entries[34:])
    assert action(root, "txnindex.bad-version").startswith("Does not start")


def test_the_end_after_a_clean_stop_is_that_of_the_broker(tmp_path: Path) -> None:
    """Seen of 4.3.1 (seed 9108 of 10-rolls): the last offset of a batch whose size is 14 counts.

    The bytes at which it looks for the next batch have the size of a long one, of which the rest is not there.
    """
    last = build.batch_v2([build.Record(offset=3, timestamp_ms=1_700_000_016_732, value=b"n" * 60)])
    root = disk(tmp_path, {0: [(0, 2)], 3: [last[:8] + (14).to_bytes(4, "big") + last[12:]]}, is_clean=True)
    write_tops(root, is_clean=True, recovery=[("t", 0, 4)], watermarks=[("t", 0, 4)])
    (root / "t-0" / f"{4:020}.snapshot").write_bytes(build.snapshot([]))
    request = VerifyRequest(targets=tuple(resolve([str(root)])), now_ms=NOW_MS)
    found = {one.code for verdict in verify(request) for one in verdict.findings}
    assert "log.bad-length" in found
    assert not {code for code in found if code.endswith((".beyond-end", ".not-at-end", ".below-end"))}


def test_records_after_a_batch_of_a_wrong_length_are_hidden(tmp_path: Path) -> None:
    """Seen of 4.3.1: no client gets the last batch, and the next one that is produced gets its offsets again."""
    wrong = batch(2, 3)
    longer = wrong[:8] + (int.from_bytes(wrong[8:12], "big") + 7).to_bytes(4, "big") + wrong[12:]
    root = disk(tmp_path, {0: [(0, 1), longer, (4, 5)]}, is_clean=True)
    (root / "t-0" / f"{0:020}.index").write_bytes(b"")  # else its entry leads past the batch
    write_tops(root, is_clean=True, recovery=[("t", 0, 6)], watermarks=[("t", 0, 6)])
    (root / "t-0" / f"{6:020}.snapshot").write_bytes(build.snapshot([]))
    assert action(root, "log.end-hidden").startswith("Hides the records from that offset on")
    request = PreflightRequest(targets=tuple(resolve([str(root)])), now_ms=NOW_MS)
    assert "2 offsets of t-0 are assigned again" in preflight(request).verdict


# --- offsets that go back ---------------------------------------------------------------------------------------------
def test_no_file_is_wrong_by_a_batch_whose_offset_is(tmp_path: Path) -> None:
    """Seen of 4.3.1 (seed 8171): the start builds the same time index, and gives epoch 0 the same end."""
    root = disk(tmp_path, {0: [batch(100, 100), (1, 1), (2, 2), (3, 3)]}, is_clean=False)
    (root / "t-0" / f"{0:020}.timeindex").write_bytes(build.time_index([(1003, 3)]))
    (root / "t-0" / EPOCHS).write_bytes(build.epoch_checkpoint([(0, 0), (2, 4)]))
    write_tops(root, cleaned=[("t", 0, 4)])
    found = {each.code for code in ("timeindex", "epochs") for each in of_subject(root, code)}
    assert found == set()
    assert "up to" not in str(findings(root, code="epochs.early-start"))


# --- the next command -------------------------------------------------------------------------------------------------
def test_recover_is_given_the_metadata_log_that_was_read(tmp_path: Path) -> None:
    """A record outside of the open transaction of its producer stops the broker, wherever the index has entries."""
    plain = batch(2, 3, producer_id=7, producer_epoch=0, base_sequence=2)
    root = disk(tmp_path, {0: [batch(0, 1, **OWN), plain]}, is_clean=False)
    metadata = tmp_path / "the metadata"
    write_meta(metadata)
    write_metadata_log(metadata, topic_record("t"), config_record(TOPIC, "t", "segment.index.bytes", "1000"))
    (alone,) = findings(root, code="txn.plain-inside")
    (both,) = findings(root, metadata, code="txn.plain-inside")
    assert alone.next_command == f"kafkalog recover {root}"
    assert both.next_command == f"kafkalog recover {root} '{metadata}'"


# --- a directory that does not change ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [f"{9:020}.log/", f"{9:020}.log.deleted", f"{9:020}.log.swap"])
def test_what_is_named_like_a_later_log_is_no_change(tmp_path: Path, name: str) -> None:
    root = disk(tmp_path, {0: [(0, 1), spoilt(batch(2, 3))]}, is_clean=True)
    if name.endswith("/"):
        (root / "t-0" / name).mkdir()
    else:
        (root / "t-0" / name).write_bytes(batch(9, 9))
    assert findings(root, code="partition.changing") == []


# --- a log below its checkpointed start -------------------------------------------------------------------------------
def test_the_new_segment_has_the_base_offset_of_one_that_is_deleted(tmp_path: Path) -> None:
    """The last segment is truncated at its base, so that the log ends at the checkpointed start and below it."""
    root = disk(tmp_path, {0: [(0, 4), spoilt(batch(5, 9))], 20: [(20, 24)]}, is_clean=False)
    (root / "log-start-offset-checkpoint").write_bytes(build.offset_checkpoint([("t", 0, 20)]))
    draft = plan(root, as_broker=True)
    kinds = {Path(change.path).name: change.kind for change in draft.plan.changes if change.path.endswith(".log")}
    assert kinds == {f"{0:020}.log": "remove", f"{20:020}.log": "replace"}
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    assert batches_of(root / "t-0") == []
    assert plan(root, as_broker=True).plan.changes == ()
