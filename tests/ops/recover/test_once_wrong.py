"""Recoveries that were once wrong: random faults and Kafka's own classes showed them, each a small case here.

`tests/integration/bringing_back.py` makes them; the seed of its kind `recover` is with each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import build
from tests.support.excising import batch_of, places_of, read_offsets, write, write_batches
from tests.support.recover_plans import plan, recover
from tests.support.truncating import MARK, RECOVERY, started

if TYPE_CHECKING:
    from pathlib import Path


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
    data, (start, middle), (_, end) = written.log(12).read_bytes(), written.at(12, 1), written.at(12, 2)
    exchanged = data[:start] + data[middle:end] + data[start:middle] + data[end:]
    written.log(12).write_bytes(exchanged)
    before = set(read_offsets(written.partition))
    draft = recover(written.root, only_copy=True)
    losses = [(each.first_offset, each.next_offset) for each in draft.plan.report.losses]
    gone = before - set(read_offsets(written.partition))
    assert gone <= {offset for first, end_offset in losses for offset in range(first or 0, end_offset or 0)}


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
