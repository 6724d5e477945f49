"""The input of planners and forecasts for one log directory: its release, settings and checkpoints.

Every planner and every forecast is given a `DirContext`. So they agree on the release, on the settings and on where
each came from, and what holds for several commands (such as which partitions a broker does not keep) is stated once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from kafkalog_core.command_lines import shell_path, shell_word
from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.engine.targets import FileTarget, LogDirTarget, PartitionTarget, resolve
from kafkalog_core.errors import DeniedError, SelectionError, SettingError, StorageError
from kafkalog_core.findings.kinds import AS_BROKER, AS_BROKER_WITH, DUMP_RECORDS, RECOVER, RECOVER_WITH_OTHERS
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind
from kafkalog_core.kafka.rules.releases import with_log_files
from kafkalog_core.kafka.sim.cluster import DirectoryOwners, metadata_file, other_node_of, read_topic_id
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext, read_broker_dir
from kafkalog_core.kafka.sim.named_dirs import identity_of, other_dirs, related_dirs
from kafkalog_core.kafka.sim.settings import read_server, read_settings
from kafkalog_core.kafka.sim.start.results import LoadOptions
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.storage.access import denial, may_list
from kafkalog_core.storage.listing import SegmentState, list_directory, stat_path
from kafkalog_core.storage.logdir import BROKER_KINDS, is_broker_dir, read_log_dir
from kafkalog_core.storage.partition import partition_name
from kafkalog_core.storage.paths import absolute, real
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.kafka.rules.setting_table import Setting, TopicSettings
    from kafkalog_core.kafka.sim.evidence import ReleaseGuess
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.sim.named_dirs import ClusterDir
    from kafkalog_core.kafka.sim.settings import Settings
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.logdir import LogDir, PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "DirContext",
    "PartitionFacts",
    "TargetDir",
    "distinct_settings",
    "guess_release",
    "only_target_dir",
    "read_context",
    "recovery_words",
    "stray_first",
    "target_dir",
    "target_dirs",
    "waiting_replacement",
]

_TOP_KINDS: Final = BROKER_KINDS | {FileKind.KRAFT_SNAPSHOT}
"""Kinds of the files at the top of a log directory that decide what a broker does with the partitions; not its lock."""


class TargetDir(Struct, frozen=True, kw_only=True):
    """One directory, and what a command line names in it: the unit of planning. Each log directory gets one plan.

    Args:
        root: path of the log directory; outside of one, of the partition directory or the directory of a single file.
        log_dir: the log directory as it was read; None: the files are outside of any.
        partitions: partition directories that are named as a whole.
        files: files that are named singly; none of them is in one of `partitions`.
        is_whole: whether the whole log directory is named.
        named_dirs: all log directories named with it: others of the same cluster may hold settings of its topics.
    """

    root: str
    log_dir: LogDir | None
    partitions: tuple[PartitionPath, ...]
    files: tuple[FileTarget, ...] = ()
    is_whole: bool = False
    named_dirs: NamedDirs = field(default_factory=NamedDirs)

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths from which `target_dir` returns an equal value."""
        if self.is_whole:
            return (self.root,)
        return (*(place.path for place in self.partitions), *(file.path for file in self.files))

    def check_no_files(self, advice: str) -> None:
        """Raise SelectionError with this advice if a file is named singly, for commands that take whole partitions."""
        if self.files:
            raise SelectionError(advice, path=self.files[0].path)


class DirContext(Struct, frozen=True, kw_only=True, dict=True):
    """The release, settings and checkpoints of one target directory, for planners and forecasts.

    Args:
        target: the directory, and what is named in it.
        request: release and settings as the command line gives them.
        now_ms: the time that counts as now, in milliseconds since 1970.
        guess: the release whose rules count, with the evidence.
        broker_dir: the log directory with its checkpoints; None: outside of any.
        known_settings: the settings, where another process has read them; None: they are read when they are needed.
    """

    target: TargetDir
    request: SettingsRequest
    now_ms: int
    guess: ReleaseGuess
    broker_dir: BrokerDir | None
    known_settings: Settings | None = None

    @property
    def release(self) -> Release:
        """The release whose rules are used."""
        return self.guess.release

    @cached_property
    def settings(self) -> Settings:
        """The settings that are used, and where each came from. Raises SettingError, NotFoundError or AccessError."""
        if self.known_settings is not None:
            return self.known_settings
        log_dir = self.target.log_dir
        path = None if log_dir is None else log_dir.path
        return read_settings(self.request, self.release, path, self.target.named_dirs)

    @cached_property
    def related_dirs(self) -> tuple[ClusterDir, ...]:
        """The log directories of the cluster that were named or are in the server.properties, its own first.

        Raises SettingError, NotFoundError or AccessError.
        """
        own = None if self.target.log_dir is None else self.target.log_dir.path
        return related_dirs(own, self.target.named_dirs, self.settings.server)[1]

    @cached_property
    def _metadata_dir(self) -> str | None:
        """The other log directory of the cluster that has its metadata log; None: it was not named, or is its own."""
        name = f"{METADATA_TOPIC}-0"
        try:
            paths = [each.path for each in self.related_dirs]
        except (SettingError, StorageError):
            return None
        found = next((path for path in paths if os.path.isdir(f"{path}/{name}")), None)
        return None if found is None or os.path.isdir(f"{self.target.root}/{name}") else found

    @cached_property
    def _dirs_to_recover(self) -> tuple[str, ...]:
        """The log directories of the broker that were named, with that of the metadata log; empty outside of any.

        One whose meta.properties is lost may be of the broker of any named one.
        """
        log_dir = self.target.log_dir
        if log_dir is None or not log_dir.is_broker_dir:
            return ()
        own, named = real(log_dir.path), {real(path): path for path in self.target.named_dirs.paths}
        try:
            found = {real(each.path): each for each in self.related_dirs}
        except (SettingError, StorageError):
            found = {}
        if identity_of(log_dir.path).cluster_id is not None:
            metadata = None if self._metadata_dir is None else real(self._metadata_dir)
            same = {at for at, each in found.items() if each.is_same_broker}
            named = {at: path for at, path in named.items() if at in {*same, metadata}}
        of_config = {at: each.path for at, each in found.items() if each.is_same_broker}
        return tuple({**of_config, **named, own: log_dir.path}.values())

    def with_dirs(self, finding: Finding) -> Finding:
        """Return a finding whose next command names the log directories of the broker, where it depends on them.

        What recover keeps depends on the metadata log, which shows the other replicas. Where `truncate --as-broker`
        truncates depends on settings of topics, which are in the metadata log too.
        """
        if finding.next_step in {RECOVER, RECOVER_WITH_OTHERS}:
            if _is_deleted(finding):
                return replace(finding, next_step=DUMP_RECORDS)
            dirs = self._dirs_to_recover
            words = recovery_words(dirs, self.request) if dirs else ""
            return replace(finding, dirs=words, next_step=RECOVER if dirs[1:] else finding.next_step)
        directory = os.path.dirname(finding.path)
        is_served = os.path.basename(directory) == f"{finding.topic}-{finding.partition}"
        if finding.next_step != AS_BROKER or not is_served or self._metadata_dir is None:
            return finding
        metadata_dir = shell_path(self._metadata_dir).replace("{", "{{").replace("}", "}}")
        step = AS_BROKER_WITH.format(metadata_dir=metadata_dir, topic=finding.topic, partition=finding.partition)
        return replace(finding, next_step=step)

    @cached_property
    def other_node(self) -> Finding | None:
        """The finding that the server.properties is another broker's; None: nothing shows that."""
        if self.target.log_dir is None or self.request.config is None:
            return None
        return other_node_of(self.request.config, self.settings.server, self.target.log_dir.path)

    @property
    def snapshot_options(self) -> SnapshotOptions:
        """How producer snapshots are read and written."""
        return SnapshotOptions.of_release(
            self.release,
            now_ms=self.now_ms,
            expiration_ms=self.settings.producer_expiration_ms,
            expirations_ms=self.settings.producer_expirations_ms(self.guess.candidates),
        )

    @cached_property
    def assigned_elsewhere(self) -> dict[str, Finding]:
        """Findings on what the metadata log assigns to another broker or directory, by the path of their subject.

        A KRaft broker that starts does not keep such a partition: once the log is loaded it renames the directory to
        NAME-stray, so that nothing is appended to it, and neither the cleaner nor retention touches it.
        """
        target = self.target
        if target.log_dir is None:
            return {}
        own = target.log_dir.path
        dirs = self.related_dirs
        together = frozenset(each.path for each in dirs)
        owners = target.named_dirs.once(
            ("owners", together), lambda: DirectoryOwners((each.path for each in dirs), target.named_dirs)
        )
        found = {own: self.other_node or owners.other_node(own)}
        assignments = owners.assignments(owners.of_same_node(own), kafka=self.request.kafka)
        if assignments is not None and found[own] is None:
            served = [place for place in target.partitions if place.name.state is DirectoryState.CURRENT]
            held = [(place, topic_id) for place in served if (topic_id := read_topic_id(place)) is not None]
            bare = [(place, None) for place in served if not os.path.lexists(metadata_file(place).path)]
            found |= {place.path: assignments.stray(place, topic_id) for place, topic_id in (*held, *bare)}
            found[own] = assignments.other_directory(own, held)
        return {path: finding for path, finding in found.items() if finding is not None}

    def is_served(self, name: DirectoryName) -> bool:
        """Return whether the checkpoints of the log directory belong to this partition directory."""
        return self.broker_dir is not None and self.broker_dir.is_served(name)

    def offset(self, kind: FileKind, name: DirectoryName) -> int | None:
        """Return the offset that a checkpoint has for a partition directory; None: it has none for this directory."""
        if self.broker_dir is None or not self.broker_dir.is_served(name):
            return None
        return self.broker_dir.offset(kind, name)

    def facts(self, name: DirectoryName, *, as_loaded: bool = False) -> PartitionFacts:
        """Return what is known of one partition. `as_loaded`: see `BrokerDir.context`."""
        broker_dir = self.broker_dir
        return PartitionFacts(
            context=PartitionContext() if broker_dir is None else broker_dir.context(name, as_loaded=as_loaded),
            high_watermark=self.offset(FileKind.HIGH_WATERMARK, name),
            release=self.release,
            settings=self.settings.for_topic(name.topic),
            snapshot_options=self.snapshot_options,
            now_ms=self.now_ms,
        )

    def only(self, name: DirectoryName) -> DirContext:
        """Return the context of one partition, without the data of others, to send it to another process."""
        if self.broker_dir is None or name.topic is None or name.partition is None:
            return self
        broker_dir = self.broker_dir.only(name)
        target = replace(self.target, log_dir=broker_dir.log_dir, partitions=(), named_dirs=NamedDirs())
        return replace(self, target=target, broker_dir=broker_dir, known_settings=self.settings.for_one())


def recovery_words(dirs: Iterable[str], request: SettingsRequest) -> str:
    """Return log directories as words of `kafkalog recover`, with the release and the settings that were given."""
    words = [] if request.kafka is None else ["--kafka", shell_word(request.kafka)]
    words += [] if request.config is None else ["--config", shell_path(request.config)]
    return " ".join([*words, *map(shell_path, dirs)])


def _is_deleted(finding: Finding) -> bool:
    """Return whether a file is in a partition directory that a broker deletes: it is read, and not repaired."""
    return partition_name(os.path.dirname(absolute(finding.path))).state is DirectoryState.DELETE


class PartitionFacts(Struct, frozen=True, kw_only=True):
    """The input of a planner for one partition besides its files: plain values, which can be sent to other processes.

    Args:
        context: what the log directory shows of it.
        high_watermark: the checkpointed high watermark; None: unknown.
        release: the release whose rules count.
        settings: settings of its topic.
        snapshot_options: how producer snapshots are read and written.
        now_ms: the time that counts as now, in milliseconds since 1970.
    """

    context: PartitionContext
    high_watermark: int | None
    release: Release
    settings: TopicSettings
    snapshot_options: SnapshotOptions
    now_ms: int

    @property
    def load_options(self) -> LoadOptions:
        """What a start on the partition depends on, apart from its files."""
        return LoadOptions(release=self.release, settings=self.settings, snapshots=self.snapshot_options)


def read_context(
    target: TargetDir, request: SettingsRequest, now_ms: int, *, needs_log_files: bool = False
) -> DirContext:
    """Read the context of a target directory. Raises SettingError and StorageError.

    Args:
        target: the directory.
        request: release and settings as the command line gives them.
        now_ms: the time that counts as now, in milliseconds since 1970.
        needs_log_files: whether the first release with `.log` files is used for a directory of an older one (0.7).
    """
    guess = guess_release(target, request)
    if needs_log_files:
        guess = replace(guess, release=with_log_files(guess.release))
    broker_dir = None if target.log_dir is None else read_broker_dir(target.log_dir)
    return DirContext(target=target, request=request, now_ms=now_ms, guess=guess, broker_dir=broker_dir)


def guess_release(target: TargetDir, request: SettingsRequest) -> ReleaseGuess:
    """Return the release of a target directory, with what the broker's other log directories show of it.

    Raises NotFoundError or AccessError for the directory itself. What else cannot be read shows nothing.
    """
    others: tuple[str, ...] = ()
    if request.kafka is None and target.log_dir is not None:
        # A server.properties that cannot be read takes away one hint, and the files still show the release.
        with suppress(SettingError, StorageError):
            others = other_dirs(target.log_dir.path, target.named_dirs, read_server(request))
    return infer_release(target.root, kafka=request.kafka, beside=others, named=target.named_dirs)


class _HasFindings(Protocol):
    @property
    def findings(self) -> tuple[Finding, ...]: ...


_Forecast = TypeVar("_Forecast", bound=_HasFindings)


def stray_first(forecast: _Forecast, stray: Finding | None) -> _Forecast:
    """Return a forecast that begins with the finding that the broker does not keep the partition, if any.

    What follows is true only of a partition that the broker keeps, so a reader has to see this first.
    """
    if stray is None:
        return forecast
    return replace(forecast, findings=(stray, *forecast.findings))  # type: ignore[type-var]


def distinct_settings(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """Return the settings without duplicates of name, value and source."""
    return tuple({(setting.name, setting.value, setting.source): setting for setting in settings}.values())


def waiting_replacement(partition: Partition) -> FileInfo | None:
    """Return the first file of a finished replacement of segments (`.swap`) that waits to be put in place; None: none.

    A broker that starts puts it in place before it reads the log (LogLoader.completeSwapOperations).
    """
    swaps = (segment for segment in partition.other_segments if segment.state is SegmentState.SWAP)
    return next((segment.files[0] for segment in swaps), None)


def target_dirs(targets: Iterable[Target]) -> list[TargetDir]:
    """Return the directories of the targets of a command line, in their order, each log directory once.

    Raises DeniedError if this user may not read a file that a plan or a forecast depends on: a plan made from the other
    files would treat the unread ones as missing.
    """
    found: dict[tuple[int, int], TargetDir] = {}
    for target in targets:
        root = _root_of(target)
        status = stat_path(root)
        key = (status.st_dev, status.st_ino)
        known = found.get(key) or _empty(root, target)
        found[key] = replace(_with(known, target), named_dirs=target.named_dirs)
    for each in found.values():
        _check_rights(each)
    return list(found.values())


def _check_rights(directory: TargetDir) -> None:
    denials = (error for path, is_directory in _needed(directory) if (error := denial(path, is_directory=is_directory)))
    first = next(denials, None)
    if first is None:
        return
    more = sum(1 for _ in denials)
    others = f", and the same is true of {more:,} more" if more else ""
    facts = f"{first.message}{others}; kafkalog plans and forecasts nothing from a part of the files"
    raise DeniedError(facts, first.advice, path=first.path, prefix=first.prefix)


def _needed(directory: TargetDir) -> Iterator[tuple[str, bool]]:
    """Yield the paths of Kafka's files that a plan reads, and whether each is a directory."""
    paths = {place.path: None for place in directory.partitions}
    if directory.log_dir is not None:
        yield from ((file.path, False) for file in directory.log_dir.files if file.name.kind in _TOP_KINDS)
        paths |= {place.path: None for place in directory.log_dir.partitions if place.name.topic == METADATA_TOPIC}
    yield from ((file.path, False) for file in directory.files)
    for path in paths:
        if not may_list(path):
            yield path, True
            continue
        files = list_directory(path).files
        yield from ((file.path, False) for file in files if file.name.kind is not FileKind.UNKNOWN)


def target_dir(paths: Iterable[str], named_dirs: Iterable[str] = ()) -> TargetDir:
    """Return the one directory of paths, as `TargetDir.paths` and `named_dirs.paths` give them. Raises as above."""
    return replace(target_dirs(resolve(list(paths), empty_dirs=True))[0], named_dirs=NamedDirs(named_dirs))


def _root_of(target: Target) -> str:
    path = absolute(target.path)
    if isinstance(target, LogDirTarget):
        return path
    if isinstance(target, PartitionTarget):
        return absolute(target.log_dir) if target.log_dir is not None else path
    around = os.path.dirname(path)
    above = os.path.dirname(around)
    is_in_partition = target.partition is not None and not is_broker_dir(around)
    return above if is_in_partition and is_broker_dir(above) else around


def _empty(root: str, target: Target) -> TargetDir:
    is_log_dir = isinstance(target, LogDirTarget) or is_broker_dir(root)
    return TargetDir(root=root, log_dir=read_log_dir(root) if is_log_dir else None, partitions=())


def _with(directory: TargetDir, target: Target) -> TargetDir:
    if isinstance(target, FileTarget):
        file = replace(target.file, path=_inside(directory.root, target.path))
        return replace(directory, files=(*directory.files, replace(target, file=file)))
    if isinstance(target, PartitionTarget):
        return replace(directory, partitions=(*directory.partitions, _placed(directory.root, target.place)))
    places = tuple(_placed(directory.root, place) for place in target.partitions)
    return replace(
        directory, partitions=(*directory.partitions, *places), is_whole=directory.is_whole or target.is_whole
    )


def _placed(root: str, place: PartitionPath) -> PartitionPath:
    return replace(place, path=_inside(root, place.path))


def _inside(root: str, path: str) -> str:
    """Return the path through the root to the same file or directory, which may be named by a link elsewhere."""
    whole = absolute(path)
    if whole == root or root in {os.path.dirname(whole), os.path.dirname(os.path.dirname(whole))}:
        return whole
    real_root, real = os.path.realpath(root), os.path.realpath(whole)
    return os.path.normpath(os.path.join(root, os.path.relpath(real, real_root)))


def only_target_dir(directories: Iterable[TargetDir]) -> TargetDir:
    """Return the one directory with something named in it, for a command that makes one log directory from another.

    Raises SelectionError if there are several.
    """
    found = [each for each in directories if each.partitions or each.files]
    if len(found) != 1:
        raise SelectionError("--to makes one log directory from one: name one log directory, or partitions of it")
    return found[0]
