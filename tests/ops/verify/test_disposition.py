"""What a broker does with damage: by its kind, its place, the mark of a clean stop and the recovery point.

The results are those of brokers of 4.3.1 that were started on such logs.
"""

from __future__ import annotations

import pytest

from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.kafka.logdir.top_files import PartitionContext
from kafkalog_core.ops.verify.disposition import (
    DamagePlace,
    SegmentExtent,
    at_risk,
    at_risk_finding,
    disposition,
    is_recovered,
)

SEGMENTS = (SegmentExtent(0, 5000), SegmentExtent(100, 6000), SegmentExtent(200, 4000))
CLEAN = PartitionContext(is_clean=True, recovery_point=250)
CRASHED = PartitionContext(is_clean=False, recovery_point=150)
UNKNOWN = PartitionContext()


def damage(
    reason: str, index: int, position: int, size_bytes: int = 100, *, has_index: bool = True, topic: str = "t"
) -> DamagePlace:
    segments = list(SEGMENTS)
    segments[index] = SegmentExtent(segments[index].base_offset, segments[index].size_bytes, has_index)
    is_zeros, reason = reason == "zeros", reason.replace("zeros", "zero-filled")
    return DamagePlace(
        reason=reason,
        position=position,
        size_bytes=size_bytes,
        segments=segments,
        index=index,
        topic=topic,
        is_zeros=is_zeros,
    )


@pytest.mark.parametrize(
    ("place", "context", "lost_bytes", "severity", "action"),
    [
        # a checksum: seen by recovery alone
        (
            damage("crc-mismatch", 0, 1000),
            CLEAN,
            0,
            None,
            "Computes no checksum at its start, as .kafka_cleanshutdown is there",
        ),
        (damage("crc-mismatch", 0, 1000), CRASHED, 0, None, "Computes no checksum at its start, as it is below"),
        (damage("crc-mismatch", 1, 1000), CRASHED, 9000, None, "Cuts the log here when it recovers it: 5,000 bytes"),
        (damage("crc-mismatch", 2, 1000), CRASHED, 3000, None, "Cuts the log here when it recovers it: 3,000 bytes"),
        (damage("crc-mismatch", 2, 1000), UNKNOWN, 0, None, "Does not notice it after a clean stop; cuts"),
        # a missing index: recovered after a clean stop too, and what is behind it stays
        (damage("crc-mismatch", 0, 1000, has_index=False), CLEAN, 4000, None, "Recovers the segment"),
        # the tail of the log
        (damage("zero-filled", 2, 3500, 500), CLEAN, 0, "error", "Does not start"),
        (damage("zero-filled", 2, 3989, 11), CLEAN, 0, "error", "Takes this for the end of the log"),
        (damage("zeros", 2, 3500, 500), CRASHED, 500, "info", "Cuts the log here when it recovers it: 500 bytes"),
        (damage("zero-filled", 2, 3500, 500), CRASHED, 500, None, "Cuts the log here when it recovers it: 500 bytes"),
        (damage("torn-tail", 2, 3900, 100), CLEAN, 0, "error", "Takes this for the end of the log"),
        (damage("torn-tail", 2, 3900, 100), CRASHED, 100, "info", "Cuts the log here"),
        (damage("torn-tail", 2, 3900, 100), UNKNOWN, 0, "warning", "Does not notice it after a clean stop"),
        (damage("bad-length", 2, 3900, 100), CRASHED, 100, None, "Cuts the log here"),
        (damage("bad-length", 2, 3900, 100), CLEAN, 0, "error", "May not start"),
        # before the end: only if no index entry is behind it
        (damage("zero-filled", 2, 1000, 500), CLEAN, 0, "error", "May not start"),
        (damage("bad-length", 2, 1000, 500), CLEAN, 0, "error", "May not start"),
        # no broker cuts a batch for its size or for the magic of a later release
        (damage("over-limit", 1, 100), CRASHED, 0, None, "Reads it, as the limit is kafkalog's own"),
        (damage("unknown-magic", 1, 100), CRASHED, 9900, None, "Keeps it if it has a good checksum"),
        # the end of a segment that is not the last one
        (damage("torn-tail", 1, 5900, 100), CRASHED, 4100, None, "Cuts the log here"),
        (damage("zero-filled", 0, 4000, 1000), CLEAN, 0, None, "Does not notice it at its start"),
        # never seen, or at any time
        (damage("payload", 2, 100), CRASHED, 0, None, "Does not look inside of batches"),
        (damage("unreadable", 0, 100), CLEAN, 0, None, "Takes the whole log directory offline"),
        (damage("offset-order", 1, 100, 0), CLEAN, 0, None, "Does not notice it at its start"),
        (damage("offset-order", 1, 100, 0), CRASHED, 10_000, None, "Empties the whole segment"),
        (damage("offset-order", 1, 100, 0, has_index=False), CLEAN, 0, None, "Recovers the segment"),
        # the metadata log is recovered at every start
        (damage("crc-mismatch", 0, 1000, topic="__cluster_metadata"), CLEAN, 14_000, None, "Cuts the log here"),
        (damage("offset-order", 0, 1000, 0, topic="__cluster_metadata"), CLEAN, 15_000, None, "Empties the whole"),
    ],
)
def test_disposition(
    place: DamagePlace, context: PartitionContext, lost_bytes: int, severity: str | None, action: str
) -> None:
    result = disposition(place, context)
    assert (result.lost_bytes, result.severity) == (lost_bytes, severity)
    assert result.broker_action.startswith(action)
    assert result.broker_action.endswith(".")


@pytest.mark.parametrize("reason", LOG_DAMAGE)
@pytest.mark.parametrize("context", [CLEAN, CRASHED, UNKNOWN])
def test_every_reason_has_one(reason: str, context: PartitionContext) -> None:
    assert disposition(damage(reason, 1, 10), context).broker_action


@pytest.mark.parametrize("reason", ["torn-tail", "zero-filled", "bad-length", "crc-mismatch", "unknown-magic"])
@pytest.mark.parametrize("context", [CLEAN, CRASHED, UNKNOWN])
@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize(("index", "position"), [(0, 4900), (1, 5900), (1, 100), (2, 100), (2, 3900)])
def test_no_cure_loses_a_batch(
    reason: str, context: PartitionContext, has_index: bool, index: int, position: int
) -> None:
    """Nothing is to be done only about a tail that holds none; else a copy is made, or a replica's is taken."""
    place = damage(reason, index, position, has_index=has_index)
    cure = disposition(place, context).cure or ""
    assert "copy" in cure.lower() or (place.is_tail and cure.startswith("Nothing needs to be done"))


@pytest.mark.parametrize(
    ("recovery_point", "recovered"),
    [
        (None, [True, True, True]),
        (99, [True, True, True]),
        (100, [False, True, True]),
        (250, [False, False, True]),
    ],
)
def test_is_recovered(recovery_point: int | None, recovered: list[bool]) -> None:
    """From the segment that holds the recovery point on, also where offsets are missing behind it."""
    context = PartitionContext(is_clean=False, recovery_point=recovery_point)
    assert [is_recovered(index, SEGMENTS, context) for index in range(3)] == recovered
    assert not any(is_recovered(index, SEGMENTS, CLEAN, "t") for index in range(3))
    assert not any(is_recovered(index, SEGMENTS, UNKNOWN, "t") for index in range(3))
    assert all(is_recovered(index, SEGMENTS, CLEAN, "__cluster_metadata") for index in range(3))


def test_segments_behind_the_cut_are_counted() -> None:
    action = disposition(damage("crc-mismatch", 0, 0), PartitionContext(is_clean=False)).broker_action
    assert "deletes the 2 segments behind it. 15,000 bytes are lost" in action


@pytest.mark.parametrize(
    ("recovery_point", "base_offset", "size_bytes", "segments"),
    [(None, 0, 15_000, 3), (99, 0, 15_000, 3), (100, 100, 10_000, 2), (199, 100, 10_000, 2), (10_000, 200, 4000, 1)],
)
def test_at_risk(recovery_point: int | None, base_offset: int, size_bytes: int, segments: int) -> None:
    context = PartitionContext(is_clean=False, recovery_point=recovery_point)
    risk = at_risk(SEGMENTS, context)
    assert risk is not None
    assert (risk.base_offset, risk.size_bytes, risk.segments) == (base_offset, size_bytes, segments)
    finding = at_risk_finding(risk, "t-0", context, topic="t", partition=0)
    assert (finding.severity, finding.offset, finding.size_bytes) == ("info", base_offset, size_bytes)
    assert "None" not in finding.message


@pytest.mark.parametrize("context", [CLEAN, UNKNOWN])
def test_nothing_at_risk(context: PartitionContext) -> None:
    assert at_risk(SEGMENTS, context) is None
    assert at_risk((), CRASHED) is None
    assert at_risk((SegmentExtent(0, 0),), CRASHED) is None


@pytest.mark.parametrize("reason", ["crc-mismatch", "bad-length", "zero-filled", "torn-tail"])
@pytest.mark.parametrize("context", [CRASHED, UNKNOWN])
def test_no_cut_is_advised_where_whole_batches_would_go(reason: str, context: PartitionContext) -> None:
    """Before whole batches are given up somebody saves them: the code's own command shows what can be read."""
    assert disposition(damage(reason, 1, 100), context).next_step is None
    assert disposition(damage(reason, 1, 100, has_index=False), context).next_step is None
