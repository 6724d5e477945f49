"""One start of a broker on all its log directories: what of its parts decides about the whole.

`partition.PartitionLoad` answers for one partition. Outside of the logs, the findings about the files of a log
directory hold what a broker does with each (`Finding.broker_action`): `effect_of` reads it there, so that the
rule is stated once. `DiskStart` joins both, in the order of `LogManager`:

1. `KafkaRaftServer.initializeLogDirs` and `MetaPropertiesEnsemble.verify`: the ids of the directories. A directory with
   a meta.properties that cannot be read is offline, and nothing of it is loaded.
2. `LogManager.loadLogs`: each directory has threads of its own. An IOException of a partition takes the directory
   offline, while the other partitions are still loaded; any other exception ends the process. Partitions that load at
   the same time may have been recovered by then.
3. `LogManager.startup`: partitions that the broker does not keep are renamed, after they were loaded and recovered.
4. `LogManager.handleLogDirFailure`: the process ends where no log directory is left, and
   `ReplicaManager.handleLogDirFailure` where the failed one has the metadata log.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.findings.broker_actions import DOES_NOT_START
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, fixed_file_name
from kafkalog_core.kafka.sim.logdir.faults import ACTIONS_ON_NUMBERS
from kafkalog_core.kafka.sim.start.outcome import STOPS
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.rule_table import LoaderRules
    from kafkalog_core.kafka.sim.start.results import LoadProblem, LoadResult
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["DiskStart", "Effect", "Fate", "LoadedPartition", "StartEvent", "effect_of", "stops_broker"]

Effect = Literal["stops", "offline", "unserved", "stray"]
"""`stops`: the broker does not start; `offline`: it starts without the log directory, if it has another one;
`unserved`: it starts, and serves no partition of the log directory; `stray`: it renames the directory of the partition,
and never reads it again.
"""
Fate = Literal["not-loaded", "offline", "refused", "stray", "unserved", "deleted", "set-aside", "unknown", "loaded"]
"""`not-loaded`: the process ends; `refused`: the partition stops it, or takes its log directory offline; `deleted`: the
directory waits for its deletion; `set-aside`: it was renamed to -stray before; `unknown`: the simulation does not go
that far.
"""

_AROUND_LOGS: Final = frozenset(
    {"dir", "meta", "partition-metadata", "quorum-state", "metadata-log", "file", "checkpoint"}
)
"""Subjects of findings about files that `PartitionLoad` does not read."""
_STOPS: Final = re.compile(rf"{DOES_NOT_START}(?! (?:on it|where|if)\b)")
_OFFLINE: Final = re.compile(r"\b[Tt]akes? (?:the (?:whole )?log directory|(this one)) offline")
_DOUBT: Final = re.compile(r"\b(?:may|[Ii]f)\b")
_STRAY: Final = re.compile(r"\brenames (?:its|the) directory to end in -(?:stray|delete)")
_STRAY_DOUBT: Final = re.compile(r"\bif\b.*-stray|-stray if\b|whose id is unknown")
_UNSERVED: Final = "Starts, but can serve no partition"
_EPOCHS: Final = fixed_file_name(FileKind.LEADER_EPOCH)
_META: Final = fixed_file_name(FileKind.META_PROPERTIES)
_PARTITION_METADATA: Final = fixed_file_name(FileKind.PARTITION_METADATA)
_TEXTS_READ_FIRST: Final = frozenset(
    fixed_file_name(kind) for kind in (FileKind.RECOVERY_POINT, FileKind.LOG_START_OFFSET)
)
"""The checkpoints that are read before the first partition of a log directory is loaded."""


def effect_of(finding: Finding, rules: LoaderRules) -> Effect | None:
    """Return what a finding about a file outside of the logs means for the start; None: nothing, or it is in doubt.

    What the broker does is in the text of the finding, which is chosen by the kind of the file and by what is wrong
    with it (`EntryFile.refused`).
    """
    action = finding.broker_action or ""
    if finding.severity != "error" or finding.code.partition(".")[0] not in _AROUND_LOGS:
        return None
    name = os.path.basename(finding.path)
    if name == _EPOCHS:  # PartitionLoad reads it
        return None
    offline = _OFFLINE.search(action)
    is_certain = offline is not None and (offline[1] is not None or not _DOUBT.search(action[: offline.start()]))
    if is_certain or (rules.wraps_checkpoint_numbers and action in ACTIONS_ON_NUMBERS):
        # KIP-112; a file of a partition since 3.2 (KAFKA-13310)
        survives = rules.survives_refused_epochs if name == _PARTITION_METADATA else rules.has_failed_dirs
        return "offline" if survives else "stops"
    if _STOPS.match(action):
        return "stops"
    if action.startswith(_UNSERVED):
        return "unserved"
    return "stray" if _STRAY.search(action) and not _STRAY_DOUBT.search(action) else None


def stops_broker(findings: Iterable[Finding], rules: LoaderRules) -> Finding | None:
    """Return the first finding because of which no broker starts on a log directory; None: nothing shows that."""
    return next((finding for finding in findings if effect_of(finding, rules) == "stops"), None)


class StartEvent(Struct, frozen=True, kw_only=True):
    """What a start does because of one file.

    Args:
        effect: what it does.
        path: of the file or directory.
        log_dir: path of the log directory.
        sentence: what is wrong.
        position: byte in the file; None: the whole file.
        finding: that says it, or is about the same place; None: there is none.
    """

    effect: Effect
    path: str
    log_dir: str
    sentence: str
    position: int | None = None
    finding: Finding | None = None


class LoadedPartition(Struct, frozen=True, kw_only=True):
    """The directory of a partition, and what a start makes of it.

    Args:
        place: the directory.
        log_dir: path of the log directory.
        result: of its simulated load; None: it is not simulated.
    """

    place: PartitionPath
    log_dir: str
    result: LoadResult | None

    @property
    def is_metadata_log(self) -> bool:
        """Whether the node loads it before all others."""
        return self.place.name.topic == METADATA_TOPIC


class DiskStart(Struct, frozen=True, kw_only=True, dict=True):
    """One start on the log directories of a broker.

    Args:
        log_dirs: paths of the directories, each with the findings about its files.
        partitions: of all directories.
        rules: those of the release.
    """

    log_dirs: Mapping[str, tuple[Finding, ...]]
    partitions: tuple[LoadedPartition, ...]
    rules: LoaderRules

    @cached_property
    def events(self) -> tuple[StartEvent, ...]:
        """What is more than the load of one partition: first what ends the process, then directories, then others."""
        order: tuple[Effect, ...] = ("stops", "offline", "unserved", "stray")
        found = [*self._of_findings(), *self._of_loads()]
        if self._is_left(found):
            found += self._of_failed_dirs(found)
        # the ids in meta.properties are compared before anything is loaded
        return tuple(
            sorted(found, key=lambda event: (order.index(event.effect), os.path.basename(event.path) != _META))
        )

    @cached_property
    def stop(self) -> StartEvent | None:
        """Why the broker does not start; None: it does."""
        if self._is_left(self.events):
            return next((event for event in self.events if event.effect == "stops"), None)
        lost = (event for event in self.events if event.effect == "stops" or event.log_dir in self._of_metadata)
        return next(lost, self.events[0])

    def _is_left(self, events: Iterable[StartEvent]) -> bool:
        """Return whether a log directory remains (`LogManager.handleLogDirFailure` halts the process otherwise).

        A node without its metadata log directory ends too (`ReplicaManager.handleLogDirFailure`; seen of 4.3.1).
        """
        failed = {event.log_dir for event in events if event.effect == "offline"}
        if failed & self._of_metadata:
            return False
        # a directory with nothing but the metadata log is not one of log.dirs
        kept = {each.log_dir for each in self.partitions if not each.is_metadata_log}
        return not failed or bool((kept or set(self.log_dirs)) - failed)

    @cached_property
    def offline(self) -> tuple[str, ...]:
        """The log directories that go offline, in their order."""
        failed = {event.log_dir for event in self.events if event.effect == "offline"}
        return tuple(path for path in self.log_dirs if path in failed)

    def fate(self, partition: LoadedPartition) -> Fate:
        """Return what becomes of the directory of a partition."""
        result, state = partition.result, partition.place.name.state
        is_refused = self._is_refused(partition)
        is_unserved = any(each.effect == "unserved" and each.log_dir == partition.log_dir for each in self.events)
        fates: tuple[tuple[bool, Fate], ...] = (
            (is_refused, "refused"),
            (self.stop is not None, "not-loaded"),
            (partition.log_dir in self.offline, "offline"),
            (state is DirectoryState.DELETE, "deleted"),
            (state is DirectoryState.STRAY, "set-aside"),
            (partition.place.path in self._strays, "stray"),
            (is_unserved, "unserved"),
            (result is None or result.problem is not None, "unknown"),
        )
        return next((fate for is_so, fate in fates if is_so), "loaded")

    def _is_refused(self, partition: LoadedPartition) -> bool:
        """Return whether the partition itself ends the process, or takes its log directory offline."""
        problem = None if partition.result is None else partition.result.problem
        if problem is not None and problem.kind in STOPS:
            return True
        path = partition.place.path
        return any(
            event.effect != "stray" and event.path in {path, f"{path}/{_PARTITION_METADATA}"} for event in self.events
        )

    @cached_property
    def _strays(self) -> frozenset[str]:
        paths = (event.path for event in self.events if event.effect == "stray")
        return frozenset(
            os.path.dirname(path) if os.path.basename(path) == _PARTITION_METADATA else path for path in paths
        )

    @cached_property
    def _of_metadata(self) -> frozenset[str]:
        """The log directory with the metadata log."""
        return frozenset(each.log_dir for each in self.partitions if each.is_metadata_log)

    def _of_findings(self) -> Iterator[StartEvent]:
        for log_dir, findings in self.log_dirs.items():
            for finding in findings:
                effect = effect_of(finding, self.rules)
                if effect == "offline" and os.path.basename(finding.path) == _META and log_dir in self._of_metadata:
                    effect = "stops"  # MetaPropertiesEnsemble.verify: an error in the metadata log directory
                if effect is not None:
                    yield StartEvent(
                        effect=effect,
                        path=finding.path,
                        log_dir=log_dir,
                        sentence=finding.message,
                        position=finding.position,
                        finding=finding,
                    )

    def _of_loads(self) -> Iterator[StartEvent]:
        for each in self.partitions:
            problem = None if each.result is None else each.result.problem
            if problem is None or problem.kind not in STOPS:
                continue
            # KafkaRaftServer ends where the metadata log cannot be loaded
            is_offline = problem.kind == "offline" and not each.is_metadata_log
            yield StartEvent(
                effect="offline" if is_offline else "stops",
                path=problem.path,
                log_dir=each.log_dir,
                sentence=problem.sentence,
                position=problem.position,
                finding=self._finding_at(each, problem),
            )

    def _finding_at(self, partition: LoadedPartition, problem: LoadProblem) -> Finding | None:
        """Return the error that verify finds where a load stops; None: there is none."""
        errors = [
            finding
            for finding in self.log_dirs.get(partition.log_dir, ())
            if finding.severity == "error" and finding.path == problem.path
        ]
        at_place = (finding for finding in errors if finding.position == problem.position)
        return next(at_place, errors[0] if errors else None)

    def _of_failed_dirs(self, events: Iterable[StartEvent]) -> Iterator[StartEvent]:
        """Yield why the process ends though the directory alone has failed.

        The directory counts as failed from the moment at which a checkpoint was refused, and its partitions are loaded
        all the same. `UnifiedLog.maybeHandleIOException` then refuses every access with a KafkaStorageException that
        has no IOException as its cause, so that `LogManager.loadLogs` does not survive it: to look up the first
        unstable offset of a log, and to rename a stray directory.
        """
        events = list(events)
        failed = {
            event.log_dir: event
            for event in events
            if event.effect == "offline" and os.path.basename(event.path) in _TEXTS_READ_FIRST
        }
        strays = {event.log_dir for event in events if event.effect == "stray"}
        for log_dir, event in failed.items():
            unstable = next(
                (
                    each.place.name.raw
                    for each in self.partitions
                    if each.log_dir == log_dir and each.result is not None and each.result.reads_unstable
                ),
                None,
            )
            if unstable is None and log_dir not in strays:
                continue
            why = f"{unstable} has a transaction to look up" if unstable else "a directory in it has to be renamed"
            yield StartEvent(
                effect="stops",
                path=event.path,
                log_dir=log_dir,
                sentence=f"{event.sentence.rstrip('.')}, and {why} in the failed log directory",
                position=event.position,
                finding=event.finding,
            )
