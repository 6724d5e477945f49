"""What a repair would do, as a value: made by a planner, shown, kept as JSON, and carried out by `apply`.

A planner reads the disk and stages changes; it never writes and knows no clock. From its name, the site and its options
the same plan comes out again, which is how `kafkalog apply` finds out that nothing has changed since.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from kafkalog_core.errors import DeniedError
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind
from kafkalog_core.kafka.cluster_assignments import DirectoryOwners, metadata_path, read_topic_id
from kafkalog_core.kafka.cluster_dirs import NamedDirs, related_dirs
from kafkalog_core.kafka.settings import SettingsRequest
from kafkalog_core.ops.reading.targets import FileTarget, LogDirTarget, PartitionTarget, resolve
from kafkalog_core.ops.repair.obstacles import obstacles_of
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.storage.changing.changes import Change, DryRunStage, Stage
from kafkalog_core.storage.changing.journal_search import find_journals, remains_bytes
from kafkalog_core.storage.changing.space import Space, spaces_for
from kafkalog_core.storage.listing import list_directory, stat_path
from kafkalog_core.storage.logdir import BROKER_KINDS, is_broker_dir, read_log_dir
from kafkalog_core.storage.source import denial, may_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.assumptions import Assumption
    from kafkalog_core.kafka.evidence import ReleaseGuess
    from kafkalog_core.kafka.setting_table import Setting
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.rows.chunk import RowChunk
    from kafkalog_core.storage.changing.staging import JournalStage
    from kafkalog_core.storage.logdir import LogDir, PartitionPath

__all__ = [
    "PLANNERS",
    "Draft",
    "Json",
    "Outcome",
    "Plan",
    "PlanRequest",
    "Planner",
    "Site",
    "make_plan",
    "not_assigned",
    "planner_of",
    "site_of",
    "sites_of",
]


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

PLANNERS: Final = {
    "reindex": "kafkalog_core.ops.reindex.reindex:plan_reindex",
    "truncate": "kafkalog_core.ops.truncate.truncate:plan_truncate",
    "checkpoint": "kafkalog_core.ops.checkpoint.checkpoint:plan_checkpoint",
    "compact": "kafkalog_core.ops.compact.planning:plan_compact",
    "retain": "kafkalog_core.ops.retain.retain:plan_retain",
}
"""The planner of each command that repairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a planner is asked for.

    Args:
        site: where.
        options: what the command line says, in values that JSON has; with the site and the time all that matters.
            `kafka` holds the fields of a `SettingsRequest`, as `dataclasses.asdict` gives them; each may be absent.
        now_ms: the time that counts as now.
        jobs: processes that may read at the same time; of no influence on the result.
        command_line: what was typed, for commands to paste; None: unknown.
    """

    site: Site
    options: Mapping[str, Json]
    now_ms: int
    jobs: int = 1
    command_line: CommandLine | None = None

    @property
    def settings(self) -> SettingsRequest:
        """The option `kafka`: releases and settings. Raises SettingError where it is no such thing."""
        return SettingsRequest.from_json(self.options.get("kafka"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a planner says beside the changes that it stages.

    Args:
        findings: what it saw, and what is mended by the changes.
        refusals: findings, mostly of severity error, about what is left as it is, each with the next command.
        losses: what goes away for good.
        settings: those that counted.
        release: whose rules counted, and the evidence; null: it made no difference.
        needs_release: the evidence is ambiguous and the releases that it leaves differ in what is done here.
        assumptions: assumed values because of which the changes lose data.
        details: rows of further tables that the command shows.
        note: what was asked for and is not done, and the next command, one sentence without its point; null: nothing.
    """

    findings: tuple[Finding, ...] = ()
    refusals: tuple[Finding, ...] = ()
    losses: tuple[Loss, ...] = ()
    settings: tuple[Setting, ...] = ()
    release: ReleaseGuess | None = None
    needs_release: bool = False
    assumptions: tuple[Assumption, ...] = ()
    details: tuple[RowChunk, ...] = ()
    note: str | None = None


Planner: TypeAlias = Callable[[PlanRequest, Stage, Progress], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be done at one site, and what that takes.

    Args:
        command: the name of its planner.
        request: what was asked for.
        changes: in the order in which they are made.
        outcome: what else the planner said.
        spaces: room that is needed and that there is, for each file system that is written to.
        obstacles: why it cannot be applied as things are, a sentence each; empty: it can.
        undo_to: directory that takes the journal; null: beside the files.
        keeps_undo: whether it can be taken back; false: `--no-undo`.
    """

    command: str
    request: PlanRequest
    changes: tuple[Change, ...]
    outcome: Outcome
    spaces: tuple[Space, ...] = ()
    obstacles: tuple[str, ...] = ()
    undo_to: str | None = None
    keeps_undo: bool = True

    @property
    def loses_data(self) -> bool:
        """Whether records go away for good."""
        return bool(self.outcome.losses)

    @property
    def is_alarming(self) -> bool:
        """Whether the exit status is 4 as long as it has not been applied."""
        findings = (*self.outcome.findings, *self.outcome.refusals)
        return self.loses_data or any(finding.severity == "error" for finding in findings)


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan, and what it takes to stage the same changes once more; `staging`: they are staged already."""

    plan: Plan
    outline: DryRunStage = field(repr=False)
    staging: JournalStage | None = field(default=None, repr=False)

    def discard(self) -> None:
        """Take away what is staged; the plan is not applied."""
        if self.staging is not None:
            self.staging.discard()


def planner_of(command: str) -> Planner:
    """The planner of a command."""
    module, _, name = PLANNERS[command].partition(":")
    return cast("Planner", getattr(import_module(module), name))


def make_plan(
    command: str,
    request: PlanRequest,
    *,
    undo_to: str | None = None,
    keeps_undo: bool = True,
    progress: Progress = NO_PROGRESS,
) -> Draft:
    """Plan a command at one site: reads, and changes nothing. Raises what reading raises."""
    outline = DryRunStage(request.site.root)
    outcome = planner_of(command)(request, outline, progress)
    changes = tuple(outline.changes)
    plan = Plan(
        command=command, request=request, changes=changes, outcome=outcome, undo_to=undo_to, keeps_undo=keeps_undo
    )
    spaces = spaces_for(changes, undo_to, keeps_old=keeps_undo, allows_direct=outline.is_kept)
    plan = replace(plan, spaces=_with_remains(spaces, request.site.root))
    return Draft(replace(plan, obstacles=obstacles_of(plan)), outline)


def _with_remains(spaces: tuple[Space, ...], root: str) -> tuple[Space, ...]:
    """Count what an apply deletes first as free: new content of a run that ended before it put it in place."""
    device, more = os.stat(root).st_dev, remains_bytes(find_journals(root)) if spaces else 0
    return tuple(
        replace(space, free_bytes=space.free_bytes + more) if os.stat(space.path).st_dev == device else space
        for space in spaces
    )


_TOP_KINDS: Final = BROKER_KINDS | {FileKind.KRAFT_SNAPSHOT}
"""Files at the top of a log directory that decide what a broker does with the partitions, without its lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What one plan is about.

    Args:
        root: the log directory, else the partition directory, else the directory of a file by itself.
        log_dir: as it was read; null: outside of any.
        partitions: directories that are meant as a whole.
        files: files that are meant by themselves, none of them in one of `partitions`.
        is_whole: the log directory with all that is in it.
        beside: all log directories that were named with it: others of the cluster may hold settings of its topics.
    """

    root: str
    log_dir: LogDir | None
    partitions: tuple[PartitionPath, ...]
    files: tuple[FileTarget, ...] = ()
    is_whole: bool = False
    beside: NamedDirs = field(default_factory=NamedDirs)

    @property
    def log_dir_path(self) -> str | None:
        """Path of the log directory; None: outside of any."""
        return None if self.log_dir is None else self.log_dir.path

    @property
    def paths(self) -> tuple[str, ...]:
        """What leads to the same site again."""
        if self.is_whole:
            return (self.root,)
        return (*(place.path for place in self.partitions), *(file.path for file in self.files))


def sites_of(targets: Iterable[Target]) -> list[Site]:
    """Return the sites of what a command line names, in its order; each log directory once.

    Raises DeniedError where this user may not read a file that a plan or a forecast depends on: one that is made from
    the rest would take what was not read for something that is not there.
    """
    found: dict[tuple[int, int], Site] = {}
    for target in targets:
        root = _root_of(target)
        status = stat_path(root)
        key = (status.st_dev, status.st_ino)
        known = found.get(key) or _empty(root, target)
        found[key] = replace(_with(known, target), beside=target.beside)
    sites = list(found.values())
    for site in sites:
        _check_rights(site)
    return sites


def _check_rights(site: Site) -> None:
    denials = (error for path, is_directory in _needed(site) if (error := denial(path, is_directory=is_directory)))
    first = next(denials, None)
    if first is None:
        return
    more = sum(1 for _ in denials)
    others = f", and the same is true of {more:,} more" if more else ""
    advice = f"kafkalog plans and forecasts nothing from a part of the files: {first.advice}"
    raise DeniedError(f"{first.message}{others}", advice, path=first.path, prefix=first.prefix)


def _needed(site: Site) -> Iterator[tuple[str, bool]]:
    """Yield the paths of Kafka's files that a plan reads, and whether they are directories."""
    directories = {place.path: None for place in site.partitions}
    if site.log_dir is not None:
        yield from ((file.path, False) for file in site.log_dir.files if file.name.kind in _TOP_KINDS)
        directories |= {place.path: None for place in site.log_dir.partitions if place.name.topic == METADATA_TOPIC}
    yield from ((file.path, False) for file in site.files)
    for directory in directories:
        if not may_list(directory):
            yield directory, True
            continue
        files = list_directory(directory).files
        yield from ((file.path, False) for file in files if file.name.kind is not FileKind.UNKNOWN)


def site_of(paths: Iterable[str], beside: Iterable[str] = ()) -> Site:
    """The one site that paths lead to, as `Site.paths` and `Site.beside.paths` gave them. Raises NotFoundError, ..."""
    return replace(sites_of(resolve(list(paths)))[0], beside=NamedDirs(beside))


def not_assigned(site: Site, server: Mapping[str, str], kafka: str | None) -> dict[str, Finding]:
    """Return what the metadata log assigns otherwise, by the path of the partition or log directory that it is about.

    Args:
        site: the partitions that are meant, and the log directory that they are in.
        server: the properties of the broker's server.properties that were given.
        kafka: the release of the broker; None: as the directory of the metadata log shows.
    """
    if site.log_dir is None:
        return {}
    own = site.log_dir.path
    _, dirs = related_dirs(own, site.beside, server)
    together = frozenset(each.path for each in dirs)
    owners = site.beside.once(("owners", together), lambda: DirectoryOwners(each.path for each in dirs))
    found = {own: owners.other_node(own)}
    assignments = owners.assignments(owners.of_same_node(own), kafka=kafka)
    if assignments is not None and found[own] is None:
        served = [place for place in site.partitions if place.name.state is DirectoryState.CURRENT]
        held = [(place, topic_id) for place in served if (topic_id := read_topic_id(place)) is not None]
        bare = [(place, None) for place in served if not os.path.lexists(metadata_path(place))]
        found |= {place.path: assignments.stray(place, topic_id) for place, topic_id in (*held, *bare)}
        found[own] = assignments.other_directory(own, held)
    return {path: finding for path, finding in found.items() if finding is not None}


def _root_of(target: Target) -> str:
    path = os.path.abspath(target.path)
    if isinstance(target, LogDirTarget):
        return path
    if isinstance(target, PartitionTarget):
        return os.path.abspath(target.log_dir) if target.log_dir is not None else path
    around = os.path.dirname(path)
    above = os.path.dirname(around)
    is_in_partition = target.partition is not None and not is_broker_dir(around)
    return above if is_in_partition and is_broker_dir(above) else around


def _empty(root: str, target: Target) -> Site:
    is_log_dir = isinstance(target, LogDirTarget) or is_broker_dir(root)
    return Site(root=root, log_dir=read_log_dir(root) if is_log_dir else None, partitions=())


def _with(site: Site, target: Target) -> Site:
    if isinstance(target, FileTarget):
        file = replace(target.file, path=_inside(site.root, target.path))
        return replace(site, files=(*site.files, replace(target, file=file)))
    if isinstance(target, PartitionTarget):
        return replace(site, partitions=(*site.partitions, _placed(site.root, target.place)))
    places = tuple(_placed(site.root, place) for place in target.partitions)
    return replace(site, partitions=(*site.partitions, *places), is_whole=site.is_whole or target.is_whole)


def _placed(root: str, place: PartitionPath) -> PartitionPath:
    return replace(place, path=_inside(root, place.path))


def _inside(root: str, path: str) -> str:
    """The path of the same thing that leads through the root; links may lead to it from elsewhere."""
    whole = os.path.abspath(path)
    if whole == root or root in {os.path.dirname(whole), os.path.dirname(os.path.dirname(whole))}:
        return whole
    real_root, real = os.path.realpath(root), os.path.realpath(whole)
    return os.path.normpath(os.path.join(root, os.path.relpath(real, real_root)))
