"""What holds of every clean that is carried out, whatever the log and the memory for its keys."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.cleaner_rules import CleaningRules, cleaning_rules
from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from tests.support.build import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Record,
    batch_v2,
    message_v1,
    meta_properties,
    time_index,
    wrapper_v1,
)
from tests.support.scratch import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRST_MS: Final = 1_000_000_000_000
NOW_MS: Final = FIRST_MS + 10_000
SLOT_BYTES: Final = 24
CHECKPOINT: Final = "cleaner-offset-checkpoint"
SETTINGS: Final = (
    "cleanup.policy=compact",
    "min.cleanable.dirty.ratio=0",
    "segment.bytes=2000000",
    "index.interval.bytes=100",
)


class Log(NamedTuple):
    """A log to be cleaned: logs by base offset, the active one last, the release and the slots of the offset map."""

    segments: dict[int, bytes]
    release: str
    slots: int

    @property
    def bound(self) -> int:
        """Base offset of the active segment."""
        return max(self.segments)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Batches of v2, and of v1 by themselves and in wrappers, in a few segments."""
    release = draw(st.sampled_from(("4.3.1", "3.9.1", "2.8.2", "0.10.2.2")))
    shapes = [_single_v1, _wrapped_v1] if release.startswith("0.10") else [_batch_v2, _single_v1, _wrapped_v1]
    segments: dict[int, bytes] = {}
    offset = 0
    for _ in range(draw(st.integers(1, 4))):
        base, data = offset, b""
        for shape in draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=5)):
            count = 1 if shape is _single_v1 else draw(st.integers(1, 4))
            data += shape(draw, [_record(draw, offset + i, is_keyed=shape is not _batch_v2) for i in range(count)])
            offset += count + draw(st.sampled_from((0, 0, 2)))
        segments[base] = data
    return Log(segments, release, draw(st.sampled_from((3, 5, 1_000))))


def _record(draw: st.DrawFn, offset: int, *, is_keyed: bool) -> Record:
    """Keys are few. One without a key at the end of a round makes Kafka's cleaner fail, if its format is old."""
    keys = st.sampled_from((b"a", b"b", b"c", b"d", b""))
    return Record(
        offset=offset,
        timestamp_ms=FIRST_MS + offset,
        key=draw(keys if is_keyed else keys | st.none()),
        value=draw(st.none() | st.binary(max_size=8)),
    )


def _batch_v2(draw: st.DrawFn, records: Sequence[Record]) -> bytes:
    return batch_v2(records, codec=draw(st.sampled_from((NONE, GZIP, SNAPPY, LZ4, ZSTD))))


def _single_v1(_: st.DrawFn, records: Sequence[Record]) -> bytes:
    return message_v1(records[0])


def _wrapped_v1(draw: st.DrawFn, records: Sequence[Record]) -> bytes:
    return wrapper_v1(records, codec=draw(st.sampled_from((GZIP, SNAPPY, LZ4))))


class LogDir:
    """A log directory with that log as its one partition."""

    def __init__(self, root: str, log: Log) -> None:
        self.root = Path(root)
        self.log = log
        self.partition_dir = self.root / "t-0"
        self.partition_dir.mkdir()
        (self.root / "meta.properties").write_bytes(meta_properties({"version": "0", "broker.id": "1"}))
        bounds = [*log.segments, log.bound + 1_000]
        for number, (base, data) in enumerate(log.segments.items()):
            name = f"{base:020}"
            last_ms = FIRST_MS + bounds[number + 1] - 1
            (self.partition_dir / f"{name}.log").write_bytes(data)
            (self.partition_dir / f"{name}.index").write_bytes(b"")
            (self.partition_dir / f"{name}.timeindex").write_bytes(time_index([(last_ms, 0)]))

    @property
    def rules(self) -> CleaningRules:
        """Of the release."""
        return cleaning_rules(Release(*map(int, self.log.release.split("."))))

    def compact(self) -> int:
        """Clean until there is nothing left to clean; how many changes that made."""
        options: dict[str, Any] = {
            "kafka": {
                "kafka": self.log.release,
                "topic_assignments": [f"t:{each}" for each in SETTINGS],
                "assume_defaults": True,
            },
            "memory_bytes": self.log.slots * SLOT_BYTES,
        }
        draft = make_plan("compact", PlanRequest(target=target_dir([str(self.root)]), options=options, now_ms=NOW_MS))
        if draft.plan.changes:
            apply_plan(draft, Disk(), now_ms=NOW_MS)
        return len(draft.plan.changes)

    def forget(self) -> None:
        """Remove the cleaner's checkpoint: all of the log is dirty again."""
        (self.root / CHECKPOINT).unlink(missing_ok=True)

    def logs(self) -> dict[int, bytes]:
        """Contents of the logs by base offset."""
        return {int(path.stem): path.read_bytes() for path in self.partition_dir.glob("*.log")}

    def records(self) -> list[tuple[object, ...]]:
        """Offset, time, key and value of each."""
        request = DumpRequest(targets=tuple(resolve([str(self.partition_dir)])), level="records")
        rows = [row for chunk in dump(request, Report()) for row in chunk.rows() if row["type"] == "record"]
        return [(row["offset"], row["timestamp_ms"], row["key"], row["value"]) for row in rows]


def in_a_log_dir(check: Callable[[LogDir], None]) -> Callable[[], None]:
    """A property of log directories, as a test."""

    @settings(max_examples=40, deadline=None)
    @given(logs())
    def test(log: Log) -> None:
        with tempfile.TemporaryDirectory(dir=MEMORY) as root:
            check(LogDir(root, log))

    return test


@in_a_log_dir
def test_the_last_record_of_every_key_survives_and_nothing_else_below_the_bound(place: LogDir) -> None:
    bound = place.log.bound
    before = place.records()
    last = {row[2]: row for row in before if row[0] < bound and row[2] is not None}  # type: ignore[operator]
    place.compact()
    after = place.records()
    assert [row for row in after if row[0] < bound] == sorted(last.values())  # type: ignore[operator, type-var]
    assert [row for row in after if row[0] >= bound] == [row for row in before if row[0] >= bound]  # type: ignore[operator]


@in_a_log_dir
def test_what_is_not_below_the_bound_stays_as_it_is(place: LogDir) -> None:
    kinds = (".log", ".index", ".timeindex")
    paths = [place.partition_dir / f"{place.log.bound:020}{kind}" for kind in kinds]
    before = [path.read_bytes() for path in paths]
    place.compact()
    assert [path.read_bytes() for path in paths] == before


@in_a_log_dir
def test_a_second_clean_finds_nothing_to_do(place: LogDir) -> None:
    has_changed = place.compact() > 0
    assert has_changed == (len(place.log.segments) > 1)
    cleaned = place.logs()
    changes = place.compact()
    assert place.logs() == cleaned
    assert changes == 0 or not place.rules.jumps_gaps  # without that a gap before the bound stays dirty for ever


@in_a_log_dir
def test_a_clean_of_what_is_clean_changes_nothing_more(place: LogDir) -> None:
    place.compact()
    cleaned = place.logs()
    place.forget()
    place.compact()
    assert place.logs() == cleaned
