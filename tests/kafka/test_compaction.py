"""What missing offsets mean: compacted away, lost, or not to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.sim import logfiles
from kafkalog_core.kafka.sim.logfiles import (
    Checkpoints,
    Compaction,
    LogHead,
    is_compacted,
    shows_no_compaction,
    unit_of_partition,
)
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import ScanOptions
from tests.support.build import (
    COMMIT,
    GZIP,
    Record,
    batch_v2,
    empty_batch,
    message_v1,
    offset_checkpoint,
    txn_marker,
    wrapper_v1,
)
from tests.support.logs import write_segments

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = ScanOptions()


def record(offset: int, key: bytes | None) -> Record:
    return Record(offset=offset, timestamp_ms=1000 + offset, key=key, value=b"v")


def keyed(first: int, *keys: bytes | None, **fields: int) -> bytes:
    return batch_v2([record(first + number, key) for number, key in enumerate(keys)], **fields)


def part(tmp_path: Path, data: bytes, base: int = 0) -> LogHead:
    path = tmp_path / f"{base:020d}.log"
    path.write_bytes(data)
    return LogHead(str(path), base, len(data))


@pytest.mark.parametrize(
    ("topic", "is_cleaned", "expected"),
    [
        ("t", None, False),
        ("t", False, False),
        ("t", True, True),
        (None, None, False),
        ("__consumer_offsets", None, True),
        ("__transaction_state", False, True),
    ],
)
def test_what_is_known(topic: str | None, is_cleaned: bool | None, expected: bool) -> None:
    assert is_compacted(topic, is_cleaned=is_cleaned) is expected


# --- records that compaction would have removed -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (keyed(0, b"a", b"b"), False),
        (keyed(0, b"a", None), True),
        (keyed(0, b"a", b"b", b"a"), True),
        (keyed(0, b"a") + keyed(1, b"b") + keyed(2, b"a"), True),
        (keyed(0, b"", b"a"), False),
        (keyed(0, b"", b"a", b""), True),
        (keyed(0, b"a", b"b", b"a", codec=GZIP), True),
        (message_v1(record(0, b"a")) + message_v1(record(1, b"a")), True),
        (wrapper_v1([record(0, b"a"), record(1, None)], codec=GZIP), True),
        (keyed(0, b"a") + b"\x7f" * 100, False),
        (b"", False),
    ],
)
def test_records_that_compaction_removes(tmp_path: Path, data: bytes, expected: bool) -> None:
    assert shows_no_compaction([part(tmp_path, data)], OPTIONS) is expected


def test_markers_are_no_records(tmp_path: Path) -> None:
    """All of them have the same key, or two."""
    markers = b"".join(txn_marker(COMMIT, offset=offset, producer_id=7) for offset in range(3))
    assert not shows_no_compaction([part(tmp_path, markers + keyed(3, b"a"))], OPTIONS)


def test_what_stands_behind_the_gap_tells_nothing(tmp_path: Path) -> None:
    """Below the gap all keys are different, as a pass leaves them; what came later was not yet compacted."""
    head = keyed(0, b"a") + keyed(1, b"b")
    log = part(tmp_path, head + keyed(5, b"a") + keyed(6, b"a"))
    assert not shows_no_compaction([log._replace(end=len(head))], OPTIONS)


def test_a_key_of_an_earlier_segment(tmp_path: Path) -> None:
    parts = [part(tmp_path, keyed(10, b"a"), 10), part(tmp_path, keyed(0, b"b") + keyed(1, b"a"))]
    assert shows_no_compaction(parts, OPTIONS)
    assert not shows_no_compaction(parts[:1], OPTIONS)


def test_a_log_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    assert not shows_no_compaction([LogHead(str(tmp_path / "gone.log"), 0, 100)], OPTIONS)


@pytest.mark.parametrize(("name", "value"), [("_LOOK_BYTES", 300), ("_LOOK_RECORDS", 3)])
def test_only_so_much_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    data = b"".join(keyed(number, b"key %d" % (number % 9)) for number in range(10))
    parts = [part(tmp_path, data), part(tmp_path, keyed(20, None), 20)]
    assert shows_no_compaction(parts, OPTIONS)
    monkeypatch.setattr(logfiles, name, value)
    assert not shows_no_compaction(parts, OPTIONS)


# --- one log ----------------------------------------------------------------------------------------------------------
DUPLICATES = keyed(0, b"a") + keyed(1, b"a")
DIFFERENT = keyed(0, b"a") + keyed(1, b"b")


def compaction_of(
    tmp_path: Path, segments: dict[int, bytes], *, topic: str = "t", cleaned: list[tuple[str, int, int]] | None
) -> tuple[Compaction, list[logfiles.LogFile]]:
    home = tmp_path / "data"
    path = write_segments(home / f"{topic}-0", segments)
    if cleaned is not None:
        (home / "cleaner-offset-checkpoint").write_bytes(offset_checkpoint(cleaned))
    unit = unit_of_partition(read_partition(str(path)), None if cleaned is None else str(home))
    return Compaction(unit, Checkpoints(), OPTIONS), list(unit.files)


@pytest.mark.parametrize(
    ("head", "cleaned", "expected"),
    [
        (DUPLICATES, [], True),
        (DUPLICATES, [("u", 0, 5)], True),
        (DUPLICATES, [("t", 0, 5)], False),
        (DUPLICATES, None, False),
        (DIFFERENT, [], False),
    ],
)
def test_a_loss(tmp_path: Path, head: bytes, cleaned: list[tuple[str, int, int]] | None, expected: bool) -> None:
    asked, files = compaction_of(tmp_path, {0: head + keyed(5, b"c")}, cleaned=cleaned)
    assert asked.is_loss(files[0], len(head)) is expected


@pytest.mark.parametrize(
    "segments",
    [
        {0: DUPLICATES + keyed(5, b"c") + keyed(9, b"d")},
        {0: DUPLICATES + keyed(5, b"c"), 7: keyed(9, b"d")},
        {0: DUPLICATES + empty_batch(2, 5) + keyed(7, b"c")},
        {0: DUPLICATES + batch_v2([record(2, b"c")], base_offset=2, last_offset=6) + keyed(8, b"c")},
    ],
    ids=["two-gaps", "in-another-segment", "emptied", "thinned"],
)
def test_compaction_shows_elsewhere(tmp_path: Path, segments: dict[int, bytes]) -> None:
    asked, files = compaction_of(tmp_path, segments, cleaned=[])
    assert not asked.is_loss(files[0], len(DUPLICATES))
    assert asked.explains_gaps


def test_a_checkpoint_that_a_broker_refuses_says_nothing(tmp_path: Path) -> None:
    asked, files = compaction_of(tmp_path, {0: DUPLICATES + keyed(5, b"c")}, cleaned=[])
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_bytes(b"0\n7\n")
    assert not asked.is_loss(files[0], len(DUPLICATES))
