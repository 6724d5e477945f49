"""The findings that only a whole log directory shows, or all those of a broker together: see `LogDirs`."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.engine.targets import FileTarget, LogDirTarget, PartitionTarget, check_topics
from kafkalog_core.errors import SettingError, StorageError
from kafkalog_core.findings import FINDING_TYPES, for_rules, found
from kafkalog_core.findings.broker_actions import DOES_NOT_START
from kafkalog_core.findings.kinds import RECOVERS
from kafkalog_core.findings.logdirs import EMPTY_STRAY
from kafkalog_core.findings.logs import STARTS_LATER
from kafkalog_core.format.checkpoint import CheckpointOffset
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import (
    METADATA_TOPIC,
    DirectoryState,
)
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.across import TopicId, brokers_of, check_across, check_topic_ids
from kafkalog_core.kafka.sim.cluster import DirectoryOwners
from kafkalog_core.kafka.sim.logdir.bounds import read_extent
from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir, PartitionContext, read_broker_dir
from kafkalog_core.kafka.sim.logdir.top_findings import file_findings, listed_findings, unformatted
from kafkalog_core.kafka.sim.start.outcome import STOPS
from kafkalog_core.kafka.sim.start.results import LoadOptions, LoadProblem
from kafkalog_core.ops.repair.context import DirContext, TargetDir, guess_release
from kafkalog_core.ops.repair.undo import scope_of
from kafkalog_core.ops.verify.broker_action import Starts, end_after_clean, end_findings, with_broker_actions
from kafkalog_core.ops.verify.client_reads import with_consumers
from kafkalog_core.ops.verify.companions import (
    OWNERSHIP_CODES,
    check_directories,
    check_files,
    is_read_only_mount,
    read_metadata,
)
from kafkalog_core.ops.verify.metadata_log import (
    _cluster_findings,
    bootstrap_findings,
    empty_batch_findings,
    quorum_findings,
    snapshot_findings,
)
from kafkalog_core.ops.verify.offsets_past_end import committed_past_end
from kafkalog_core.ops.verify.producers import check_partition_offsets
from kafkalog_core.ops.verify.unmarking import NOT_READ, Unmarking, is_unmarking
from kafkalog_core.ops.verify.verdict import PartitionMetadata, PartitionVerdict, PlaceVerdict
from kafkalog_core.storage.changing.journal_search import leading_directory, resume_command, undo_command
from kafkalog_core.storage.logdir import PartitionPath, read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import absolute, is_object, real
from kafkalog_core.structs import replace
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.sim.cluster import BrokerAssignments
    from kafkalog_core.kafka.sim.logdir.text_files import PlacedLine
    from kafkalog_core.ops.verify.offsets_past_end import LogEnd
    from kafkalog_core.ops.verify.request import Depth
    from kafkalog_core.storage.changing.journal import Journal

__all__ = ["LogDirs", "interrupted_runs"]

_NOT_FILES: Final = frozenset({"file.not-a-file", "index.not-a-file"})
_NAMES_SHOWN: Final = 5
_Verdict = PartitionVerdict | PlaceVerdict


def interrupted_runs(target: Target) -> Iterator[PlaceVerdict]:
    """Yield what is reported first of a log directory or partition: a run of kafkalog stopped between its files."""
    if isinstance(target, FileTarget) or is_object(target.path):  # no run changes objects
        return
    try:
        runs = scope_of(target.path).interrupted()
    except StorageError:  # a directory that cannot be listed is reported when its files are checked
        return
    if runs:
        yield PlaceVerdict(path=target.path, findings=tuple(_interrupted(target.path, run) for run in runs))


def _interrupted(path: str, run: Journal) -> Finding:
    place = leading_directory(run)
    back, on = undo_command(place, run), resume_command(place, run)
    ways = [on] if run.state == "prepared" else []
    ways += [back] if run.keeps_old else []
    what = f"kafkalog {run.command}" if run.state == "prepared" else f"the undo of a kafkalog {run.command}"
    finding = found("dir.interrupted", path, run=run.run, what=what, ways=" or ".join(ways))
    return replace(finding, next_step=ways[0].replace("{", "{{").replace("}", "}}"))


class LogDirs:
    """The log directories around the partitions that are checked, and the findings that they add.

    For each partition, `context` comes before its check and `with_findings` after it. A verdict that
    `depends_on_others` goes through `with_warnings` when all partitions of its target are checked. Then come `verdict`
    for each log directory, and `across` for all.

    Args:
        targets: files, partitions and log directories.
        depth: of the check of the files at the top of log directories; None: they are not checked.
        others: targets that are known, but not checked here.
        kafka: release and settings of the broker that would start on the directories.
    """

    def __init__(
        self,
        targets: Iterable[Target],
        depth: Depth | None = None,
        *,
        others: Iterable[Target] = (),
        kafka: SettingsRequest | None = None,
    ) -> None:
        self._depth = depth
        self._kafka = kafka or SettingsRequest()
        self._targets = [target for target in targets if isinstance(target, LogDirTarget | PartitionTarget)]
        self._named_dirs = next((target.named_dirs for target in self._targets), NamedDirs())
        self._broker_dirs: dict[str, BrokerDir | None] = {}
        self._places: dict[str, tuple[BrokerDir | None, PartitionPath]] = {}
        self._topic_ids: list[TopicId] = []
        self._ends: dict[str, dict[TopicPartition, LogEnd]] = {}
        self._unmeasured: list[tuple[BrokerDir | None, PartitionPath]] = []
        self._foreign: set[str] = set()
        self._contexts: dict[str, DirContext] = {}
        self._unmarkings: dict[str, Unmarking] = {}
        self._where: dict[tuple[str | None, int | None], list[str]] = {}
        for target in (*self._targets, *others):
            if isinstance(target, FileTarget):
                continue
            for place in target.partitions if isinstance(target, LogDirTarget) else (target.place,):
                if place.name.state is DirectoryState.CURRENT:
                    self._where.setdefault((place.name.topic, place.name.partition), []).append(place.path)

    def context(self, target: PartitionTarget | LogDirTarget, place: PartitionPath) -> PartitionContext:
        """Return what the log directory around a partition shows of it."""
        broker_dir = self._broker_dir(target)
        self._places[place.path] = broker_dir, place
        context = PartitionContext() if broker_dir is None else broker_dir.context(place.name)
        if (
            context.is_clean is False and broker_dir is not None
        ):  # which segments a start recovers depends on its release
            context = replace(context, release=self._dir_context(broker_dir).release)
        return context

    def with_findings(self, verdict: _Verdict) -> _Verdict:
        """Return a verdict with the findings that depend on its place: broker actions, checkpoints, topic id."""
        broker_dir, place = self._places.pop(verdict.path, (None, None))
        if place is None:
            return with_consumers(verdict) if isinstance(verdict, PartitionVerdict) else verdict
        starts = self._starts(broker_dir, place)
        result = (
            with_consumers(self._with_place_findings(verdict, broker_dir, place, starts))
            if isinstance(verdict, PartitionVerdict)
            else verdict
        )
        if broker_dir is not None and broker_dir.log_dir.is_clean:
            unmarking = self._unmarkings.setdefault(broker_dir.path, self._new_unmarking())
            unmarking.add(result, place.name, starts)
        return result

    def depends_on_others(self, target: Target, verdict: _Verdict) -> bool:
        """Return whether the verdict of a partition depends on others of its target that are still to be checked."""
        is_clean = isinstance(target, LogDirTarget) and target.log_dir.is_broker_dir and target.log_dir.is_clean
        return is_clean and any(map(is_unmarking, verdict.findings))

    def with_warnings(self, target: Target, verdict: _Verdict) -> _Verdict:
        """Return a verdict whose cures warn of what the other partitions of its log directory would lose."""
        broker_dir = None if isinstance(target, FileTarget) else self._broker_dir(target)
        unmarking = None if broker_dir is None else self._unmarkings.get(broker_dir.path)
        if unmarking is None:
            return verdict
        is_whole = isinstance(target, LogDirTarget) and target.is_whole
        return replace(verdict, findings=unmarking.with_warnings(verdict.findings, is_whole=is_whole))

    def with_commands(self, verdict: _Verdict) -> _Verdict:
        """Return a verdict whose findings name the log directories of the broker in their next commands."""
        findings = (self._with_dirs(each) if each.next_step in RECOVERS else each for each in verdict.findings)
        return replace(verdict, findings=tuple(findings))

    def _with_dirs(self, finding: Finding) -> Finding:
        parent = os.path.dirname(absolute(finding.path))
        around = filter(None, map(self._broker_dirs.get, (parent, os.path.dirname(parent))))
        return next((self._dir_context(each).with_dirs(finding) for each in around), finding)

    def _new_unmarking(self) -> Unmarking:
        return Unmarking(has_checksums=self._depth is None or self._depth.level != "headers")

    def _with_place_findings(
        self, verdict: PartitionVerdict, broker_dir: BrokerDir | None, place: PartitionPath, starts: Starts
    ) -> PartitionVerdict:
        if any(finding.code == "dir.foreign-owner" for finding in verdict.findings):
            self._foreign.add(verdict.path)
        context = PartitionContext() if broker_dir is None else broker_dir.context(place.name)
        findings = [*with_broker_actions(verdict, starts, context)]
        is_served = place.name.state is DirectoryState.CURRENT and place.name.topic != METADATA_TOPIC
        if broker_dir is not None and broker_dir.log_dir.is_broker_dir and is_served and _is_measured(verdict):
            findings = self._with_offset_findings(verdict, broker_dir, place, findings)
        if broker_dir is not None:
            is_without_id = bool(is_served and context.is_kraft and verdict.metadata is None)
            findings = [self._of_release(finding, broker_dir, is_without_id=is_without_id) for finding in findings]
        if broker_dir is not None and is_served:
            findings += self._start_findings(broker_dir, place, starts, findings, is_cleaned=bool(context.is_cleaned))
        if verdict.log_end_offset is not None:
            self._note_end(broker_dir, place, verdict.log_end_offset)
        if verdict.metadata is not None:
            findings += verdict.metadata.findings
            self._note_topic_id(broker_dir, place, verdict.metadata)
        if place.name.topic == METADATA_TOPIC and place.name.state is DirectoryState.CURRENT:
            findings += _cluster_findings(broker_dir, place)
            findings += snapshot_findings(verdict, context)
            findings += empty_batch_findings(verdict)
            findings += quorum_findings(verdict)
        return replace(verdict, findings=tuple(_without_missing(findings)))

    def _with_offset_findings(
        self, verdict: PartitionVerdict, broker_dir: BrokerDir, place: PartitionPath, findings: list[Finding]
    ) -> list[Finding]:
        """Return the findings with those about the log end offset that the broker finds, and the checkpoints of it."""
        start, end = verdict.log_start_offset, verdict.log_end_offset
        is_end_sure = not (verdict.segments and verdict.segments[-1].damage)
        if broker_dir.context(place.name).is_clean and not is_end_sure:
            found_end = end_after_clean(verdict, rules_of(self._dir_context(broker_dir).release).search)
            if found_end is not None and end is not None and found_end.offset > end:
                end = found_end.offset
                findings = [each for each in findings if not _is_within(each, end)]
            elif found_end is not None:
                findings += end_findings(
                    verdict,
                    found_end,
                    is_reported=any(map(_stops_at_tail, findings)),
                    is_named=any(_TAKEN in (each.broker_action or "") for each in findings),
                )
        offsets = check_partition_offsets(broker_dir, place.name, place.path, start, end, is_end_sure=is_end_sure)
        return [*findings, *offsets]

    def _starts(self, broker_dir: BrokerDir | None, place: PartitionPath) -> Starts:
        """Return the next start of a broker on a partition; its release and settings are read when it is asked."""
        context = PartitionContext() if broker_dir is None else broker_dir.context(place.name, as_loaded=True)
        return Starts(place.path, context, partial(self._load_options, broker_dir, place))

    def _load_options(self, broker_dir: BrokerDir | None, place: PartitionPath, topic: str | None) -> LoadOptions:
        """Return what a start depends on, as `truncate --as-broker` reads it; Kafka's defaults where that is denied."""
        context = self._dir_context(broker_dir, place.path)
        try:
            return context.facts(replace(place.name, topic=topic)).load_options
        except (SettingError, StorageError):  # `check_settings` raises it for what the user has given
            return LoadOptions.of(context.release, topic, context.now_ms)

    def _dir_context(self, broker_dir: BrokerDir | None, partition_path: str = "") -> DirContext:
        """Return what planners know of a log directory, or of a partition outside of any."""
        path = partition_path if broker_dir is None else broker_dir.path
        if path not in self._contexts:
            log_dir = None if broker_dir is None else broker_dir.log_dir
            target = TargetDir(root=path, log_dir=log_dir, partitions=(), named_dirs=self._named_dirs)
            self._contexts[path] = DirContext(
                target=target,
                request=self._kafka,
                now_ms=0 if self._depth is None else self._depth.now_ms,
                guess=guess_release(target, self._kafka),
                broker_dir=broker_dir,
            )
        return self._contexts[path]

    def check_settings(self) -> None:
        """Raise SettingError, SelectionError or StorageError for given settings that a start cannot have."""
        given = self._kafka
        if not (given.config or given.assignments or given.topic_assignments):
            return
        check_topics(given.topics, self._targets)
        for target in self._targets:
            context = self._dir_context(self._broker_dir(target), target.path)
            context.settings.producer_expiration()
            for topic in given.topics or (None,):
                context.settings.for_topic(topic)

    def _of_release(self, finding: Finding, broker_dir: BrokerDir, *, is_without_id: bool) -> Finding:
        """Return a finding with what its release does with it; the release is inferred only where releases differ.

        is_without_id: whether it is about a partition of KRaft that has no partition.metadata.
        """
        is_stray = is_without_id and finding.code == "partition.empty"
        if not is_stray and not FINDING_TYPES[finding.code].variants:
            return finding
        rules = rules_of(self._dir_context(broker_dir).release)
        if is_stray and rules.renames_strays:  # LogManager.isStrayReplica
            return replace(finding, broker_action=EMPTY_STRAY)
        return for_rules(finding, rules)

    def _start_findings(
        self,
        broker_dir: BrokerDir,
        place: PartitionPath,
        starts: Starts,
        findings: Sequence[Finding],
        *,
        is_cleaned: bool,
    ) -> Iterator[Finding]:
        """Yield why the next start of a broker fails, unless another finding says it.

        The start of a partition without any warning is not simulated, unless its release fails at a control batch that
        the cleaner has emptied: nothing is wrong with that.
        """
        rules = recovery_rules(self._dir_context(broker_dir).release)
        meets_markers = is_cleaned and rules.has_producers and not rules.reads_empty_markers
        if not meets_markers and all(finding.severity == "info" for finding in findings):
            return
        if any(finding.code in NOT_READ for finding in findings) or (self._depth and self._depth.level == "files"):
            return
        problem = starts.problem
        if problem is None or problem.kind not in STOPS or _is_reported(problem, findings):
            return
        finding = found(
            STARTS_LATER.get(problem.kind, "log.stops-broker"),
            problem.path,
            topic=place.name.topic,
            partition=place.name.partition,
            position=problem.position,
            problem=problem.sentence.removesuffix("."),
        )
        offline = FINDING_TYPES["truncate.broker-offline"].broker_action
        yield replace(finding, broker_action=offline) if problem.kind == "offline" else finding

    def verdict(self, target: LogDirTarget) -> PlaceVerdict:
        """Return the findings about a log directory itself."""
        log_dir = target.log_dir
        findings = [finding for finding in listed_findings(log_dir) if finding.code not in OWNERSHIP_CODES]
        findings += check_files(log_dir.path, log_dir.files)
        if log_dir.remote_index_cache:
            findings += check_files(os.path.dirname(log_dir.remote_index_cache[0].path), log_dir.remote_index_cache)
        if is_read_only_mount(log_dir.path):
            findings.append(found("dir.read-only-mount", log_dir.path))
        broker_dir = self._broker_dir(target)
        others = (self._broker_dir(each) for each in self._targets if isinstance(each, LogDirTarget))
        findings += unformatted(log_dir, others, self._dir_context(broker_dir).release)
        if broker_dir is not None and log_dir.is_broker_dir:
            findings += (*broker_dir.findings, *file_findings(broker_dir))
        if self._depth is not None:
            findings += bootstrap_findings(log_dir, self._depth)
        if target.is_whole:
            findings += check_directories(place.path for place in target.partitions if place.path not in self._foreign)
            if broker_dir is not None and log_dir.is_broker_dir:
                findings += self._entries_without_partition(broker_dir)
        return PlaceVerdict(path=target.path, findings=tuple(findings))

    def note(self, target: PartitionTarget | LogDirTarget, place: PartitionPath) -> None:
        """Note what `across` needs of a partition that another call has checked."""
        broker_dir = self._broker_dir(target)
        self._note_topic_id(broker_dir, place, read_metadata(place))
        self._unmeasured.append((broker_dir, place))

    def across(self) -> Iterator[PlaceVerdict]:
        """Yield what only several log directories together show, by the directory that it is about."""
        broker_dirs = [
            broker_dir
            for target in self._targets
            if isinstance(target, LogDirTarget)
            and (broker_dir := self._broker_dir(target)) is not None
            and broker_dir.log_dir.is_broker_dir
        ]
        by_place: dict[str, list[Finding]] = {}
        known = [each for each in self._broker_dirs.values() if each is not None and each.log_dir.is_broker_dir]
        others = self._dirs_of_config(known)
        owners = DirectoryOwners((*(each.path for each in known), *others), self._named_dirs)
        compared: set[str] = set()
        not_assigned = [*self._not_assigned(known, owners, others, compared)]
        found_across = (
            *check_across(broker_dirs, owners),
            *check_topic_ids(self._topic_ids, compared),
            *self._not_of_config(known),
            *not_assigned,
            *self._committed_past_ends(),
        )
        replacing = {finding.path for _, finding in found_across if finding.code == "dir.future-assigned"}
        for path, finding in found_across:
            if finding.code != "dir.moving" or finding.path not in replacing:
                by_place.setdefault(path, []).append(finding)
        for path, findings in by_place.items():
            yield PlaceVerdict(path=path, findings=tuple(findings))

    def _note_end(self, broker_dir: BrokerDir | None, place: PartitionPath, end: int) -> None:
        """Note where a log ends; of several replicas the longest counts."""
        topic, partition = place.name.topic, place.name.partition
        if broker_dir is None or topic is None or partition is None or place.name.state is not DirectoryState.CURRENT:
            return
        ends = self._ends.setdefault(broker_dir.cluster_id or broker_dir.path, {})
        ends[topic, partition] = max(ends.get((topic, partition), (end, place.path)), (end, place.path))

    def _committed_past_ends(self) -> Iterator[tuple[str, Finding]]:
        """Yield what groups have committed past the ends of logs, where records were decoded."""
        if self._depth is not None and self._depth.level != "records":
            return
        max_bytes = MAX_BATCH_BYTES if self._depth is None else self._depth.max_batch_bytes
        if any(place.name.topic == OFFSETS_TOPIC for _, place in self._unmeasured):
            for broker_dir, place in self._unmeasured:
                with suppress(StorageError):
                    extent = read_extent(read_partition(place.path))
                    if extent is not None:
                        self._note_end(broker_dir, place, extent.end)
        for ends in self._ends.values():
            logs = [path for (topic, _), (_, path) in ends.items() if topic == OFFSETS_TOPIC]
            yield from committed_past_end(logs, ends, max_bytes)

    def _dirs_of_config(self, known: Sequence[BrokerDir]) -> list[str]:
        """Return the other log directories of these brokers that the given server.properties names."""
        if self._kafka.config is None:
            return []
        own = {real(each.path) for each in known}
        related = (each for broker_dir in known for each in self._dir_context(broker_dir).related_dirs)
        others = {real(each.path): each.path for each in related if each.is_same_broker}
        return [path for at, path in others.items() if at not in own]

    def _not_of_config(self, known: Sequence[BrokerDir]) -> Iterator[tuple[str, Finding]]:
        """Yield that the given server.properties is another broker's, with the path of the log directory."""
        for broker_dir in known:
            finding = self._dir_context(broker_dir).other_node
            if finding is not None:
                yield broker_dir.path, finding

    def _not_assigned(
        self, known: Sequence[BrokerDir], owners: DirectoryOwners, others: Sequence[str], compared: set[str]
    ) -> Iterator[tuple[str, Finding]]:
        """Yield what the metadata log assigns elsewhere, each with the path of the partition or log directory.

        compared: receives the paths of the partitions whose topic ids were compared with the metadata log.
        """
        whole = {each.path for each in self._targets if isinstance(each, LogDirTarget) and each.is_whole}
        for group in brokers_of(known, owners):
            nodes = {owners.node_of(each.path) for each in group}
            same = (path for path in others if owners.node_of(path) in {None, *nodes})
            assignments = owners.assignments([*(each.path for each in group), *same])
            places = [place for broker_dir in group for place in broker_dir.log_dir.partitions]
            current, copies = (
                {(place.name.topic, place.name.partition): place.path for place in places if place.name.state is state}
                for state in (DirectoryState.CURRENT, DirectoryState.FUTURE)
            )
            for each in () if assignments is None else assignments.missing(current.keys() | copies.keys()):
                yield from ((path, each) for path in whole if f"{each.path}/".startswith(f"{path}/"))
            for broker_dir in group:
                other_node = owners.other_node(broker_dir.path)
                if other_node is not None:  # the broker does not start
                    yield broker_dir.path, other_node
                elif assignments is not None:
                    yield from self._of_broker_dir(broker_dir, assignments, compared)
                    yield from self._futures(broker_dir, assignments, current)

    def _futures(
        self,
        broker_dir: BrokerDir,
        assignments: BrokerAssignments,
        current: Mapping[tuple[str | None, int | None], str],
    ) -> Iterator[tuple[str, Finding]]:
        """Yield what becomes of unfinished copies, by what the metadata log assigns to their log directory."""
        for each in self._topic_ids:
            name = each.place.name
            if each.broker_dir is broker_dir and name.state is DirectoryState.FUTURE:
                own = current.get((name.topic, name.partition))
                finding = assignments.future(broker_dir.path, each.place, each.topic_id, own)
                if finding is not None:
                    yield each.place.path, finding

    def _of_broker_dir(
        self, broker_dir: BrokerDir, assignments: BrokerAssignments, compared: set[str]
    ) -> Iterator[tuple[str, Finding]]:
        held = [
            (each.place, each.topic_id)
            for each in self._topic_ids
            if each.broker_dir is broker_dir and each.place.name.state is DirectoryState.CURRENT
        ]
        for place, topic_id in held:
            compared.add(place.path)
            stray = assignments.stray(place, topic_id)
            if stray is not None:
                yield place.path, stray
        other_id = assignments.other_directory(broker_dir.path, held)
        if other_id is not None:
            yield broker_dir.path, other_id

    def _broker_dir(self, target: PartitionTarget | LogDirTarget) -> BrokerDir | None:
        path = target.path if isinstance(target, LogDirTarget) else target.log_dir
        if path is None:
            return None
        key = absolute(path)
        if key not in self._broker_dirs:
            try:
                log_dir = target.log_dir if isinstance(target, LogDirTarget) else read_log_dir(path)
                self._broker_dirs[key] = read_broker_dir(log_dir)
            except StorageError:  # a partition was named, and the directory around it cannot be read
                self._broker_dirs[key] = None
        return self._broker_dirs[key]

    def _note_topic_id(
        self, broker_dir: BrokerDir | None, place: PartitionPath, metadata: PartitionMetadata | None
    ) -> None:
        is_counted = place.name.state in {DirectoryState.CURRENT, DirectoryState.FUTURE}
        if metadata is not None and metadata.topic_id is not None and is_counted:
            self._topic_ids.append(TopicId(broker_dir, place, metadata.path, metadata.topic_id))

    def _entries_without_partition(self, broker_dir: BrokerDir) -> Iterator[Finding]:
        """Yield one finding for each checkpoint; a partition is reported for the first checkpoint that names it."""
        counted: set[tuple[str | None, int | None]] = {
            (place.name.topic, place.name.partition) for place in broker_dir.log_dir.partitions
        }
        for text in broker_dir.offsets.values():
            if text.is_refused:
                continue
            missing = {key: placed for key, placed in text.file.entries.items() if key not in counted}
            counted.update(missing)
            if missing:
                yield self._no_partition(text.file.path, missing)

    def _no_partition(self, path: str, missing: Mapping[tuple[str, int], PlacedLine]) -> Finding:
        (topic, partition), first = min(missing.items(), key=lambda item: item[1].position)
        is_one = len(missing) == 1
        names = [f"{name}-{number}" for name, number in islice(missing, _NAMES_SHOWN)]
        more = f" and {len(missing) - len(names):,} more partitions" if len(missing) > len(names) else ""
        line = first.entry.line
        return found(
            "checkpoint.no-partition",
            path,
            topic=topic if is_one else None,
            partition=partition if is_one else None,
            position=first.position,
            size_bytes=first.size_bytes,
            offset=first.entry.offset if is_one and isinstance(first.entry, CheckpointOffset) else None,
            names=", ".join(names) + more,
            lines=f"line {line} names" if is_one else f"{len(missing):,} lines from line {line} on name",
            elsewhere=self._elsewhere(missing),
        )

    def _elsewhere(self, keys: Collection[tuple[str, int]]) -> str:
        """Return in which of the other log directories these partitions are, as the end of a sentence."""
        counts = Counter(os.path.dirname(self._where[key][0]) for key in keys if key in self._where)
        if not counts:
            return ""
        if len(keys) == 1:
            return f"; there is one in {next(iter(counts))}"
        return "; " + ", ".join(f"{count:,} of them in {directory}" for directory, count in counts.items())


_TAKEN: Final = "as the log end offset"


def _is_within(finding: Finding, end: int) -> bool:
    """Return whether it says that an offset is after the end of the log, which it is not for the broker."""
    code, offset = finding.code, finding.offset
    return code in {"snapshot.beyond-end", "epochs.beyond-end"} and offset is not None and offset <= end


def _is_reported(problem: LoadProblem, findings: Iterable[Finding]) -> bool:
    """Return whether a finding says that the broker does not start, or is an error of the very file or place."""
    for finding in findings:
        if finding.severity != "error":
            continue
        if (finding.broker_action or "").startswith(DOES_NOT_START):
            return True
        if problem.position is None and finding.path == problem.path:
            return True
    return False


def _stops_at_tail(finding: Finding) -> bool:
    """Return whether a finding about the end of a log reports that the broker does not start because of it."""
    return finding.code.startswith("log.") and (finding.broker_action or "").startswith("Does not start")


def _is_measured(verdict: PartitionVerdict) -> bool:
    return verdict.log_end_offset is not None or not verdict.segments


# --- the files at the top ---------------------------------------------------------------------------------------------


def _without_missing(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield findings without those about missing or unread files that are there, but are not files.

    A broker opens such an entry, so what it does without the file is not what it does here.
    """
    not_files = {finding.path for finding in findings if finding.code in _NOT_FILES}
    yield from (each for each in findings if each.path not in not_files or each.code in _NOT_FILES)
