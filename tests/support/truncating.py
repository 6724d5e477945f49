"""Log directories to be cut: a partition of small batches, its files, plans over them, and the start of a broker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.partition import read_partition
from tests.support import build

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kafkalog_core.kafka.sim.start.results import LoadResult
    from kafkalog_core.ops.repair.plan import PlanDraft

NOW_MS = 2_000_000
RECOVERY = "recovery-point-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
MARK = ".kafka_cleanshutdown"
INTERVAL = 150
"""Index interval: every third batch has an entry."""

Batch = tuple[int, int]
"""First and last offset."""


def batch(first: int, last: int, **fields: Any) -> bytes:
    """A batch of records without keys; their times are their offsets, from 1000 on."""
    records = [
        build.Record(offset=offset, timestamp_ms=1000 + offset, value=b"v%d" % offset)
        for offset in range(first, last + 1)
    ]
    return build.batch_v2(records, **fields)


def write_log(partition: Path, segments: Mapping[int, Sequence[bytes | Batch]]) -> Path:
    """A partition directory: segments by base offset, each with its batches, and indexes as a broker leaves them."""
    partition.mkdir(parents=True, exist_ok=True)
    for base_offset, batches in segments.items():
        data = [each if isinstance(each, bytes) else batch(*each) for each in batches]
        stem = partition / f"{base_offset:020d}"
        stem.with_suffix(".log").write_bytes(b"".join(data))
        entries, times, position, indexed = [], [], 0, 0
        for each in data:
            last = int.from_bytes(each[:8], "big") + int.from_bytes(each[23:27], "big")
            if position - indexed > INTERVAL:
                entries.append((last - base_offset, position))
                times.append((int.from_bytes(each[35:43], "big"), last - base_offset))
                indexed = position
            position += len(each)
        stem.with_suffix(".index").write_bytes(build.offset_index(entries))
        stem.with_suffix(".timeindex").write_bytes(build.time_index(times))
    (partition / EPOCHS).write_bytes(build.epoch_checkpoint([(0, min(segments, default=0))]))
    return partition


def write_tops(root: Path, *, is_clean: bool = False, **offsets: Iterable[tuple[str, int, int]]) -> Path:
    """The files at the top: `recovery`, `watermarks`, `starts`, `cleaned`, each with topic, partition and offset."""
    root.mkdir(parents=True, exist_ok=True)
    names = {"recovery": RECOVERY, "watermarks": WATERMARKS, "starts": STARTS, "cleaned": CLEANED}
    for key, name in names.items():
        (root / name).write_bytes(build.offset_checkpoint(list(offsets.get(key, ()))))
    if is_clean:
        (root / MARK).touch()
    return root


def plan(path: Path, *, kafka: str = "4.3", topic_assignments: Sequence[str] = (), **options: Any) -> PlanDraft:
    """A plan of truncate."""
    assignments = [f"log.index.interval.bytes={INTERVAL}"]
    request = {
        "kafka": kafka,
        "config": None,
        "assignments": assignments,
        "topic_assignments": list(topic_assignments),
    }
    return make_plan(
        "truncate", PlanRequest(target=target_dir([str(path)]), options={"kafka": request, **options}, now_ms=NOW_MS)
    )


def cut(path: Path, **options: Any) -> PlanDraft:
    """Plan and apply; then there is nothing to do."""
    draft = plan(path, **options)
    if draft.plan.changes:
        apply_plan(draft, Disk(), now_ms=NOW_MS)
    again = plan(path, **options)
    assert again.plan.changes == ()
    assert again.plan.report.losses == ()
    return draft


def batches_of(partition: Path) -> list[Batch]:
    """First and last offset of every batch on the disk, by their headers."""
    found = []
    for path in sorted(partition.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position + 61 <= len(data):
            base = int.from_bytes(data[position : position + 8], "big")
            found.append((base, base + int.from_bytes(data[position + 23 : position + 27], "big")))
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        assert position == len(data)
    return found


def names(partition: Path) -> list[str]:
    """Files of segments, short: `0.log`."""
    return sorted(f"{int(path.stem)}{path.suffix}" for path in partition.iterdir() if path.stem.isdigit())


def codes(draft: PlanDraft) -> list[str]:
    """Of what was found and refused."""
    return [finding.code for finding in (*draft.plan.report.findings, *draft.plan.report.refusals)]


def started(partition: Path, *, is_clean: bool = True, kafka: str = "4.3") -> LoadResult:
    """The start of a broker, played through."""
    release = parse_release(kafka)
    request = SettingsRequest(assignments=(f"log.index.interval.bytes={INTERVAL}",))
    load = PartitionLoad(
        read_partition(str(partition)),
        PartitionContext(is_clean=is_clean, recovery_point=0),
        LoadOptions(
            release=release,
            settings=read_settings(request, release).for_topic("t"),
            snapshots=SnapshotOptions.of_release(release, now_ms=NOW_MS, expiration_ms=86_400_000),
        ),
    )
    for _ in load.run():
        pass
    return load.result


def carry_out(partition: Path) -> None:
    """What a start does with replacements that are not finished."""
    result = started(partition)
    for file, _ in result.swept:
        if os.path.lexists(file.path):
            os.unlink(file.path)
    for file in result.moved:
        os.rename(file.path, partition / file.name.raw)
