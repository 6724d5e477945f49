"""Findings of a read_committed view: where a consumer waits, and which outcomes of transactions are unknown."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.findings.partitions import GAP_UNKNOWN

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.logfiles import Unit
    from kafkalog_core.kafka.sim.read_committed import CommittedView, Hole, Undecided

__all__ = ["committed_findings"]


def committed_findings(view: CommittedView, unit: Unit) -> list[Finding]:
    """Return findings about transactions that stop a read_committed consumer, and about unknown outcomes."""
    found_of = partial(found, topic=unit.topic, partition=unit.partition)
    findings = [
        found_of(
            "txn.undecided", one.hole.path, offset=one.span.first, producer=one.span.producer_id, where=_where(one)
        )
        for one in view.undecided
    ]
    findings += (
        found_of(
            "batch.gap",
            gap.path,
            position=gap.position,
            offset=gap.first_offset,
            severity="warning",
            last=gap.last_offset,
            judged=GAP_UNKNOWN,
        )
        for gap in view.gaps
    )
    for code, spans in (("txn.end-elsewhere", view.unfinished), ("txn.open", view.open_transactions)):
        path = unit.path if code == "txn.open" else unit.files[0].path
        findings += (found_of(code, path, offset=span.first, producer=span.producer_id) for span in spans)
    return findings


def _where(undecided: Undecided) -> str:
    hole = undecided.hole
    name = os.path.basename(hole.path)
    offsets = f"offsets {hole.first_offset} and up" if hole.end_offset is None else _offsets(hole)
    if hole.base_offset is None:
        return f"{offsets}, which are in no segment before {name}"
    return f"{offsets} of {name}" if hole.position is None else f"{offsets}, from byte {hole.position} of {name} on"


def _offsets(hole: Hole) -> str:
    last = (hole.end_offset or 0) - 1
    return f"offset {last}" if last == hole.first_offset else f"offsets {hole.first_offset} to {last}"
