"""Logs to append, a sink that keeps what it is given, and the appends of a broker one by one, not by our code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_core.kafka.rules.append import Appender, AppendLimits
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import append_rules
from kafkalog_core.storage.scan import Damage, Run, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from kafkalog_core.kafka.rules.append import OpenSegment, Roll

DAY_MS = 86_400_000


def limits(**given: int) -> AppendLimits:
    """Limits that nothing reaches but those that are given."""
    values = {
        "segment_bytes": 2**30,
        "segment_ms": 7 * DAY_MS,
        "segment_index_bytes": 2**20,
        "index_interval_bytes": 4096,
    }
    return AppendLimits(**(values | given))


@dataclass
class Kept:
    """A sink: a segment's base offset, log, offset and time index; why each ended; offsets that were flushed."""

    segments: list[tuple[int, bytes, bytes, bytes]] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    flushed: list[int] = field(default_factory=list)
    log: bytearray = field(default_factory=bytearray)

    def begin(self, segment: OpenSegment) -> None:
        assert segment.size_bytes == 0
        self.log = bytearray()

    def append(self, data: memoryview, run: Run, first: int, last: int) -> None:
        assert 0 <= first < last <= run.batches.count
        self.log += data

    def end(self, segment: OpenSegment, roll: Roll | None) -> None:
        assert len(self.log) == segment.size_bytes
        indexes = segment.indexes
        self.segments.append(
            (segment.base_offset, bytes(self.log), bytes(indexes.offset_index), bytes(indexes.time_index))
        )
        self.reasons.append(None if roll is None else roll.reason)

    def flush(self, end_offset: int) -> None:
        self.flushed.append(end_offset)

    @property
    def bases(self) -> list[int]:
        return [segment[0] for segment in self.segments]


def runs(path: Path, data: bytes) -> Iterator[Run]:
    """The batches of a log; damage is a fault of the test."""
    path.write_bytes(data)
    with Source.open(str(path)) as source:
        for item in scan(source, base_offset=None):
            assert not isinstance(item, Damage), item
            yield item


def appender(sink: Kept, base_offset: int = 0, *, release: str = "4.3", **given: Any) -> Appender:
    """One of a release; limits by their names."""
    names = {"jitter", "now_ms"}
    others = {name: value for name, value in given.items() if name in names}
    figures = {name: value for name, value in given.items() if name not in names}
    return Appender(sink, base_offset, limits=limits(**figures), rules=append_rules(parse_release(release)), **others)


def appended(tmp_path: Path, data: bytes, base_offset: int = 0, **given: Any) -> Kept:
    """What comes of a log whose batches are appended one by one."""
    sink = Kept()
    target = appender(sink, base_offset, **given)
    for run in runs(tmp_path / "source.log", data):
        target.append_batches(run)
    target.close()
    return sink
