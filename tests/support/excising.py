"""Logs of every magic and codec with damage in the middle, their excision, and what an independent decoder reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.record.memory_records import MemoryRecords

from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.recover.excision import excise
from kafkalog_core.ops.recover.places import find_places
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import read_context, target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.partition import read_partition
from tests.support import build
from tests.support.truncating import INTERVAL, NOW_MS, write_log, write_tops

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kafkalog_core.ops.recover.excision import Excision
    from kafkalog_core.ops.recover.places import DamagedPlace
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.plan import PlanDraft
    from kafkalog_core.storage.partition import Partition

SEGMENTS = (0, 12, 24)
"""Base offsets of the segments; each has four batches of three records."""
END = 36
EMPTY_BYTES = 61


class Written(NamedTuple):
    """A log directory, and the batches of each segment of its one partition."""

    root: Path
    segments: dict[int, list[bytes]]

    @property
    def partition(self) -> Path:
        return self.root / "t-0"

    def log(self, base_offset: int, suffix: str = "log") -> Path:
        return self.partition / f"{base_offset:020d}.{suffix}"

    def at(self, base_offset: int, number: int) -> tuple[int, int]:
        """Start and end of a batch in its segment."""
        sizes = [len(each) for each in self.segments[base_offset]]
        return sum(sizes[:number]), sum(sizes[: number + 1])

    def patch(self, base_offset: int, position: int, content: bytes) -> None:
        """Overwrite bytes of a log."""
        data = bytearray(self.log(base_offset).read_bytes())
        data[position : position + len(content)] = content
        self.log(base_offset).write_bytes(data)

    def flip(self, base_offset: int, position: int) -> None:
        """Turn a byte round."""
        self.patch(base_offset, position, bytes([self.log(base_offset).read_bytes()[position] ^ 0xFF]))


def batch_of(magic: int, codec: int, first: int, last: int, **fields: Any) -> bytes:
    """Batches of a magic: of a codec one with all records, without one a message each in magic 0 and 1."""
    records = [
        build.Record(offset=offset, timestamp_ms=1000 + offset, key=b"k%d" % offset, value=b"value %d" % offset * 9)
        for offset in range(first, last + 1)
    ]
    if magic == 2:
        return build.batch_v2(records, codec=codec, **fields)
    if codec:
        return (build.wrapper_v0 if magic == 0 else build.wrapper_v1)(records, codec=codec)
    return b"".join(map(build.message_v0 if magic == 0 else build.message_v1, records))


def write(root: Path, magic: int = 2, codec: int = 0, *, is_clean: bool = False, **fields: Any) -> Written:
    """Twelve batches of three records in three segments; all is to be recovered."""
    segments = {
        base: [batch_of(magic, codec, first, first + 2, **fields) for first in range(base, base + 12, 3)]
        for base in SEGMENTS
    }
    return write_batches(root, segments, is_clean=is_clean)


def write_batches(root: Path, segments: Mapping[int, Sequence[bytes]], *, is_clean: bool = False) -> Written:
    """A log directory with these batches."""
    write_tops(root, recovery=[("t", 0, 0)], watermarks=[("t", 0, 30)], is_clean=is_clean)
    if min(each[16] for batches in segments.values() for each in batches) == 2:
        write_log(root / "t-0", segments)
    else:  # without indexes, which would have other entries
        (root / "t-0").mkdir()
        for base, batches in segments.items():
            (root / "t-0" / f"{base:020d}.log").write_bytes(b"".join(batches))
    return Written(root, {base: [*batches] for base, batches in segments.items()})


def facts_of(partition: Path, kafka: str = "4.3") -> tuple[Partition, PartitionFacts]:
    """A partition, and what a planner knows of it."""
    found = read_partition(str(partition))
    request = SettingsRequest(kafka=kafka, assignments=(f"log.index.interval.bytes={INTERVAL}",))
    return found, read_context(target_dir([str(partition)]), request, NOW_MS).facts(found.name)


def places_of(partition: Path, kafka: str = "4.3") -> tuple[DamagedPlace, ...]:
    """All places."""
    found, facts = facts_of(partition, kafka)
    return find_places(found, facts, lambda _: None)


def excision_of(partition: Path, kafka: str = "4.3", **options: Any) -> Excision:
    """The excision of all places."""
    found, facts = facts_of(partition, kafka)
    return excise(found, facts, find_places(found, facts, lambda _: None), **options)


def plan(partition: Path, *offsets: int, kafka: str = "4.3", healthy: bool = False) -> PlanDraft:
    """A plan of `excise`."""
    settings = {
        "kafka": kafka,
        "config": None,
        "assignments": [f"log.index.interval.bytes={INTERVAL}"],
        "topic_assignments": [],
    }
    options: dict[str, Any] = {"kafka": settings, "offsets": list(offsets), "healthy": healthy}
    return make_plan("excise", PlanRequest(target=target_dir([str(partition)]), options=options, now_ms=NOW_MS))


def apply(partition: Path, *offsets: int, **options: Any) -> PlanDraft:
    """Plan and apply."""
    draft = plan(partition, *offsets, **options)
    assert not draft.plan.obstacles
    apply_plan(draft, Disk(), now_ms=NOW_MS)
    return draft


def read_offsets(partition: Path) -> list[int]:
    """The offsets that aiokafka reads, log by log; every batch has to be whole."""
    return [record.offset for path in sorted(partition.glob("*.log")) for record in _records(path.read_bytes())]


def _records(data: bytes) -> list[Any]:
    found: list[Any] = []
    position = 0
    while position < len(data):  # one by one, because it takes all of a buffer for one magic
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        batch = MemoryRecords(data[position:end]).next_batch()
        assert batch.validate_crc()
        found += batch
        position = end
    return found
