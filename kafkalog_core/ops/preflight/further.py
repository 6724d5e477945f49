"""What a start meets apart from the files of partitions: the metadata log, the coordinators, the machine's limits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.kafka.rules.coordinator_rules import coordinator_rules
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.sim.start.coordinators import COORDINATOR_TOPICS, load_coordinator
from kafkalog_core.kafka.sim.start.limits import count_disk, limit_problems, needs_of, read_machine
from kafkalog_core.kafka.sim.start.metadata_load import NO_RECORD, load_metadata
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.settings import Settings
    from kafkalog_core.kafka.sim.start.coordinators import CoordinatorLoad
    from kafkalog_core.kafka.sim.start.metadata_load import MetadataLoad
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = [
    "RefusedMetadata",
    "coordinator_findings",
    "coordinator_loads",
    "limit_findings",
    "metadata_loads",
    "refused_metadata",
]

_SHOWN: Final = 3
_METADATA_INDEX_BYTES: Final = 10 * 1024 * 1024


def metadata_loads(
    places: Iterable[PartitionPath], releases: Sequence[Release]
) -> dict[str, list[MetadataLoad | None]]:
    """Return what releases make of each metadata log, by its directory."""
    loads = {}
    for place in places:
        if place.name.topic == METADATA_TOPIC and place.name.state is DirectoryState.CURRENT:
            try:
                loads[place.path] = load_metadata(place.path, releases)
            except StorageError:  # verify reports it
                continue
    return loads


class RefusedMetadata(NamedTuple):
    """What a release does not accept of a metadata log: one finding for each log; `settings`: those about a setting."""

    settings: tuple[Finding, ...]
    others: tuple[Finding, ...]


def refused_metadata(places: Iterable[PartitionPath], release: Release) -> RefusedMetadata:
    """Return what the release does not accept of metadata logs, apart from what verify finds for every release."""
    settings: list[Finding] = []
    others: list[Finding] = []
    for path, (load,) in metadata_loads(places, [release]).items():
        # verify finds a snapshot that is missing and a batch without records
        if load is None or load.stop is None or load.stop.path == path or load.stop.reason == NO_RECORD:
            continue
        stop = load.stop
        finding = found("metadata-log.refused", stop.path, offset=stop.offset, release=release, why=stop.reason)
        if os.path.dirname(stop.path) != path:  # bootstrap.checkpoint is at the top of the log directory
            finding = replace(finding, next_step="kafkalog preflight {parent} --compat")
        (others if stop.setting is None else settings).append(finding)
    return RefusedMetadata(tuple(settings), tuple(others))


def coordinator_loads(
    partitions: Iterable[PartitionStart], releases: Sequence[Release]
) -> Iterator[tuple[PartitionStart, list[CoordinatorLoad]]]:
    """Yield each partition of a coordinator that the broker serves, with what releases make of it.

    Releases before 0.11 are left out: their coordinators are not followed.
    """
    rules = [each for each in map(coordinator_rules, releases) if each is not None]
    if not rules:
        return
    for each in partitions:
        name, result = each.place.name, each.result
        if (
            name.topic not in COORDINATOR_TOPICS
            or each.fate != "loaded"
            or result is None
            or result.problem is not None
        ):
            continue
        try:
            yield (
                each,
                load_coordinator(
                    name.topic,
                    each.place.path,
                    rules,
                    start_offset=result.log_start_offset,
                    end_offset=result.end_offset,
                    sizes={segment.base_offset: segment.size_bytes for segment in result.segments},
                ),
            )
        except StorageError:  # verify reports it
            continue


def coordinator_findings(partitions: Iterable[PartitionStart], release: Release) -> Iterator[Finding]:
    """Yield what the coordinators of a release do not load of the partitions that the broker serves."""
    for each, (load,) in coordinator_loads(partitions, [release]):
        topic, partition = each.place.name.topic, each.place.name.partition
        is_transactions = topic == TRANSACTIONS_TOPIC
        noun = "transactional id" if is_transactions else "group"
        groups = _named(load.forgotten, noun)
        for what, count in load.skipped.items():
            text = f"{count_of(count, 'record')} ({what})"
            finding = found("coordinator.forgets", load.path, release=release, what=text, groups=groups)
            yield replace(finding, topic=topic, partition=partition)
        if load.stop is None:
            continue
        partly = "served-partly" if is_transactions else "served-before"
        code = {"none": "not-served", "empty": "served-empty"}.get(load.served, partly)
        stop = load.stop
        why = f"{stop.record}: {stop.reason}" if stop.record else stop.reason
        finding = found(
            f"coordinator.{code}",
            stop.path,
            offset=stop.offset,
            position=stop.position,
            release=release,
            why=why.rstrip("."),
            groups=groups,
        )
        yield replace(finding, topic=topic, partition=partition)


def limit_findings(
    partitions: Sequence[PartitionStart],
    release: Release,
    settings: Settings,
    *,
    max_map_count: int | None = None,
    open_files: int | None = None,
) -> Iterator[Finding]:
    """Yield the limits of the machine that the broker reaches.

    Args:
        partitions: of all log directories.
        release: of the broker.
        settings: of the broker and its topics.
        max_map_count: vm.max_map_count of the machine of the broker; None: that of this machine.
        open_files: LimitNOFILE of the broker; None: the limit of this process.
    """
    log_dirs = list(dict.fromkeys(each.log_dir for each in partitions))
    counts = count_disk((path, [each.place.path for each in partitions if each.log_dir == path]) for path in log_dirs)
    needs = needs_of(
        counts,
        has_time_index=recovery_rules(release).has_time_index,
        maps_all=rules_of(release).checks_indexes != "no",
        index_bytes=sum(_index_bytes(each.place.name.topic, settings) for each in partitions),
    )
    machine = read_machine(log_dirs, max_map_count=max_map_count, open_files=open_files)
    for problem in limit_problems(needs, machine, counts):
        yield found(
            "start.limit",
            log_dirs[0],
            severity="error" if problem.is_at_start else "warning",
            limit=problem.limit,
            needed=f"{problem.needed:,}",
            allowed=f"{problem.allowed:,}",
            consequence=problem.consequence,
        )


def _index_bytes(topic: str | None, settings: Settings) -> int:
    # The log of the metadata has LogConfig's default whatever the broker's is (KafkaRaftLog.createLog).
    return _METADATA_INDEX_BYTES if topic == METADATA_TOPIC else settings.for_topic(topic).segment_index_bytes


def _named(names: Iterable[str], noun: str) -> str:
    """Return some names, quoted, and how many others there are."""
    ordered = sorted(names)
    if not ordered:
        return f"its {noun}s"
    shown = ", ".join(f"{name!r}" for name in ordered[:_SHOWN])
    more = len(ordered) - _SHOWN
    return f"{noun} {shown}" if len(ordered) == 1 else f"{noun}s {shown}{f' and {more} more' if more > 0 else ''}"
