"""`kafkalog preflight --compat`: which releases start on the log directories, and what would free the others.

One row a minor release from 0.8 on, and one for a bug fix whose result differs from that of the release before it. The
logs are loaded once for all releases with the same rules; the metadata log and the coordinators are read once.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import SettingError, StorageError
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name
from kafkalog_core.kafka.rules.coordinator_rules import coordinator_rules
from kafkalog_core.kafka.rules.metadata_rules import can_downgrade, cluster_modes
from kafkalog_core.kafka.rules.releases import RELEASES, bug_fixes, release_of_level, with_log_files
from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.kafka.sim.start.disk import DiskStart, LoadedPartition
from kafkalog_core.kafka.sim.start.metadata_load import quorum_state_version
from kafkalog_core.ops.preflight.further import coordinator_loads, metadata_loads
from kafkalog_core.ops.preflight.partition_starts import load_partition
from kafkalog_core.ops.preflight.sentences import WAITS_FOR_LOG
from kafkalog_core.ops.repair.context import read_context, target_dirs
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of
from kafkalog_core.topics.metadata_records import METADATA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.start.coordinators import CoordinatorLoad
    from kafkalog_core.kafka.sim.start.metadata_load import MetadataLoad, MetadataStop
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart
    from kafkalog_core.ops.preflight.preflight import Preflight, PreflightRequest
    from kafkalog_core.ops.repair.context import TargetDir

__all__ = ["Compat", "ReleaseStart", "compat"]

Outcome = Literal["starts", "harmed", "dies", "waits", "unknown"]
"""`harmed`: it starts, but not all is served, or records are lost; `waits`: it runs, and never serves a request."""
_BACKUP: Final = "no downgrade: restore the metadata log from a backup of the older release, or stay with the newer one"
_V2: Final = "v2"
_SHOWN: Final = 2
_META: Final = fixed_file_name(FileKind.META_PROPERTIES)


class ReleaseStart(Struct, frozen=True, kw_only=True):
    """What one release does with the log directories.

    Args:
        release: of the broker.
        outcome: of its start.
        path: of the file that decides; None: no file does.
        offset: of the record that decides.
        feature: whose level decides.
        why: what is wrong, as a clause; empty: nothing is.
        way_out: what would free it; None: nothing is known to, or nothing is needed.
        unserved: partitions of coordinators that are not served as they are on the disk.
    """

    release: Release
    outcome: Outcome
    path: str | None = None
    offset: int | None = None
    feature: str | None = None
    why: str = ""
    way_out: str | None = None
    unserved: int = 0

    def row(self) -> dict[str, object]:
        """Return the row."""
        return {
            "release": str(self.release),
            "outcome": self.outcome,
            "file": self.path,
            "offset": self.offset,
            "feature": self.feature,
            "why": self.why or None,
            "way_out": self.way_out,
            "unserved_coordinators": self.unserved,
        }

    @property
    def _result(self) -> tuple[object, ...]:
        return self.outcome, self.path, self.offset, self.feature, self.why, self.unserved

    def is_like(self, other: ReleaseStart) -> bool:
        """Return whether another release comes to the same end at the same place."""
        return self._result == other._result


class Compat(Struct, frozen=True, kw_only=True):
    """The rows, oldest release first, the release that the directories show, and their paths."""

    starts: tuple[ReleaseStart, ...]
    own: Release
    log_dirs: tuple[str, ...]

    @property
    def is_harmed(self) -> bool:
        """Whether the release of the directories itself does not start, or loses something."""
        return self._own.outcome != "starts"

    @property
    def _own(self) -> ReleaseStart:
        return self.starts[max(0, bisect_right([each.release for each in self.starts], self.own) - 1)]

    @property
    def verdict(self) -> str:
        """One sentence without its full stop: how far back and how far on releases start."""
        place = self.starts.index(self._own)
        before, after = self.starts[:place][::-1], self.starts[place + 1 :]
        own = _outcome_text(self._own)
        return f"Kafka {self.own} {own}; back: {_reach(before)}; on: {_reach(after)}"

    def chunks(self) -> Iterator[RowChunk]:
        """Yield the rows."""
        yield RowChunk(tables.RELEASE_START, [each.row() for each in self.starts])


def _outcome_text(start: ReleaseStart) -> str:
    texts: Mapping[Outcome, str] = {
        "starts": "starts and loses nothing",
        "harmed": "starts, but not everything is served",
        "dies": "does not start",
        "waits": "never serves a request",
        "unknown": "is not simulated",
    }
    return texts[start.outcome]


def _reach(starts: Sequence[ReleaseStart]) -> str:
    """Return how far the releases of one direction start, and why the next one does not."""
    count = next((number for number, each in enumerate(starts) if each.outcome != "starts"), len(starts))
    if not starts:
        return "no release is known"
    reached = f"as far as {starts[count - 1].release}" if count else "none"
    if count == len(starts):
        return reached
    stop = starts[count]
    return f"{reached}, {stop.release} {_outcome_text(stop)}{f' ({stop.why})' if stop.why else ''}"


def compat(request: PreflightRequest, result: Preflight) -> Compat:
    """Return what each release does with the log directories of a preflight.

    Args:
        request: what was simulated.
        result: its result, whose findings about files outside of logs count for every release.
    """
    directories = target_dirs(request.targets)
    releases = sorted({*map(with_log_files, RELEASES), *bug_fixes()})
    places = [place for each in directories for place in each.partitions]
    metadata = metadata_loads(places, releases)
    disks = _disks(request, result, directories, releases)
    mode = _mode(directories)
    found = []
    for number, release in enumerate(releases):
        loads = [of_log[number] for of_log in metadata.values()]
        found.append(_of_release(release, mode, loads, disks[release], result.formats))
    minor = frozenset(RELEASES)
    kept = [
        each
        for number, each in enumerate(found)
        if each.release in minor or with_log_files(each.release) in minor or not each.is_like(found[number - 1])
    ]
    return Compat(starts=tuple(kept), own=result.guess.release, log_dirs=result.log_dirs)


class _Disk(Struct, frozen=True, kw_only=True):
    """The loads of all partitions by some rules, and of the coordinators by those of one release.

    Args:
        start: of the whole disk; None: the release does not accept a setting.
        partitions: each with its load.
        coordinators: what the release makes of their partitions.
        refused: the setting that it does not accept.
    """

    start: DiskStart | None
    partitions: tuple[PartitionStart, ...] = ()
    coordinators: tuple[CoordinatorLoad, ...] = ()
    refused: str = ""


def _disks(
    request: PreflightRequest, result: Preflight, directories: Sequence[TargetDir], releases: Sequence[Release]
) -> dict[Release, _Disk]:
    """Return the start of each release: the logs are loaded once for those with the same rules."""
    groups: dict[object, list[Release]] = {}
    for release in releases:
        key = (rules_of(release), recovery_rules(release), coordinator_rules(release) is None)
        groups.setdefault(key, []).append(release)
    found: dict[Release, _Disk] = {}
    for some in groups.values():
        found |= _disks_alike(request, result, directories, some)
    return found


def _disks_alike(
    request: PreflightRequest, result: Preflight, directories: Sequence[TargetDir], releases: Sequence[Release]
) -> dict[Release, _Disk]:
    """Return the starts of releases with the same rules; their settings may have different limits."""
    try:
        disk = _disk(request, result, directories, releases[-1])
    except SettingError as error:
        if len(releases) == 1:
            return {releases[0]: _Disk(start=None, refused=error.message)}
        alone = [_disks_alike(request, result, directories, [each]) for each in releases]
        return {release: disk for each in alone for release, disk in each.items()}
    loads = [of_log for _, of_log in coordinator_loads(disk.partitions, releases)]
    return {
        release: replace(disk, coordinators=tuple(of_log[number] for of_log in loads))
        for number, release in enumerate(releases)
    }


def _disk(request: PreflightRequest, result: Preflight, directories: Iterable[TargetDir], release: Release) -> _Disk:
    """Load all partitions by the rules of a release. Raises SettingError for a setting that it does not accept."""
    kafka = replace(request.kafka, kafka=str(release))
    contexts = [read_context(each, kafka, request.now_ms) for each in directories]
    loaded = [
        load_partition(place, context.target.root, context.facts(place.name, as_loaded=True))
        for context in contexts
        for place in context.target.partitions
    ]
    parts = tuple(LoadedPartition(place=each.place, log_dir=each.log_dir, result=each.result) for each in loaded)
    # what a release does not accept of the metadata log is asked of each release apart
    findings = {
        path: tuple(each for each in of_dir if each.code != "metadata-log.refused")
        for path, of_dir in result.start.log_dirs.items()
    }
    start = DiskStart(log_dirs=findings, partitions=parts, rules=rules_of(release))
    finished = tuple(replace(each, fate=start.fate(part)) for each, part in zip(loaded, parts, strict=True))
    return _Disk(start=start, partitions=finished)


# --- the mode of the cluster ------------------------------------------------------------------------------------------
class _Mode(Struct, frozen=True):
    """Where the cluster keeps its metadata, and the file that shows it; `is_kraft` None: no file does.

    `quorum_version`: of quorum-state, where there is a metadata log.
    """

    is_kraft: bool | None
    path: str | None = None
    quorum_version: str | None = None


def _mode(directories: Iterable[TargetDir]) -> _Mode:
    for each in directories:
        log = next((place.path for place in each.partitions if place.name.topic == METADATA_TOPIC), None)
        if log is not None:
            return _Mode(is_kraft=True, path=f"{each.root}/{_META}", quorum_version=quorum_state_version(log))
        try:
            text = read_properties(EntryFile(path=f"{each.root}/{_META}", kind=FileKind.META_PROPERTIES))
        except StorageError:
            continue
        if text is not None and (text.contents.get("node.id") or text.contents.get("broker.id")):
            return _Mode(is_kraft=text.contents.get("node.id") is not None, path=f"{each.root}/{_META}")
    return _Mode(is_kraft=None)


def _of_mode(release: Release, mode: _Mode) -> ReleaseStart | None:
    """Return what the mode of the cluster alone decides; None: nothing."""
    modes = cluster_modes(release)
    if mode.is_kraft and modes.has_kraft is None:
        if modes.reads_log and mode.quorum_version not in {None, "0"}:
            why = f"it refuses the file with ZooKeeper, and version {mode.quorum_version} of quorum-state with KRaft"
            return ReleaseStart(release=release, outcome="dies", path=mode.path, why=why)
        why = "it refuses the file with ZooKeeper, and its KRaft is a preview, which is not simulated"
        return ReleaseStart(release=release, outcome="unknown", path=mode.path, why=why)
    if mode.is_kraft and not modes.has_kraft:
        why = "a KRaft node wrote the directory, and the release needs ZooKeeper"
        return ReleaseStart(release=release, outcome="dies", path=mode.path, why=why)
    if mode.is_kraft is False and not modes.has_zookeeper:
        why = WAITS_FOR_LOG
        way_out = "migrate the cluster to KRaft with 3.9 first"
        return ReleaseStart(release=release, outcome="waits", path=mode.path, why=why, way_out=way_out)
    return None


# --- one release ------------------------------------------------------------------------------------------------------
def _command(start: DiskStart, release: Release) -> str:
    """Return the command that shows what is lost, and how to avoid it."""
    return f"kafkalog preflight {' '.join(map(shell_path, start.log_dirs))} --kafka {release}"


def _of_release(
    release: Release, mode: _Mode, metadata: Iterable[MetadataLoad | None], disk: _Disk, formats: frozenset[str]
) -> ReleaseStart:
    decided = _of_mode(release, mode)
    if decided is not None:
        return decided
    stop = next((load.stop for load in metadata if load is not None and load.stop is not None), None)
    if stop is not None:
        return ReleaseStart(
            release=release,
            outcome="dies",
            path=stop.path,
            offset=stop.offset,
            feature=None if stop.feature is None else stop.feature.name,
            why=stop.reason,
            way_out=_way_out(stop),
        )
    if disk.start is None:
        return ReleaseStart(release=release, outcome="dies", why=disk.refused.rstrip("."), way_out="change the setting")
    event = disk.start.stop
    if event is not None:
        why, way_out = event.sentence.rstrip("."), _command(disk.start, release)
        return ReleaseStart(release=release, outcome="dies", path=event.path, why=why, way_out=way_out)
    if _V2 in formats and not recovery_rules(release).has_producers:
        why = "batches of magic 2, which the release does not know: what it does with them is not simulated"
        return ReleaseStart(release=release, outcome="unknown", why=why)
    return _started(release, disk, _command(disk.start, release))


def _started(release: Release, disk: _Disk, command: str) -> ReleaseStart:
    """Return a start that comes to its end: what is lost or not served, records first."""
    failed = [load.stop for load in disk.coordinators if load.stop is not None]
    skipping = [load for load in disk.coordinators if load.stop is None and load.skipped]
    harmed = [each for each in disk.partitions if each.is_harmed]
    unknown = [each for each in harmed if each.fate == "unknown"]
    whys = []
    if len(harmed) > len(unknown):
        names = ", ".join(each.name for each in harmed if each.fate != "unknown")
        whys.append(f"records of {names} are lost or not served")
    if failed:
        stop = failed[0]
        more = f", and {count_of(len(failed) - 1, 'other partition')}" if len(failed) > 1 else ""
        whys.append(f"the coordinator stops: {stop.record or 'the log'}: {stop.reason}{more}")
    if skipping:
        skipped = sorted({what for load in skipping for what in load.skipped})
        forgotten = sorted({name for load in skipping for name in load.forgotten})
        whys.append(f"the coordinator skips {_some(skipped)} of {_some(forgotten)}")
    if unknown:
        whys.append(f"the load of {', '.join(each.name for each in unknown)} is not simulated")
    first = failed[0] if failed else None
    outcome: Outcome = (
        "harmed" if len(harmed) > len(unknown) or failed or skipping else "unknown" if unknown else "starts"
    )
    where = harmed[0].place.path if harmed else skipping[0].path if skipping else None
    return ReleaseStart(
        release=release,
        outcome=outcome,
        path=where if first is None else first.path,
        offset=None if first is None else first.offset,
        why="; ".join(whys),
        way_out=command if whys else None,
        unserved=len(failed) + len(skipping),
    )


def _some(texts: Sequence[str]) -> str:
    """Return a few texts, and how many others there are."""
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"{', '.join(texts[:_SHOWN])}{more}"


def _way_out(stop: MetadataStop) -> str | None:
    """Return what has to be done with a release that starts, before its last stop."""
    if stop.setting is not None:
        topic, name = stop.setting
        return f"set {name} of topic {topic} to a value that it accepts (kafka-configs.sh), before its first start"
    if stop.feature is None:
        return _BACKUP if stop.offset is not None else None
    feature = stop.feature
    if stop.offset is None:  # bootstrap.checkpoint keeps the level with which the node was formatted
        return None
    if feature.level < feature.lowest:
        return f"raise {feature.name} to {feature.lowest} with an older release first"
    if feature.name == METADATA_VERSION and not can_downgrade(feature.level, feature.highest):
        return _BACKUP
    newer = release_of_level(feature.level) if feature.name == METADATA_VERSION else None
    on = "" if newer is None else f" on {newer}"
    return (
        f"lower {feature.name} to {feature.highest}{on} (kafka-features.sh downgrade), and wait for a snapshot of the "
        "metadata log before its stop"
    )
