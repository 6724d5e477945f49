"""What `checkpoint` says about each checkpoint of offsets, and what becomes of it, from the logs next to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import build
from tests.support.checkpoint_dirs import Line, changed, draft, lines, write_log_dir

if TYPE_CHECKING:
    from pathlib import Path

GOOD = (("orders", 1, 50), ("payments", 0, 50))
RECOVERY, START, WATERMARK, CLEANER = (
    f"{name}-offset-checkpoint" for name in ("recovery-point", "log-start", "replication", "cleaner")
)
DROPPED = Line(2, "3", "2")
"""The line with the number of entries, where one goes."""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_log_dir(tmp_path / "disk")


def told(log_dir: Path) -> list[tuple[str, str, str]]:
    return [(finding.code, finding.severity, str(finding.path)) for finding in draft(log_dir).plan.report.findings]


@pytest.mark.parametrize("name", [RECOVERY, START, WATERMARK, CLEANER])
@pytest.mark.parametrize("offset", [0, 50, 99, 100])
def test_offsets_of_the_log_and_its_end_are_good(log_dir: Path, name: str, offset: int) -> None:
    (log_dir / name).write_bytes(build.offset_checkpoint([("orders", 0, offset), *GOOD]))
    planned = draft(log_dir)
    assert (told(log_dir), changed(planned, log_dir), planned.plan.report.refusals) == ([], [], ())


@pytest.mark.parametrize(
    ("name", "code", "severity", "becomes"),
    [
        (RECOVERY, "recovery-point.beyond-end", "error", [Line(3, "orders 0 101", "orders 0 100")]),
        (START, "log-start.beyond-end", "error", [DROPPED, Line(3, "orders 0 101", None)]),
        (WATERMARK, "high-watermark.maybe-beyond", "warning", [Line(3, "orders 0 101", "orders 0 100")]),
        (CLEANER, "cleaner-offset.beyond-end", "warning", [DROPPED, Line(3, "orders 0 101", None)]),
    ],
)
def test_one_offset_beyond_the_end_of_the_log(
    log_dir: Path, name: str, code: str, severity: str, becomes: list[Line]
) -> None:
    (log_dir / name).write_bytes(build.offset_checkpoint([("orders", 0, 101), *GOOD]))
    planned = draft(log_dir)
    assert told(log_dir) == [(code, severity, str(log_dir / name))]
    assert (lines(planned, name), changed(planned, log_dir)) == (becomes, [name])


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        (RECOVERY, [Line(3, "orders 0 -1", "orders 0 50")]),
        *((name, [DROPPED, Line(3, "orders 0 -1", None)]) for name in (START, WATERMARK, CLEANER)),
    ],
)
def test_a_negative_offset(log_dir: Path, name: str, becomes: list[Line]) -> None:
    """Of a recovery point the start of the active segment is the least that is known; others have no substitute."""
    (log_dir / name).write_bytes(build.offset_checkpoint([("orders", 0, -1), *GOOD]))
    assert told(log_dir) == [("checkpoint.negative-offset", "error", str(log_dir / name))]
    assert lines(draft(log_dir), name) == becomes


def test_a_directory_that_is_being_deleted_says_nothing(log_dir: Path) -> None:
    (log_dir / "orders-0").rename(log_dir / ("orders-0." + "0" * 32 + "-delete"))
    (log_dir / START).write_bytes(build.offset_checkpoint([("orders", 0, 101), *GOOD]))
    assert "log-start.beyond-end" not in [code for code, _, _ in told(log_dir)]
