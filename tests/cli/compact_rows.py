"""Forecasts made by hand, of a partition that would be cleaned, one that would not, and others."""

from __future__ import annotations

from kafkalog_core.ops.compact.forecast import CompactForecast

Row = dict[str, object]

NOW_MS = 1_700_000_000_000


def partition(number: int = 0, **columns: object) -> Row:
    """A `compaction` row of a partition that would be cleaned."""
    return {
        "topic": "customers",
        "partition": number,
        "path": f"/data/customers-{number}",
        "state": "cleanable",
        "reason": "its dirty ratio of 0.750 is above min.cleanable.dirty.ratio 0.5",
        "would_run": True,
        "held_back_by": "active-segment",
        "held_back_detail": "the active segment 900 is never cleaned; it rolls by segment.ms or segment.bytes",
        "release": "4.3.1",
        "is_release_certain": True,
        "release_evidence": "meta.properties is of version 1",
        "settings": {
            "cleanup.policy": {"value": "compact", "origin": "cluster metadata log"},
            "delete.retention.ms": {"value": "86400000", "origin": "default of 4.3.1"},
        },
        "now_ms": NOW_MS,
        "first_dirty_offset": 100,
        "first_dirty_origin": "the cleaner's checkpoint",
        "first_uncleanable_offset": 900,
        "log_start_offset": 0,
        "last_stable_offset": 1000,
        "high_watermark": 1000,
        "log_end_offset": 1000,
        "clean_bytes": 10_000,
        "cleanable_bytes": 30_000,
        "uncleanable_bytes": 5_000,
        "dirty_ratio": 0.75,
        "min_cleanable_dirty_ratio": 0.5,
        "passes": 1,
        "segments_before": 3,
        "segments_after": 2,
        "batches_before": 450,
        "batches_after": 200,
        "records_before": 1000,
        "records_after": 400,
        "bytes_before": 45_000,
        "bytes_after": 18_000,
        "kept_records": {"latest-of-key": 290, "tombstone": 10, "not-cleaned": 100},
        "kept_bytes": {"latest-of-key": 12_000, "tombstone": 400, "not-cleaned": 5_000},
        "dropped_records": {"superseded": 580, "null-key": 20},
        "dropped_bytes": {"superseded": 26_000, "null-key": 1_000},
        "keys": 300,
        "lone_tombstone_keys": 7,
        "tombstones_after": 10,
        "next_horizon_ms": NOW_MS + 86_400_000,
        "memory_bytes": 134_217_728,
        "map_keys": 5_033_164,
        "checkpoint_offset": 900,
        **columns,
    }


def one_pass(number: int = 1, **columns: object) -> Row:
    """A `cleaning_pass` row."""
    return {
        "topic": "customers",
        "partition": 0,
        "pass": number,
        "first_dirty_offset": 100,
        "first_uncleanable_offset": 900,
        "end_offset": 900,
        "is_map_full": False,
        "keys": 300,
        "dirty_ratio": 0.75,
        "groups": 1,
        "sources": 2,
        "bytes_before": 40_000,
        "bytes_after": 13_000,
        **columns,
    }


def segment(base_offset: int, **columns: object) -> Row:
    """A `cleaned_segment` row."""
    return {
        "topic": "customers",
        "partition": 0,
        "segment": f"{base_offset:020d}.log",
        "base_offset": base_offset,
        "state": "dirty",
        "group": 0,
        "records_before": 450,
        "records_after": 150,
        "bytes_before": 20_000,
        "bytes_after": 6_500,
        **columns,
    }


def key(rank: int, name: bytes, **columns: object) -> Row:
    """A `big_key` row."""
    return {
        "topic": "customers",
        "partition": 0,
        "rank": rank,
        "key": name,
        "records": 120,
        "bytes": 9_000,
        "most_bytes": 9_000,
        **columns,
    }


CLEANABLE = CompactForecast(
    partition=partition(),
    passes=(one_pass(),),
    segments=(
        segment(0, state="clean"),
        segment(450),
        segment(900, state="active", group=None, bytes_before=5_000, bytes_after=5_000, records_after=450),
    ),
    keys=(key(1, b"customer-7"), key(2, b"\x00\xff", most_bytes=9_100)),
)
TWO_PASSES = CompactForecast(
    partition=partition(passes=2, map_keys=200, memory_bytes=5_400),
    passes=(
        one_pass(end_offset=500, is_map_full=True, keys=200),
        one_pass(2, first_dirty_offset=500, keys=110, dirty_ratio=0.6),
    ),
)
WAITING = CompactForecast(
    partition=partition(
        1,
        state="not-dirty-enough",
        reason="its dirty ratio of 0.250 is not above min.cleanable.dirty.ratio 0.5",
        would_run=False,
        dirty_ratio=0.25,
        bytes_after=40_000,
    ),
    passes=(one_pass(),),
)
STUCK = CompactForecast(
    partition=partition(
        2,
        state="nothing-cleanable",
        reason="no segment behind the first dirty offset 100 may be cleaned yet",
        would_run=False,
        held_back_by="open-transaction",
        held_back_detail="a transaction of producer 4 is open since offset 101",
        dirty_ratio=None,
        passes=0,
        bytes_after=None,
        records_after=None,
        kept_records=None,
        dropped_records=None,
        last_stable_offset=101,
    )
)
NOT_COMPACTED = CompactForecast(
    partition={
        "topic": "orders",
        "partition": 0,
        "path": "/data/orders-0",
        "state": "not-compacted",
        "reason": "cleanup.policy is delete (default of 4.3.1)",
        "would_run": False,
        "bytes_before": 100,
    }
)
