"""`kafkalog preflight`: simulates one start of a broker on all its log directories.

verify reads everything, and its findings hold what a broker does with each file outside of the logs; each partition is
loaded by the same simulation (`PartitionLoad`) that verify's "a broker:" and `truncate --as-broker` ask. `DiskStart`
decides by both. So there is one simulation, and this module asks it for the whole disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.findings import found
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name
from kafkalog_core.kafka.rules.metadata_rules import cluster_modes
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.cluster import DirectoryOwners
from kafkalog_core.kafka.sim.named_dirs import dirs_of_config, listed_dirs, metadata_dir_of, unformatted_dirs
from kafkalog_core.kafka.sim.start.disk import DiskStart, LoadedPartition
from kafkalog_core.ops.preflight.further import (
    coordinator_findings,
    limit_findings,
    refused_metadata,
)
from kafkalog_core.ops.preflight.metadata_log import MetadataLog
from kafkalog_core.ops.preflight.partition_starts import PartitionStart, total_of, with_findings
from kafkalog_core.ops.preflight.sentences import WAITS_FOR_LOG, log_line_of, verdict_of, what_of, why_of
from kafkalog_core.ops.preflight.start_readers import StartReader, StartReaders
from kafkalog_core.ops.preflight.ways import Ways
from kafkalog_core.ops.repair.context import read_context, target_dirs
from kafkalog_core.ops.verify.engine import log_bytes, verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.locks import lock_holder
from kafkalog_core.storage.paths import absolute, is_directory, real
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.evidence import ReleaseGuess
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.progress import Progress

__all__ = ["Preflight", "PreflightRequest", "preflight"]


class PreflightRequest(Struct, frozen=True, kw_only=True):
    """What to simulate.

    Args:
        targets: the log directories of one broker.
        now_ms: the time that counts as now, in milliseconds since 1970.
        kafka: release and settings of the broker that starts.
        jobs: number of processes that verify the logs.
        clock: returns seconds, to measure how fast the disk is read; None: that is not measured.
        max_map_count: vm.max_map_count of the machine of the broker; None: that of this machine.
        open_files: LimitNOFILE of the broker; None: the limit of this process.
    """

    targets: tuple[Target, ...]
    now_ms: int
    kafka: SettingsRequest = SettingsRequest()
    jobs: int = 1
    clock: Callable[[], float] | None = None
    max_map_count: int | None = None
    open_files: int | None = None


class Preflight(Struct, frozen=True, kw_only=True):
    """The result.

    Args:
        start: what the parts of the disk decide about the whole.
        partitions: each with its start, in the order of the directories.
        guess: the release, with its evidence.
        request: the release and settings that were given.
        findings: about the log directories themselves, and what several of them show together.
        doubts: why the result may be wrong, a sentence each.
        waits: whether a broker with ZooKeeper wrote the log directories, and the release has none.
        further: findings of other checks of the start.
        formats: of the batches in all logs: v0, v1, v2.
        read_bytes: bytes that were read to verify the logs.
        read_ms: how long that took; None: it was not measured.
    """

    start: DiskStart
    partitions: tuple[PartitionStart, ...]
    guess: ReleaseGuess
    request: SettingsRequest = SettingsRequest()
    findings: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
    waits: bool = False
    further: tuple[Finding, ...] = ()
    formats: frozenset[str] = frozenset()
    read_bytes: int = 0
    read_ms: int | None = None

    @property
    def release(self) -> str:
        """The release as text."""
        return str(self.guess.release)

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Paths of the log directories."""
        return tuple(self.start.log_dirs)

    @property
    def ways(self) -> Ways:
        """The commands that avoid what the start does."""
        return Ways(self.log_dirs, self.request)

    @property
    def touched(self) -> tuple[PartitionStart, ...]:
        """The partitions about which there is something to say, those with most lost records first."""
        found = [each for each in self.partitions if each.is_touched]
        return tuple(sorted(found, key=lambda each: (not each.is_harmed, -each.lost_bytes)))

    @property
    def lost_records(self) -> int | None:
        """Records that the start deletes; None: they cannot be counted."""
        return total_of(each.lost_records for each in self.partitions)

    @property
    def lost_committed(self) -> int | None:
        """Those below a checkpointed high watermark; None: unknown."""
        return total_of(each.lost_committed for each in self.partitions)

    @property
    def unserved_records(self) -> int:
        """Records of partitions that the broker does not serve, as far as headers count them."""
        served = {"loaded", "deleted", "set-aside", "unknown"}
        return sum(each.records for each in self.partitions if each.fate not in served)

    @property
    def recovery_bytes(self) -> int:
        """Bytes of log that recovery reads."""
        return sum(each.recovery_bytes for each in self.partitions)

    @property
    def recovery_ms(self) -> int | None:
        """How long recovery takes at the rate at which this run read the disk; None: it was not measured."""
        # of less, the start of the program and of its processes is most of the time, and not the disk
        if not self.read_ms or self.read_bytes < _LEAST_MEASURED:
            return None
        return self.recovery_bytes * self.read_ms // self.read_bytes

    @property
    def is_harmed(self) -> bool:
        """Whether the broker does not start, or a record is lost, hidden or not served."""
        is_warned = any(finding.severity == "error" for finding in self.further) or bool(self.closed or self.emptied)
        is_stopped = self.start.stop is not None or self.waits
        return is_stopped or is_warned or bool(self.renamed) or any(each.is_harmed for each in self.partitions)

    @property
    def is_wrong_afterwards(self) -> bool:
        """Whether damage that the start does not notice remains: consumers meet it later."""
        return any(finding.severity == "error" for each in self.partitions for finding in each.silent)

    @property
    def closed(self) -> int:
        """Number of files and directories that one of the users who own files here may not open."""
        return len({each.path for each in self.findings if each.severity == "error" and each.code in _CLOSED})

    @property
    def missing(self) -> int:
        """Number of log directories without a partition that the metadata log assigns to them."""
        return sum((each.code, each.severity) == ("dir.partition-missing", "warning") for each in self.findings)

    @property
    def renamed(self) -> int:
        """Number of log directories with a directory.id that the node never registered."""
        return sum((each.code, each.severity) == ("meta.other-directory-id", "error") for each in self.findings)

    @property
    def emptied(self) -> int:
        """Number of unfinished copies that are all there is of their partitions."""
        return sum((each.code, each.severity) == ("dir.future-alone", "error") for each in self.findings)

    @property
    def verdict(self) -> str:
        """One sentence without its full stop."""
        if self.waits and self.start.stop is None:
            return f"A {self.release} broker never serves a request: {WAITS_FOR_LOG}"
        return verdict_of(
            self.release,
            self.start,
            self.partitions,
            is_harmed=self.is_harmed or bool(self.missing),
            closed=self.closed,
            missing=self.missing,
            renamed=self.renamed,
            emptied=self.emptied,
        )

    def chunks(self) -> Iterator[RowChunk]:
        """Yield the rows."""
        yield RowChunk(tables.PREFLIGHT, [self._row()])
        yield RowChunk(tables.START_EVENT, [*self._event_rows()])
        yield RowChunk(tables.PARTITION_START, [_partition_row(each, self.ways) for each in self.touched])
        yield RowChunk(tables.LOSS, [loss.row() for each in self.touched for loss in each.losses])
        yield RowChunk(tables.START_STEP, [row for each in self.partitions for row in _step_rows(each)])
        yield RowChunk(tables.FINDING, [finding.row() for finding in self.all_findings])

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The findings about the directories, of other checks, and about what is wrong after the start."""
        silent = (finding for each in self.touched for finding in each.silent)
        return (*self.findings, *self.further, *silent)

    def _row(self) -> dict[str, object]:
        stop = self.start.stop
        return {
            "verdict": f"{self.verdict}.",
            "release": self.release,
            "release_evidence": "\n".join(self.guess.evidence) or None,
            "is_release_certain": self.guess.is_certain,
            "starts": stop is None,
            "stopped_by": None if stop is None else stop.path,
            "offline": "\n".join(self.start.offline) or None,
            "partitions": len(self.partitions),
            "touched": len(self.touched),
            "lost_records": self.lost_records,
            "lost_committed_records": self.lost_committed,
            "lost_bytes": sum(each.lost_bytes for each in self.partitions),
            "unserved_records": self.unserved_records,
            "recovery_bytes": self.recovery_bytes,
            "read_bytes": self.read_bytes,
            "read_ms": self.read_ms,
            "recovery_ms": self.recovery_ms,
        }

    def _event_rows(self) -> Iterator[dict[str, object]]:
        for event in self.start.events:
            finding = event.finding
            yield {
                "effect": event.effect,
                "log_dir": event.log_dir,
                "file": event.path,
                "position": event.position,
                "sentence": event.sentence,
                "code": None if finding is None else finding.code,
                "log_line": log_line_of(event, self.start),
                "next_command": self.ways.of_event(event),
            }


def _partition_row(start: PartitionStart, ways: Ways) -> dict[str, object]:
    result = start.result
    is_loaded = result is not None and result.problem is None
    name = start.place.name
    return {
        "topic": name.topic,
        "partition": name.partition,
        "path": start.place.path,
        "fate": start.fate,
        "what": what_of(start),
        "why": why_of(start) or None,
        "log_start_offset": result.log_start_offset if is_loaded and result is not None else None,
        "log_end_offset": result.end_offset if is_loaded and result is not None else None,
        "lost_records": start.lost_records,
        "lost_committed_records": start.lost_committed,
        "lost_bytes": start.lost_bytes,
        "hidden_offsets": start.hidden_offsets,
        "silent": len(start.silent),
        "recovery_bytes": start.recovery_bytes,
        "next_command": ways.of_partition(start),
    }


def _step_rows(start: PartitionStart) -> Iterator[dict[str, object]]:
    name = start.place.name
    for step in start.steps:
        yield {
            "topic": name.topic,
            "partition": name.partition,
            "file": step.path,
            "step": step.kind,
            "position": step.position,
            "offset": step.offset,
            "bytes": step.size_bytes,
            "reason": step.reason,
            "why": step.why or None,
        }


# --- the run ----------------------------------------------------------------------------------------------------------
def preflight(request: PreflightRequest, progress: Progress = NO_PROGRESS) -> Preflight:
    """Simulate the start. Nothing is written.

    Raises StorageError, SettingError, SelectionError for what is not a whole log directory, and RefusedError for the
    log directories of several brokers.
    """
    directories = target_dirs(request.targets)
    _check_whole(directories)
    _check_one_broker(directories)
    contexts = _of_one_release([read_context(each, request.kafka, request.now_ms) for each in directories])
    release = contexts[0].release
    refused = {each.root: refused_metadata(each.partitions, release) for each in directories}
    if any(each.settings for each in refused.values()):
        return _of_refused(contexts, {root: each.settings for root, each in refused.items()})
    readers = StartReaders(
        {
            place.path: StartReader(place, context.target.root, context.facts(place.name, as_loaded=True))
            for context in contexts
            for place in context.target.partitions
        }
    )
    reader = _Reader(request, progress)
    reader.read(readers)
    findings = {
        context.target.root: (
            *_with_strays(reader.findings_of(context.target.root), context),
            *refused[context.target.root].others,
        )
        for context in contexts
    }
    for path, each in _of_config(contexts).items():
        findings[path] = (*findings.get(path, ()), *each)
    loaded = readers.starts()
    start = DiskStart(
        log_dirs=findings,
        partitions=tuple(
            LoadedPartition(place=each.place, log_dir=each.log_dir, result=each.result) for each in loaded
        ),
        rules=rules_of(release),
    )
    metadata = MetadataLog(contexts)
    partitions = tuple(
        reader.finished(replace(each, fate=metadata.fate(part, start.fate(part))))
        for each, part in zip(loaded, start.partitions, strict=True)
    )
    return Preflight(
        start=start,
        partitions=partitions,
        guess=contexts[0].guess,
        request=request.kafka,
        findings=tuple(finding for each in findings.values() for finding in each if _is_shown(finding)),
        waits=not cluster_modes(release).has_zookeeper and any(_of_zookeeper(each) for each in contexts),
        doubts=(*_doubts(contexts), *metadata.doubts(_codes(findings.values())), *_by_order(partitions)),
        further=(
            *coordinator_findings(partitions, release),
            *limit_findings(
                partitions,
                release,
                contexts[0].settings,
                max_map_count=request.max_map_count,
                open_files=request.open_files,
            ),
        ),
        formats=reader.formats,
        read_bytes=reader.read_bytes,
        read_ms=reader.read_ms,
    )


def _of_refused(contexts: Sequence[DirContext], findings: Mapping[str, tuple[Finding, ...]]) -> Preflight:
    """Return a start that ends at a setting before it loads a log: without valid settings no load is simulated."""
    pairs = [(context.target.root, place) for context in contexts for place in context.target.partitions]
    parts = tuple(LoadedPartition(place=place, log_dir=root, result=None) for root, place in pairs)
    start = DiskStart(log_dirs=findings, partitions=parts, rules=rules_of(contexts[0].release))
    return Preflight(
        start=start,
        partitions=tuple(
            PartitionStart(place=part.place, log_dir=part.log_dir, result=None, fate=start.fate(part)) for part in parts
        ),
        guess=contexts[0].guess,
        request=contexts[0].request,
        findings=tuple(finding for each in findings.values() for finding in each),
        doubts=tuple(_doubts(contexts)),
    )


class _Reader:
    """Verifies the directories, and keeps what the start needs of it."""

    def __init__(self, request: PreflightRequest, progress: Progress) -> None:
        self._request = request
        self._progress = progress
        self._verdicts: dict[str, PartitionVerdict] = {}
        self._findings: list[Finding] = []
        self.formats: frozenset[str] = frozenset()
        self.read_bytes = 0
        self.read_ms: int | None = None

    def read(self, readers: StartReaders) -> None:
        """Read everything once, with checksums; records are not decoded, as no start decodes them."""
        request, clock = self._request, self._request.clock
        check = VerifyRequest(
            targets=request.targets,
            now_ms=request.now_ms,
            level="checksums",
            jobs=request.jobs,
            kafka=request.kafka,
        )
        self._progress.expect(log_bytes(request.targets))
        before = None if clock is None else clock()
        for each in verify(check, self._progress, readers=readers):
            # the directories of a plan are absolute
            verdict = replace(each, path=absolute(each.path), findings=tuple(map(_absolute, each.findings)))
            self._findings += verdict.findings
            if isinstance(verdict, PartitionVerdict):
                self._verdicts[verdict.path] = verdict
                self.formats |= {each for segment in verdict.segments for each in segment.formats}
                self.read_bytes += sum(segment.size_bytes for segment in verdict.segments)
        if clock is not None and before is not None:
            self.read_ms = int((clock() - before) * 1000)

    def findings_of(self, log_dir: str) -> Iterator[Finding]:
        """Yield the findings about the files of a log directory, those of its partitions included."""
        for finding in self._findings:
            if finding.path == log_dir or finding.path.startswith(f"{log_dir}/"):
                yield finding

    def finished(self, start: PartitionStart) -> PartitionStart:
        """Return the start of a partition with what verify found in it."""
        verdict = self._verdicts.get(start.place.path)
        if verdict is None:
            return start
        last = verdict.segments[-1].last_offset if verdict.segments else None
        records = sum(segment.records for segment in verdict.segments)
        return with_findings(replace(start, records=records, last_offset=last), verdict.findings)


def _absolute(finding: Finding) -> Finding:
    return replace(finding, path=absolute(finding.path))


_INTERVAL: Final = "index.interval.bytes"
_LEAST_MEASURED: Final = 64 << 20
"""Bytes of logs of which the time to read them shows how fast the disk is."""
_CLOSED: Final = frozenset({"file.no-access", "file.unreadable", "dir.foreign-owner", "dir.no-permission"})
"""Findings about what a broker may be unable to open, by the user that it runs as, which no file names."""
_SHOWN_SUBJECTS: Final = frozenset(
    {"dir", "meta", "checkpoint", "quorum-state", "metadata-log", "partition-metadata", "file"}
)


def _is_shown(finding: Finding) -> bool:
    """Return whether a finding is about the files outside of logs, and more than normal."""
    return finding.severity != "info" and finding.code.partition(".")[0] in _SHOWN_SUBJECTS


def _check_whole(directories: Sequence[TargetDir]) -> None:
    for each in directories:
        if each.log_dir is None or not each.is_whole:
            raise SelectionError(
                "preflight simulates the start of a broker: name its log directories, and not parts of them",
                path=each.root,
            )


def _of_one_release(contexts: Sequence[DirContext]) -> list[DirContext]:
    """Return the contexts with the one release of the broker: that of the directory that shows most of it."""
    best = min((context.guess for context in contexts), key=lambda guess: len(guess.candidates))
    return [replace(context, guess=best) for context in contexts]


def _of_config(contexts: Sequence[DirContext]) -> dict[str, tuple[Finding, ...]]:
    """Return the findings about log directories that only a server.properties shows, by path.

    A KRaft broker does not start with one that is empty or missing (`MetaPropertiesEnsemble.verify`).
    """
    first = contexts[0]
    is_kraft = any(each.broker_dir is not None and each.broker_dir.is_kraft for each in contexts)
    named = {real(each.target.root) for each in contexts}
    if first.request.config is None or not is_kraft or _is_elsewhere(contexts):
        return {}
    paths = [path for path in unformatted_dirs(first.settings.server) if real(path) not in named]
    name = fixed_file_name(FileKind.META_PROPERTIES)
    missing: dict[str, tuple[Finding, ...]] = {
        path: (found("meta.missing-kraft", f"{path}/{name}", severity="error"),) for path in paths
    }
    expected = metadata_dir_of(first.settings.server)
    if expected is None or first.settings.server.get("process.roles") is None:
        return missing
    # `KafkaRaftServer.initializeLogDirs`: an unexpected metadata log ends the process
    logs = [(each.target.root, f"{each.target.root}/{METADATA_TOPIC}-0") for each in contexts]
    wrong = {root: log for root, log in logs if is_directory(log) and real(root) != real(expected)}
    elsewhere = {root: (found("dir.metadata-elsewhere", log, expected=expected),) for root, log in wrong.items()}
    return missing | elsewhere


def _of_zookeeper(context: DirContext) -> bool:
    """Return whether a broker with ZooKeeper wrote a log directory."""
    of_broker = context.broker_dir
    if of_broker is None or of_broker.is_kraft or of_broker.meta is None:
        return False
    return not of_broker.meta.is_refused and of_broker.meta.contents.get("broker.id") is not None


def _is_elsewhere(contexts: Sequence[DirContext]) -> bool:
    """Return whether a server.properties names log directories, but none of those here: disks or copies elsewhere."""
    listed = {real(path) for path in listed_dirs(contexts[0].settings.server)}
    return bool(listed) and listed.isdisjoint(real(each.target.root) for each in contexts)


def _with_strays(findings: Iterable[Finding], context: DirContext) -> Iterator[Finding]:
    """Yield findings, and what is assigned elsewhere; verify does not ask the metadata log about empty directories."""
    known = set()
    for finding in findings:
        known.add((finding.code, finding.path))
        yield finding
    for finding in context.assigned_elsewhere.values():
        if (finding.code, finding.path) not in known:
            yield finding


def _check_one_broker(directories: Sequence[TargetDir]) -> None:
    owners = DirectoryOwners((each.root for each in directories), directories[0].named_dirs if directories else None)
    nodes: dict[str, list[str]] = {}
    for each in directories:
        node = owners.node_of(each.root)
        if node is not None:
            nodes.setdefault(node, []).append(each.root)
    if len(nodes) > 1:
        ways = tuple(
            WayOut(f"simulate node {node} alone", f"kafkalog preflight {' '.join(map(shell_path, paths))}")
            for node, paths in nodes.items()
        )
        reason = f"these log directories are of {len(nodes)} brokers (nodes {', '.join(nodes)}), which start one by one"
        raise RefusedError(Refusal(reason, ways))


def _codes(of_dirs: Iterable[Iterable[Finding]]) -> set[str]:
    return {each.code for of_dir in of_dirs for each in of_dir}


def _by_order(partitions: Iterable[PartitionStart]) -> Iterator[str]:
    """Yield what is not known because offsets go back in a log."""
    for each in partitions:
        if each.has_disorder_of_metadata:
            yield f"offsets go back in {each.place.path}, and whether a node gets past such records is not simulated"
        if any(_INTERVAL in (finding.broker_action or "") for finding in each.silent):
            yield (
                f"{each.name}: whether a segment whose offsets go back is emptied depends on {_INTERVAL}, which is "
                f"assumed: --topic-config {each.place.name.topic}:{_INTERVAL}=N settles it"
            )


def _doubts(contexts: Sequence[DirContext]) -> Iterator[str]:
    server = contexts[0].settings.server
    named = {real(context.target.root) for context in contexts}
    if contexts[0].request.config is not None and _is_elsewhere(contexts):
        listed = first_of(list(dict.fromkeys(listed_dirs(server))))
        yield f"the server.properties names {listed}: what is named here is taken for all of that"
    else:
        for path in () if contexts[0].request.config is None else dirs_of_config(server):
            if real(path) not in named:
                yield f"{path}: the server.properties names this log directory too: name it here"
    for context in contexts:
        holder = lock_holder(context.target.root)
        if holder is not None:
            yield (
                f"{context.target.root}: {holder.sentence} holds the lock: what is read may change, and a second "
                "broker does not start"
            )
        if context.target.log_dir is not None and not context.target.log_dir.is_broker_dir:
            yield f"{context.target.root}: nothing shows that a broker used this directory"
