"""What a broker's start makes of a log directory, against the simulation of its start and `truncate --as-broker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, replace
from tests.support.corpus import recovering

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path
    from typing import Any

    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.kafka.sim.start.results import LoadResult
    from kafkalog_core.kafka.sim.start.snapshots import SnapshotFiles
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = ["Played", "cut", "foreseen", "play", "stops"]


class Played(Struct):
    """A start that was played through."""

    partition: Partition
    result: LoadResult
    indexes: dict[str, bytes]
    snapshots: SnapshotFiles

    def files(self) -> dict[str, bytes]:
        """What would be there."""
        stems = {f"{each.base_offset:020d}" for each in self.result.segments}
        found = {name: data for name, data in self.indexes.items() if name.partition(".")[0] in stems}
        for each in self.result.segments:
            stem = f"{each.base_offset:020d}"
            if each.segment is None:
                found |= {f"{stem}.log": b"", f"{stem}.index": b"", f"{stem}.timeindex": b""}
                continue
            assert each.segment.log is not None
            suffix = each.segment.log.name.raw.partition(".")[2]
            found[f"{stem}.{suffix}"] = _read(each.segment.log.path)[: each.size_bytes]
            others = (
                (each.segment.index, "index"),
                (each.segment.timeindex, "timeindex"),
                (each.segment.txnindex, "txnindex"),
            )
            for file, kind in others:
                if file is not None:
                    found.setdefault(f"{stem}.{kind}", b"" if each.is_emptied else _read(file.path))
        found |= {f"{offset:020d}.snapshot": self.snapshots.read(offset) or b"" for offset in self.snapshots}
        return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def play(partition: Partition, load: PartitionLoad) -> Played:
    """Run a start on a partition, and keep the indexes that it builds."""
    indexes: dict[str, bytes] = {}
    for each in load.run():
        if each.recovery is not None and each.segment is not None:
            indexes |= _rebuilt(each.recovery, has_txn_index=each.segment.txnindex is not None)
    if load.result.rebuilt is not None:
        indexes = _rebuilt(load.result.rebuilt, has_txn_index=False) | indexes
    return Played(partition, load.result, indexes, load.snapshots)


def _rebuilt(recovery: SegmentRecovery, *, has_txn_index: bool) -> dict[str, bytes]:
    contents = {
        "index": recovery.offset_index,
        "timeindex": recovery.time_index,
        "txnindex": recovery.txn_index if has_txn_index or recovery.txn_index else None,
    }
    return {f"{recovery.base_offset:020d}.{kind}": data for kind, data in contents.items() if data is not None}


def _play(place: PartitionPath, before: Path, options: dict[str, Any], now_ms: int) -> Played:
    request = SettingsRequest(**options["kafka"])
    release = parse_release(options["kafka"]["kafka"])
    settings = read_settings(request, release)
    expiration = settings.producer_expiration_ms
    assert isinstance(expiration, int)
    partition = read_partition(place.path)
    load = PartitionLoad(
        partition,
        read_broker_dir(read_log_dir(str(before))).context(place.name, as_loaded=True),
        LoadOptions(
            release=release,
            settings=settings.for_topic(partition.topic),
            snapshots=SnapshotOptions.of_release(release, now_ms=now_ms, expiration_ms=expiration),
        ),
    )
    return play(partition, load)


def _places(before: Path) -> Iterator[PartitionPath]:
    """Partitions that brokers serve, and that no client writes to before they are copied."""
    for place in read_log_dir(str(before)).partitions:
        if not recovering.is_own(place.name.raw) and place.name.state is not DirectoryState.DELETE:
            yield place


def foreseen(before: Path, after: Path, options: dict[str, Any], now_ms: int) -> list[tuple[str, str]]:
    """What is other in the simulation of the start."""
    found: list[tuple[str, str]] = []
    for place in _places(before):
        name = place.name.raw
        if not (after / name).is_dir():
            found.append((name, "gone"))
        elif read_partition(place.path).format != "v07":
            played = _play(place, before, options, now_ms)
            found += [(f"{name}/{file}", how) for file, how in _others(played, after / name)]
    return found


def stops(before: Path, options: dict[str, Any], now_ms: int) -> list[str]:
    """What a broker dies of at its start, by partition."""
    found = []
    for place in _places(before):
        problem = _play(place, before, options, now_ms).result.problem
        if problem is not None:
            found.append(f"{place.name.raw}: {problem.sentence}")
    return found


def _others(played: Played, after: Path) -> Iterator[tuple[str, str]]:
    result = played.result
    if result.problem is not None:
        yield result.problem.path.rpartition("/")[2], result.problem.kind
        return
    yield from recovering.differences(played.files(), recovering.files_of(after))
    if result.epochs is not None:
        mine = [f"{epoch} {start}" for epoch, start in result.epochs]
        text = (after / "leader-epoch-checkpoint").read_text()
        if mine != recovering.epochs_without_election(text, result.end_offset):
            yield "leader-epoch-checkpoint", "other"


def cut(before: Path, after: Path, options: dict[str, Any], now_ms: int) -> list[tuple[str, str]]:
    """What is other in the logs that `truncate --as-broker` leaves; where one was cut, in all that belongs to it.

    Where replacements waited, their completion is all that the plan changes, and no log is cut: what the recovery after
    an unclean stop makes besides is left to the start, as where nothing is changed.
    """
    request = PlanRequest(target=target_dir([str(before)]), options={**options, "as_broker": True}, now_ms=now_ms)
    untouched = {place.name.raw: recovering.files_of(before / place.name.raw) for place in _places(before)}
    waiting = {place.name.raw for place in _places(before) if any((before / place.name.raw).glob("*.swap"))}
    draft = make_plan("truncate", request)
    if draft.plan.changes:
        apply_plan(draft, Disk(), now_ms=now_ms)
        again = replace(request, target=target_dir([str(before)]))
        assert make_plan("truncate", again).plan.changes == (), "nothing is left to do"
    refused = {(refusal.topic, refusal.partition) for refusal in draft.plan.report.refusals}
    found: list[tuple[str, str]] = []
    for place in _places(before):
        name = place.name.raw
        if (place.name.topic, place.name.partition) in refused or not (after / name).is_dir():
            continue
        mine, theirs = recovering.files_of(before / name), recovering.files_of(after / name)
        if mine == untouched[name]:
            mine, theirs = _logs(mine), _logs(theirs)
        elif name in waiting:
            changed = {file for file in {*mine, *untouched[name]} if mine.get(file) != untouched[name].get(file)}
            mine, theirs = _logs(mine, changed), _logs(theirs, changed)
        for file, how in recovering.differences(mine, theirs):
            if not _is_left_to_reindex(file, mine, untouched[name]):
                found.append((f"{name}/{file}", how))
    return found


def _logs(files: dict[str, bytes], others: AbstractSet[str] = frozenset()) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.endswith((".log", ".kafka")) or name in others}


def _is_left_to_reindex(file: str, mine: dict[str, bytes], before: dict[str, bytes]) -> bool:
    """Indexes of segments that are not cut; a broker rebuilds them too."""
    stem = file.partition(".")[0]
    log = f"{stem}.log"
    return file.endswith("index") and mine.get(log) == before.get(log)


def after_start(before: Path, options: dict[str, Any], now_ms: int) -> dict[str, dict[str, bytes]]:
    """Return the files of each partition as a start leaves them, by directory; those whose load fails are left out."""
    played = ((place.name.raw, _play(place, before, options, now_ms)) for place in _places(before))
    return {name: each.files() for name, each in played if each.result.problem is None}
