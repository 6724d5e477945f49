"""What real brokers answered about offsets and times, and every record of the corpus by its offset and its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.seek import SeekQuestion, SeekRequest, seek
from kafkalog_core.storage.lookup import PartitionLookup
from kafkalog_core.storage.lookup_trace import Trace
from kafkalog_core.storage.partition import read_partition
from tests.corpus.broker_answers import all_answers
from tests.support.corpus.dumping import dump
from tests.support.corpus.snapshots import snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.snapshots import Snapshot
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

Row = dict[str, Any]
NOW_MS = 1_800_000_000_000
SAMPLE = 25


def ask(path: Path, kind: str, value: int = 0, **given: Any) -> tuple[Row, list[Row]]:
    """The answer about one partition, and the findings and damage with it."""
    request = SeekRequest(
        targets=tuple(resolve([str(path)])),
        question=SeekQuestion(kind, value),
        now_ms=NOW_MS,
        **given,  # type: ignore[arg-type]
    )
    rows = [row for chunk in seek(request, Report()) for row in chunk.rows()]
    (answer,) = (row for row in rows if row["type"] == "seek")
    return answer, [row for row in rows if row["type"] in {"finding", "damage"}]


def test_answers_of_brokers(corpus: Path) -> None:
    told = all_answers(corpus)
    assert len(told) > 20
    times = 0
    for one in told:
        path = corpus / one.log_dir / one.partition
        latest, _ = ask(path, "latest")
        assert latest["offset"] == one.answers["latest"]["offset"], one.id
        assert latest["log_start_offset"] == one.answers["earliest"]["offset"], one.id
        newest = one.answers.get("max_timestamp") or {"offset": -1}
        if newest["offset"] >= latest["log_start_offset"]:  # one broker told of a record that was deleted
            assert _by_time(path, newest["timestamp"])[:2] == (newest["offset"], newest["timestamp"]), one.id
        for answer in one.answers.get("for_times", ()):
            offset, timestamp_ms, findings = _by_time(path, answer["target"])
            wanted = (None, None) if answer["offset"] < 0 else (answer["offset"], answer["timestamp"])
            assert (offset, timestamp_ms) == wanted, (one.id, answer)
            assert findings == [], one.id
            times += 1
    assert times >= 200


def _by_time(path: Path, time_ms: int) -> tuple[int | None, int | None, list[Row]]:
    answer, findings = ask(path, "timestamp", time_ms)
    return answer["offset"], answer["timestamp_ms"], findings


def _lookup(path: Path) -> PartitionLookup:
    partition = read_partition(str(path))
    segments = [segment for segment in partition.segments if segment.log is not None]
    return PartitionLookup(segments, is_v07=partition.format == "v07")


def _sample(values: set[int]) -> list[int]:
    """Some of them, the first and the last among them."""
    ordered = sorted(values)
    step = max(1, len(ordered) // SAMPLE)
    return sorted({*ordered[::step], *ordered[-1:]})


@pytest.mark.parametrize("snapshot", snapshots(), ids=lambda snapshot: snapshot.id)
def test_records_are_found_where_a_scan_finds_them(tree: Tree, snapshot: Snapshot) -> None:
    """Also in directories that somebody has damaged: what a scan finds there is what there is."""
    path = tree.partition_dir(snapshot)
    rows = dump(path, "--records", "--resync").live("record")
    places = [(cast("int", row["offset"]), cast("int | None", row["timestamp_ms"]), row["position"]) for row in rows]
    with _lookup(path) as lookup:
        offsets = [offset for offset, _, _ in places]
        in_order = offsets == sorted(offsets)  # else what is the first one depends on where a reader starts
        for offset in _sample({*offsets, *(offset + 1 for offset in offsets)}) if in_order else ():
            located = lookup.find_offset(offset, Trace())
            found = None if located is None else located.record
            wanted = next((place for place in places if place[0] >= offset), None)
            assert (None if found is None else (found.offset, found.timestamp_ms, found.batch.position)) == wanted
        times = {time_ms for _, time_ms, _ in places if time_ms is not None and time_ms >= 0}
        for time_ms in _sample({time_ms + step for time_ms in times for step in (0, 1)}):
            record = lookup.find_time(time_ms, Trace())
            wanted = next((place for place in places if place[1] is not None and place[1] >= time_ms), None)
            assert (None if record is None else (record.offset, record.timestamp_ms, record.batch.position)) == wanted
