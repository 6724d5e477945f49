"""A run that goes on where another one was: the same verdicts, and nothing read twice."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.resume import END_BYTES, StateError, decode, head_line, head_problem, place_of
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from tests.ops.verify.keeper import NOW_MS, Kept, check
from tests.support.build import txn_index
from tests.support.corpus.snapshots import snapshots
from tests.support.partitions import TIME_MS, PartitionWriter

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000


def log_bytes(verdicts):
    parts = [verdict for verdict in verdicts if isinstance(verdict, PartitionVerdict)]
    return sum(segment.size_bytes for verdict in parts for segment in verdict.segments)


def write(path: Path, segments: int = 4, **options) -> PartitionWriter:
    writer = PartitionWriter(path, **options)
    writer.begin()
    for _ in range(segments):
        writer.segment()
    return writer


def sizes(path: Path) -> list[int]:
    return [log.stat().st_size for log in sorted(path.glob("*.log"))]


# --- on what brokers left ---------------------------------------------------------------------------------------------
@pytest.mark.corpus
@pytest.mark.parametrize("log_dir", sorted({snapshot.log_dir for snapshot in snapshots() if snapshot.fault is None}))
def test_nothing_is_read_again_and_everything_is_said_again(corpus: Path, log_dir: str) -> None:
    kept = Kept()
    full = check(corpus / log_dir)
    assert kept.run(corpus / log_dir) == (full, 0, kept.written)
    assert kept.run(corpus / log_dir) == (full, log_bytes(full), [])
    whole = dict(kept.lines)
    for count in range(max(map(len, whole.values()))):  # as if the run before had been stopped there in each partition
        kept.lines = {partition: lines[:count] for partition, lines in whole.items()}
        assert kept.run(corpus / log_dir)[0] == full
        assert kept.lines == whole


# --- what changes meanwhile -------------------------------------------------------------------------------------------
def test_a_grown_segment_is_read_again_and_those_before_it_are_not(tmp_path: Path) -> None:
    writer, kept = write(tmp_path / "t-0"), Kept()
    kept.run(tmp_path / "t-0")
    writer.append()
    assert kept.run(tmp_path / "t-0") == (check(tmp_path / "t-0"), sum(sizes(tmp_path / "t-0")[:-1]), [3])


def test_a_rolled_segment_is_no_longer_the_last(tmp_path: Path) -> None:
    writer, kept = write(tmp_path / "t-0"), Kept()
    kept.run(tmp_path / "t-0")
    writer.segment()
    assert kept.run(tmp_path / "t-0") == (check(tmp_path / "t-0"), sum(sizes(tmp_path / "t-0")[:3]), [3, 4])


def test_without_its_first_segment_a_partition_is_another_one(tmp_path: Path) -> None:
    write(tmp_path / "t-0")
    kept = Kept()
    kept.run(tmp_path / "t-0")
    for file in (tmp_path / "t-0").glob(f"{0:020d}.*"):
        file.unlink()
    assert kept.run(tmp_path / "t-0") == (check(tmp_path / "t-0"), 0, [0, 1, 2])


def test_another_tail_is_seen_though_size_and_times_are_the_same(tmp_path: Path) -> None:
    writer, kept = write(tmp_path / "t-0"), Kept()
    kept.run(tmp_path / "t-0")
    log = tmp_path / "t-0" / f"{writer.bases[1]:020d}.log"
    before = log.stat()
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    verdicts, skipped_bytes, written = kept.run(tmp_path / "t-0")
    assert (verdicts, skipped_bytes, written) == (check(tmp_path / "t-0"), sizes(tmp_path / "t-0")[0], [1, 2, 3])
    assert "batch.crc-mismatch" in {finding.code for finding in verdicts[0].findings}


def test_a_middle_that_was_changed_behind_our_back_is_not_seen(tmp_path: Path) -> None:
    """The limit that the manual names: nobody changes a middle and sets the clock of the file back by accident."""
    writer, kept = write(tmp_path / "t-0", segments=2, value_bytes=END_BYTES), Kept()
    first, _, _ = kept.run(tmp_path / "t-0")
    log = tmp_path / "t-0" / f"{writer.bases[0]:020d}.log"
    before = log.stat()
    with log.open("r+b") as file:
        file.seek(before.st_size // 2)
        file.write(b"x")
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert check(tmp_path / "t-0") != first
    assert kept.run(tmp_path / "t-0") == (first, sum(sizes(tmp_path / "t-0")), [])
    os.utime(log)
    assert kept.run(tmp_path / "t-0")[0] == check(tmp_path / "t-0")


@pytest.mark.parametrize("extension", ["index", "timeindex", "txnindex", "snapshot"])
def test_what_is_beside_a_log_counts_too(tmp_path: Path, extension: str) -> None:
    writer, kept = write(tmp_path / "t-0"), Kept()
    kept.run(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{writer.bases[2]:020d}.{extension}").write_bytes(bytes(40))
    verdicts, skipped_bytes, _ = kept.run(tmp_path / "t-0")
    assert verdicts == check(tmp_path / "t-0")
    assert skipped_bytes == sum(sizes(tmp_path / "t-0")[:2])


def test_a_snapshot_that_appears_is_compared_with_the_log(tmp_path: Path) -> None:
    write(tmp_path / "t-0")
    kept = Kept()
    kept.run(tmp_path / "t-0")
    shutil.copy(tmp_path / "t-0" / f"{15:020d}.snapshot", tmp_path / "t-0" / f"{20:020d}.snapshot")
    verdicts, skipped_bytes, _ = kept.run(tmp_path / "t-0")
    assert verdicts == check(tmp_path / "t-0")
    assert skipped_bytes == sizes(tmp_path / "t-0")[0]
    assert "snapshot.wrong-state" in {finding.code for finding in verdicts[0].findings}


def test_what_was_found_in_a_segment_that_is_not_read_again_is_found_again(tmp_path: Path) -> None:
    """The findings of a partition about one of its segments too: an aborted transaction that the log does not have."""
    write(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{0:020}.txnindex").write_bytes(txn_index([(1, 0, 3, 4)]))
    kept = Kept()
    full, _, _ = kept.run(tmp_path / "t-0")
    assert "txnindex.unknown-entry" in {finding.code for verdict in full for finding in verdict.findings}
    assert kept.run(tmp_path / "t-0") == (full, log_bytes(full), [])


def test_the_same_partition_by_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "t-0")
    (tmp_path / "t-0" / "notes.txt").write_text("x")
    (tmp_path / "t-0" / f"{0:020d}.index").write_bytes(b"\0\0\0\x63\0\0\0\x01")
    kept = Kept()
    kept.run(tmp_path / "t-0")
    monkeypatch.chdir(tmp_path)
    verdicts, skipped_bytes, _ = kept.run("t-0")
    assert verdicts == check("t-0")
    assert skipped_bytes == sum(sizes(tmp_path / "t-0"))
    assert all(finding.path.startswith("t-0/") for finding in verdicts[0].segments[0].findings)


def test_a_file_that_changes_while_it_is_read_is_not_known_later(tmp_path: Path) -> None:
    writer, kept = write(tmp_path / "t-0", segments=3), Kept()
    log = tmp_path / "t-0" / f"{writer.bases[1]:020d}.log"

    class Touching:
        def expect(self, size_bytes):
            del size_bytes

        def advance(self, size_bytes):
            if size_bytes > 0:
                os.utime(log)

    request = VerifyRequest(targets=tuple(resolve([str(tmp_path / "t-0")])), now_ms=NOW_MS)
    list(verify(request, Touching(), kept))
    assert kept.written == [0]


def test_the_future_is_looked_at_again_after_a_day(tmp_path: Path) -> None:
    write(tmp_path / "t-0", segments=2)
    long_ago = TIME_MS - 10 * DAY_MS
    kept = Kept()
    kept.run(tmp_path / "t-0", now_ms=long_ago)
    assert kept.run(tmp_path / "t-0", now_ms=long_ago + 1)[1] > 0
    assert kept.run(tmp_path / "t-0") == (check(tmp_path / "t-0"), 0, [0, 1])


def test_many_producers_are_kept_near_the_end_alone(tmp_path: Path) -> None:
    writer = write(tmp_path / "t-0", segments=0)
    for _ in range(4):
        writer.segment(rounds=0)
        with (tmp_path / "t-0" / f"{writer.bases[-1]:020d}.log").open("ab") as log:
            for producer_id in range(100, 200):
                log.write(writer._batch(producer_id))
    kept = Kept()
    full, _, _ = kept.run(tmp_path / "t-0")
    [lines] = kept.lines.values()
    assert [decode(line, "").producers is not None for line in lines] == [False, False, True, True]
    kept.lines = dict.fromkeys(kept.lines, lines[:2])
    assert kept.run(tmp_path / "t-0") == (full, 0, [0, 1, 2, 3])
    kept.lines = dict.fromkeys(kept.lines, lines[:3])
    assert kept.run(tmp_path / "t-0") == (full, sum(sizes(tmp_path / "t-0")[:3]), [3])


# --- lines from anywhere ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("state") / "t-0"
    write(path, segments=1)
    (path / f"{0:020d}.index").write_bytes(bytes(3))
    kept = Kept()
    kept.run(path)
    return kept.lines[str(path)][0]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "1e999", '{"segment":[]}', '{"partition":"t-0","index":0,"segment":null}', "[" * 100_000],
)
def test_what_is_no_line_is_refused(text: str) -> None:
    with pytest.raises(StateError):
        place_of(text)


def _places(value, path=()):
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(item, (*path, key))


_OTHERS = st.sampled_from([None, True, -1, 2**63, 1.5, "x", "\0", [], {}, [[]], 10**400])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_line_with_another_value_in_it_is_refused_or_harmless(line: str, data: st.DataObject) -> None:
    values = json.loads(line)
    places = [path for path in _places(values) if path]
    path = data.draw(st.sampled_from(places))
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = data.draw(_OTHERS)
    try:
        place_of(json.dumps(values))
    except StateError:
        return
    record = decode(json.dumps(values), "/somewhere")
    assert isinstance(record.verdict.size_bytes, int)


def test_a_state_of_producers_that_is_none_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "t-0", segments=1)
    kept = Kept()
    kept.run(tmp_path / "t-0")
    [(partition, [text])] = kept.lines.items()
    for producers in ("????", "AAAA"):
        values = json.loads(text)
        values["segment"][-1] = producers
        kept.lines[partition] = [json.dumps(values)]
        with pytest.raises(StateError, match="the state of producers"):
            kept.run(tmp_path / "t-0")


def test_the_head_tells_what_verdicts_depend_on(tmp_path: Path) -> None:
    write(tmp_path / "t-0", segments=1)
    targets = tuple(resolve([str(tmp_path / "t-0")]))
    request = VerifyRequest(targets=targets, now_ms=1)
    head = head_line(request, "1.0")
    assert head_problem(head, VerifyRequest(targets=(), now_ms=2, jobs=3), "1.0") is None
    assert "--level records" in str(head_problem(head, VerifyRequest(targets=(), now_ms=1, level="headers"), "1.0"))
    assert "batch-bytes" in str(head_problem(head, VerifyRequest(targets=(), now_ms=1, max_batch_bytes=5), "1.0"))
    assert "another release" in str(head_problem(head, request, "1.1"))
    for other in ("{}", '{"format":"x"}', "\n", "5"):
        with pytest.raises(StateError):
            head_problem(other, request, "1.0")
