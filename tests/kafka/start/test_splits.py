"""Which logs a broker splits because their offsets do not fit into the indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.layout import MAX_BATCH_BYTES, MAX_INT32
from kafkalog_core.kafka.sim.start.recovery import split_parts
from kafkalog_core.storage.source import Source
from tests.support.truncating import batch

if TYPE_CHECKING:
    from pathlib import Path

FAR = 20 + MAX_INT32


def parts(path: Path, base_offset: int, *batches: bytes, checks: bool = True) -> list[tuple[int, ...]] | str:
    path.write_bytes(b"".join(batches))
    with Source.open(str(path)) as source:
        found = split_parts(source, base_offset, max_batch_bytes=MAX_BATCH_BYTES, checks=checks)
    return found if isinstance(found, str) else [tuple(each) for each in found]


def test_the_first_part_begins_with_the_first_batch(tmp_path: Path) -> None:
    """Also where that is below the offset in the name, as of a replacement that was renamed."""
    first, last = batch(10, 11), batch(FAR, FAR + 1)
    size = len(first)
    wanted = [(10, 0, size), (FAR, size, size + len(last))]
    assert parts(tmp_path / "log", 10, first, last) == wanted
    assert parts(tmp_path / "log", 12, first, last) == wanted
    assert "is not above offset 11" in str(parts(tmp_path / "log", 10, first, first, last))
    assert "its last offset, 11, is one that its indexes can hold" in str(parts(tmp_path / "log", 10, first))


def test_a_broker_splits_without_a_look_at_checksums(tmp_path: Path) -> None:
    first, last = batch(10, 11), batch(FAR, FAR + 1)
    damaged = first[:-1] + bytes([first[-1] ^ 1])
    assert "crc-mismatch" in str(parts(tmp_path / "log", 10, damaged, last))
    assert parts(tmp_path / "log", 10, damaged, last, checks=False) == parts(tmp_path / "log", 10, first, last)
    assert "torn-tail" in str(parts(tmp_path / "log", 10, first, last[:-1], checks=False))
