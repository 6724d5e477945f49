"""What a preflight reads: each log once, for the checks of verify and for the start; and that it counts the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.preflight.preflight import Preflight, PreflightRequest, preflight
from tests.support.log_reads import BATCHES, LITTLE, counted, times, written
from tests.support.recover_plans import recover
from tests.support.truncating import INTERVAL, MARK, NOW_MS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.excising import Written

LAST = 2 * BATCHES


def foresee(log: Written, *, jobs: int = 1) -> Preflight:
    kafka = SettingsRequest(kafka="4.3", assignments=(f"log.index.interval.bytes={INTERVAL}",))
    targets = tuple(resolve([str(log.root)]))
    return preflight(PreflightRequest(targets=targets, now_ms=NOW_MS, kafka=kafka, jobs=jobs))


def lost(result: Preflight) -> list[tuple[int | None, int | None, int | None, int]]:
    """First offset, the offset after the last one, records and bytes of each loss."""
    losses = (loss for each in result.partitions for loss in each.losses)
    return [(loss.first_offset, loss.next_offset, loss.records, loss.bytes) for loss in losses]


def test_a_log_after_a_crash_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path / "disk", is_clean=True)
    recover(log.root)
    (log.root / MARK).unlink()
    counts = counted(monkeypatch)
    result = foresee(log)
    assert lost(result) == []
    assert result.recovery_bytes >= log.log(BATCHES).stat().st_size
    assert all(1 <= count <= 1 + LITTLE for count in times(log, counts).values()), times(log, counts)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("base", [0, BATCHES])
def test_what_is_deleted_is_counted_where_it_is_read(tmp_path: Path, base: int, jobs: int) -> None:
    """The batches from the damaged one on, and those of later segments."""
    log = written(tmp_path / "disk", is_clean=False)
    start, end = log.at(base, 5)
    log.flip(base, end - 5)
    later = log.log(BATCHES).stat().st_size if base == 0 else 0
    size_bytes = log.log(base).stat().st_size - start + later
    first, records = base + 6, LAST - base - 6
    assert lost(foresee(log, jobs=jobs)) == [(first, LAST, records, size_bytes)]


def test_many_damaged_places_are_counted_too(tmp_path: Path) -> None:
    log = written(tmp_path / "disk", is_clean=False)
    for number in range(5, BATCHES, 2):
        log.flip(0, log.at(0, number)[1] - 5)
    kept = [*range(6, BATCHES, 2), *range(BATCHES, LAST)]
    sizes = log.log(0).stat().st_size - log.at(0, 5)[0] + log.log(BATCHES).stat().st_size
    assert lost(foresee(log)) == [(6, LAST, len(kept), sizes)]


def test_a_torn_append_is_no_loss(tmp_path: Path) -> None:
    log = written(tmp_path / "disk", is_clean=False)
    with log.log(BATCHES).open("ab") as file:
        file.write(log.segments[0][0][:100])
    result = foresee(log)
    assert lost(result) == []
    assert [each.is_cut for each in result.partitions] == [True]
