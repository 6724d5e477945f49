"""Rows of healthy log directories of every release: each figure is the one that a plain reader of the files finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import plain_log
from tests.support.corpus import archives
from tests.support.corpus.snapshots import snapshots
from tests.support.figures import batch_row, check_all, of_logs, run, segment_row, stats_row, summary
from tests.support.plain_log import log_of, segments

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.figures import Ran

pytestmark = pytest.mark.corpus


def _log_dirs() -> list[str]:
    """Log directories that a consumer read to the end; of one case the last stage, where not all of them are wanted."""
    read = {each.log_dir for each in snapshots() if each.fault is None and each.records and each.stopped_at is None}
    last = {log_dir.split("/")[1]: log_dir for log_dir in sorted(read)}
    return sorted(read if archives.is_whole() else last.values())


@pytest.fixture(params=_log_dirs())
def logs(request: pytest.FixtureRequest, corpus: Path) -> list[Path]:
    """Its partitions with nothing in them but live segments; none of Kafka 0.7, whose files are no `.log`."""
    paths = sorted(path for path in (corpus / request.param).iterdir() if path.name[-1].isdigit() and path.is_dir())
    return [path for path in paths if segments(path) and _is_sound(path)]


def _is_sound(path: Path) -> bool:
    """Whether offsets rise, which no checksum of magic 0 protects, and no file waits to be deleted or is a snapshot."""
    offsets = [batch.last_offset for batch in log_of(path)]
    return offsets == sorted(offsets) and not [*path.glob("*.deleted"), *path.glob("*.checkpoint")]


def test_rows_of_logs(logs: list[Path]) -> None:
    if not logs:
        return
    rests = [_rest(log) for path in logs for log in segments(path).values()]
    every = [(path, batch) for path in logs for batch in log_of(path)]
    unknown = sum(batch.magic < 2 and batch.codec != "none" for _, batch in every)
    inside = sum(len(batch.records) for _, batch in every if batch.magic < 2 and batch.codec != "none")
    figures = of_logs(*logs)
    figures["unopened_batches"] = figures["batches"] - unknown

    ran = run("dump", "--segments", *logs)
    expected = [segment_row(path, log) for path in logs for log in segments(path).values()]
    check_all(ran.of("segment"), [row | _damage([rest]) for row, rest in zip(expected, rests, strict=True)])
    _check_summary(ran, figures, rests)

    ran = run("dump", "--stats", *logs)
    check_all(ran.of("stats"), [stats_row(path) | _damage([*map(_rest, segments(path).values())]) for path in logs])
    _check_summary(ran, figures, rests)

    ran = run("dump", *logs)
    check_all(ran.of("batch"), [batch_row(path, batch) for path, batch in every])
    figures |= {"unopened_batches": len(every), "uncounted_batches": unknown, "records": figures["records"] - inside}
    _check_summary(ran, figures, rests)

    said = run("verify", "--jobs", 1, "--level", "checksums", *logs).summary
    assert {name: said[name] for name in figures} == figures


def _check_summary(ran: Ran, figures: dict[str, int], rests: list[int]) -> None:
    """Compare the summary; what is said of a log that the cleaner has been at is no more than an info."""
    said = ran.summary
    assert said["severities"].keys() <= {"info"}
    assert {row["code"] for row in ran.of("finding")} <= {"segment.gap-compacted"}
    summary(ran, **figures | _damage(rests), severities=said["severities"], codes=said["codes"])


def _rest(log: Path) -> int:
    """Bytes behind the last batch: zeros, preallocated."""
    return log.stat().st_size - sum(batch.size_bytes for batch in plain_log.batches_of(log))


def _damage(rests: list[int]) -> dict[str, int]:
    return {"damage_count": sum(rest > 0 for rest in rests), "damage_bytes": sum(rests)}
