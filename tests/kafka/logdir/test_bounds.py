"""The bounds of a log, by what its log directory has checkpointed and by the release that starts."""

from __future__ import annotations

import pytest

from kafkalog_core.kafka.rules.releases import LATEST, Release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.bounds import Bound, LogBounds, log_bounds
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.structs import replace

FIRST, END = 10, 30
OLD, TIERED_FROM = Release(0, 10, 2), Release(3, 6)


def bounds(
    context: PartitionContext, *, release: Release = LATEST, is_tiered: bool | None = False, end: int | None = END
) -> LogBounds:
    return log_bounds(FIRST, context, rules_of(release), is_tiered=is_tiered, end_offset=end)


@pytest.mark.parametrize(
    ("checkpoint", "start", "origin"),
    [
        (None, 10, "base offset of the first segment"),
        (-1, 10, "base offset of the first segment"),
        (4, 10, "base offset of the first segment"),
        (10, 10, "base offset of the first segment"),
        (12, 12, "log-start-offset-checkpoint"),
    ],
)
def test_a_log_starts_at_the_higher_of_checkpoint_and_first_segment(
    checkpoint: int | None, start: int, origin: str
) -> None:
    found = bounds(PartitionContext(log_start_offset=checkpoint))
    assert found.log_start == Bound(start, origin)
    assert found.local_start == start
    assert found.epochs_start == max(checkpoint or 0, 0)


@pytest.mark.parametrize("checkpoint", [None, 4, 12])
def test_before_0_11_no_checkpoint_is_read(checkpoint: int | None) -> None:
    found = bounds(PartitionContext(log_start_offset=checkpoint), release=OLD, is_tiered=None)
    assert (found.log_start, found.local_start) == (Bound(FIRST, "base offset of the first segment"), FIRST)


@pytest.mark.parametrize(("release", "start"), [(Release(2, 8), 12), (Release(3, 0), 4)])
def test_epochs_are_cut_at_the_checkpoint_since_3_0(release: Release, start: int) -> None:
    assert bounds(PartitionContext(log_start_offset=12), release=release).epochs_start == 12
    assert bounds(PartitionContext(log_start_offset=4), release=release).epochs_start == min(start, FIRST)


@pytest.mark.parametrize("is_tiered", [True, None])
@pytest.mark.parametrize(("release", "start"), [(TIERED_FROM, 4), (LATEST, 4), (Release(3, 5), FIRST)])
def test_the_checkpoint_alone_counts_for_a_tiered_log(is_tiered: bool | None, release: Release, start: int) -> None:
    """Where the settings are unknown, a checkpoint below the first segment shows that the log is tiered."""
    found = bounds(PartitionContext(log_start_offset=4), release=release, is_tiered=is_tiered)
    assert (found.log_start.offset, found.local_start) == (start, FIRST)


def test_a_tiered_log_without_a_checkpoint_starts_at_0() -> None:
    assert bounds(PartitionContext(), is_tiered=True).log_start == Bound(0, "default, as no checkpoint has it")
    assert bounds(PartitionContext(), is_tiered=None).log_start.offset == FIRST


@pytest.mark.parametrize(("release", "start"), [(LATEST, 12), (Release(2, 2), 12), (Release(2, 1), 0)])
def test_a_log_without_segments_is_begun_at_the_checkpoint(release: Release, start: int) -> None:
    found = log_bounds(None, PartitionContext(log_start_offset=12), rules_of(release))
    assert found.log_end == start
    assert found.recovery_point.offset == found.high_watermark.offset == found.log_start.offset == max(start, 12)


@pytest.mark.parametrize(
    ("point", "is_clean", "release", "offset"),
    [
        (20, False, LATEST, 20),
        (20, None, LATEST, 20),
        (20, True, LATEST, END),
        (20, False, Release(2, 7), END),
        (99, False, LATEST, END),
        (3, False, LATEST, FIRST),
        (None, False, LATEST, FIRST),
    ],
)
def test_the_recovery_point_after_a_start(
    point: int | None, is_clean: bool | None, release: Release, offset: int
) -> None:
    found = bounds(PartitionContext(recovery_point=point, is_clean=is_clean), release=release)
    assert found.recovery_point.offset == offset


@pytest.mark.parametrize(
    ("checkpoint", "offset", "is_known"), [(20, 20, True), (99, END, True), (3, FIRST, True), (None, END, False)]
)
def test_the_high_watermark_is_between_start_and_end(checkpoint: int | None, offset: int, is_known: bool) -> None:
    found = bounds(PartitionContext(high_watermark=checkpoint)).high_watermark
    assert (found.offset, found.is_known) == (offset, is_known)


def test_without_a_measured_end_nothing_is_lowered_to_it() -> None:
    context = PartitionContext(recovery_point=99, high_watermark=98, is_clean=True)
    found = bounds(context, end=None)
    assert (found.log_end, found.recovery_point.offset, found.high_watermark.offset) == (None, 99, 98)
    assert bounds(replace(context, high_watermark=None), end=None).high_watermark.offset == FIRST
