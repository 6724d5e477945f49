"""`kafkalog recover`: the least loss by which a broker starts, without recovering anything, in one plan.

Each partition is recovered by itself (`partition`). The text files of the log directory follow, as `kafkalog
checkpoint` repairs them, with the logs as the plan leaves them. Then a start is simulated on every partition that
changes, clean and unclean, and the clean shutdown file is written if nothing would be recovered or refused.

What is read: a healthy log once, by the simulated start as far as a broker would recover it, which the replay follows,
and by the replay. Of a partition that changes, the last segment once more, by the start on the result. A damaged log is
read once for what is lost and for its damaged places, by the start up to the first of them, and once as it will be, by
the start that tries what takes these places and that the replay follows. The check before the clean shutdown file
(`kafkalog verify`) reads the metadata log alone.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.pool import run_all
from kafkalog_core.engine.spool import temporary_directory
from kafkalog_core.engine.targets import LogDirTarget
from kafkalog_core.findings.logs import STARTS_LATER
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.start.disk import effect_of
from kafkalog_core.ops.checkpoint.checkpoint import has_metadata_log, plan_checkpoint
from kafkalog_core.ops.recover.copies import IN_TWO_DIRS, with_copy_to_move
from kafkalog_core.ops.recover.excise import transaction_copies
from kafkalog_core.ops.recover.joined import JoinedStage
from kafkalog_core.ops.recover.partition import RecoveryTask, recover_partition, start_problems
from kafkalog_core.ops.recover.replicas import OtherReplicas
from kafkalog_core.ops.reindex.partition import rules_of_indexes
from kafkalog_core.ops.repair.assumptions import with_options
from kafkalog_core.ops.repair.context import distinct_settings
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.truncate.truncate import stage_lower_offsets, start_rules
from kafkalog_core.ops.verify.engine import log_bytes_in, verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.paths import absolute
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from kafkalog_core.engine.named_dirs import NamedDirs
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.rule_table import LoaderRules
    from kafkalog_core.kafka.rules.setting_table import Setting
    from kafkalog_core.kafka.sim.start.disk import Effect
    from kafkalog_core.ops.recover.partition import Choice, PartitionRecovery
    from kafkalog_core.ops.recover.replicas import KnownReplicas
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["plan_recover"]

_Key = tuple[str, str, str]
_MISSING: Final = "dir.partition-missing"
_LONE_COPY: Final = "dir.future-alone"
"""A broker truncates the copy to nothing. A plan changes files, so the command of the finding renames the directory."""
_OFFLINE: Final = "truncate.broker-offline"
_NOT_AT_END: Final = "recovery-point.not-at-end"
_OF_SEVERAL: Final = frozenset(
    {
        IN_TWO_DIRS,
        "dir.other-cluster",
        "dir.same-directory-id",
        "dir.second-metadata-log",
        "meta.other-node-id",
    }
)
"""What only several log directories together show: the broker starts on none of them."""
_USED: Final = ("index.interval.bytes", "segment.index.bytes", "max.message.bytes")
_LOWERED: Final = (
    FileKind.LOG_START_OFFSET,
    FileKind.RECOVERY_POINT,
    FileKind.HIGH_WATERMARK,
    FileKind.CLEANER_OFFSET,
)


def plan_recover(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog recover`: stage the changes and return the report.

    Options, each optional: `kafka` (of a SettingsRequest), `only_copy`, `refetch` and `as_broker` (at most one is
    true), and `beside` (paths of the broker's other log directories).

    Raises:
        SelectionError: The request names single files.
    """
    scratch = temporary_directory("kafkalog-recover-")
    # The new indexes of a large disk do not fit into memory
    with nullcontext() if scratch is None else scratch as spool:
        return _Planner(request, stage, progress, spool).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress, spool: str | None) -> None:
        self._request = request
        self._stage = stage
        self._progress = progress
        self._target = request.target
        self._context = request.context()
        self._spool = spool
        self._joined = JoinedStage(self._target.root, request.now_ms, spool)
        self._replicas: dict[str, KnownReplicas] = {}
        self._in_two_dirs: dict[str, Finding] = {}
        self._used: list[Setting] = []
        self._log_bytes: dict[str, int] = {}

    def plan(self) -> PlanReport:
        """Stage the changes of all partitions, then those of the log directory, and return the report."""
        self._target.check_no_files("recover works on whole partitions: name a partition directory")
        tasks = list(self._tasks())
        outside = tuple(self._outside_logs())
        rules = rules_of(self._context.release)
        self._log_bytes = {task.path: log_bytes_in(task.path) for task in tasks}
        size_bytes = sum(self._log_bytes.values())
        self._progress.expect(size_bytes)
        work = [(task,) for task in tasks]
        done = list(run_all(recover_partition, work, self._request.jobs, size_bytes, self._progress))
        for each in done:
            self._joined.take(each.changes)
        with self._joined.reading():
            repaired = self._checkpoints(done)
            problems = self._problems(tasks, done, outside)
            marked = self._marked(problems, repaired)
        self._joined.pass_on(self._stage, starts_first=any(each.is_below_start for each in done))
        elsewhere = self._context.assigned_elsewhere
        losses = tuple(loss for each in done for loss in (*each.losses, *each.unread))
        rules_of_plan = _rules_with_search if any(each.is_by_search for each in done) else _rules
        needs_release = bool(self._joined.changes) and not self._context.guess.agree(rules_of_plan)
        refusals = (*(finding for each in done for finding in each.refusals), *(marked or repaired).refusals)
        findings = (
            *(finding for each in done for finding in each.findings),
            *elsewhere.values(),
            *repaired.findings,  # after the same ones, of files that the plan repairs
            *(finding for finding in outside if not _is_wrong(finding, rules)),
        )
        refused = _distinct((*_not_of_releases(refusals, problems), *problems))
        return PlanReport(
            findings=tuple(_distinct(findings, but=refused).values()),
            refusals=tuple(refused.values()),
            losses=losses,
            settings=distinct_settings(self._used) if tasks else (),
            release=self._context.guess if tasks else None,
            needs_release=needs_release,
            details=repaired.details,
            note=None if marked is None else marked.note,
            undecided=self._undecided(done, needs_release=needs_release),
            verdict=self._verdict(done, outside, problems),
        )

    # --- partitions ---------------------------------------------------------------------------------------------------
    def _tasks(self) -> Iterator[RecoveryTask]:
        replicas = OtherReplicas(self._context)
        transaction_logs = tuple(each.place.path for each in transaction_copies(self._request))
        for place in self._target.partitions:
            # LogManager deletes `-delete` directories soon after a start (file.delete.delay.ms).
            if place.name.state is DirectoryState.DELETE:
                continue
            known = self._replicas[place.path] = replicas.of(place)
            facts = self._context.facts(place.name, as_loaded=True)
            self._used += [setting for setting in facts.settings.settings if setting.name in _USED]
            yield RecoveryTask(
                root=self._target.root,
                spool=self._spool,
                path=place.path,
                facts=facts,
                choice=self._choice(place, known),
                replicas=known,
                transaction_logs=transaction_logs,
            )

    def _choice(self, place: PartitionPath, known: KnownReplicas) -> Choice:
        options = self._request.options
        if options.get("as_broker") or place.name.topic == METADATA_TOPIC:
            return "as-broker"
        if options.get("only_copy") or known.is_single:
            return "only-copy"
        # Unknown: the plan that loses nothing in either case of a single copy is shown, and not applied
        return "refetch" if options.get("refetch") or known.kind == "elsewhere" else "only-copy"

    def _undecided(self, done: Iterable[PartitionRecovery], *, needs_release: bool) -> Refusal | None:
        """Return why the plan is not applied yet: it matters whether other replicas exist, and nothing shows it.

        needs_release: whether the plan waits for the release too, so that one command line answers both.
        """
        options = self._request.options
        if any(options.get(name) for name in ("only_copy", "refetch", "as_broker")):
            return None
        names = [
            each.path.rpartition("/")[2]
            for each in done
            if each.is_damaged and self._replicas[each.path].kind == "unknown"
        ]
        if not names:
            return None
        line, release = self._request.command_line, ("--kafka VERSION",) if needs_release else ()
        elsewhere = WayOut(
            "the metadata log is in another log directory: name that too", with_options(line, "METADATA_LOG_DIR")
        )
        # Outside of a log directory nothing shows of which broker or cluster the partition is
        is_in_log_dir = self._context.broker_dir is not None
        return Refusal(
            f"it is unknown whether other replicas of {first_of(names)} are in sync: no metadata log shows it",
            (
                WayOut(
                    "this is the only copy: keep everything that can be read",
                    with_options(line, "--only-copy", *release),
                ),
                WayOut(
                    "another replica has the records: truncate at the damage, and fetch them from it",
                    with_options(line, "--refetch", *release),
                ),
                *([elsewhere] if is_in_log_dir else []),
            ),
        )

    # --- the log directory --------------------------------------------------------------------------------------------
    def _checkpoints(self, done: Sequence[PartitionRecovery]) -> PlanReport:
        """Repair the text files as they contradict the logs that the plan leaves."""
        broker_dir = self._context.broker_dir
        if broker_dir is not None and not self._target.is_whole:
            names = {place.path: place.name for place in self._target.partitions}
            ends = {
                (names[each.path].topic, names[each.path].partition): each.end_offset
                for each in done
                if each.end_offset is not None and broker_dir.is_served(names[each.path])
            }
            for kind in _LOWERED if ends else ():
                stage_lower_offsets(broker_dir, kind, ends, self._joined)
        return plan_checkpoint(self._checkpoint_request(marks=False), self._joined, self._progress)

    def _problems(
        self, tasks: list[RecoveryTask], done: Iterable[PartitionRecovery], outside: Iterable[Finding]
    ) -> tuple[Finding, ...]:
        """Return why a broker would not start on what the plan leaves, or would still lose something.

        outside: the same of the files outside of the logs as they are. Where nothing is wrong with any, they are not
        checked again: the plan writes only what a broker accepts.
        """
        changed = {change.path.rpartition("/")[0] for change in self._joined.changes}
        # A log of one segment is recovered from no producers, whatever the snapshots: as when the plan was made
        changed -= {each.path for each in done if each.is_recovered and len(read_partition(each.path).segments) == 1}
        # Read again: with the offsets that the plan leaves
        context = self._request.context()
        names = {place.path: place.name for place in self._target.partitions}
        work = [(task.path, context.facts(names[task.path], as_loaded=True), task.path in changed) for task in tasks]
        size_bytes = sum(self._log_bytes[path] for path in changed & names.keys())
        found = run_all(start_problems, work, self._request.jobs, size_bytes, self._progress)
        rules = rules_of(self._context.release)
        is_wrong = any(_is_wrong(finding, rules) for finding in outside)
        left = (each for each in (self._outside_logs() if is_wrong else ()) if _is_wrong(each, rules))
        return (*(finding for each in found for finding in each), *left)

    def _outside_logs(self) -> Iterator[Finding]:
        """Yield the findings about files outside of the logs because of which a broker does not start, or not whole.

        And those about partitions that have no directory. Of the logs only that of the metadata is read.
        """
        log_dir = self._target.log_dir
        if log_dir is None or not self._target.is_whole:
            return
        named_dirs = self._target.named_dirs
        # Listed again: the plan may create a file whose absence a listing reports
        listed = read_log_dir(log_dir.path)
        own = LogDirTarget(log_dir=listed, partitions=self._target.partitions, is_whole=True, named_dirs=named_dirs)
        here = absolute(log_dir.path)
        request = VerifyRequest(
            # Of the others only what they show together with this one, so none of their logs. In the order in which
            # they were named, whichever is planned: of two copies, every plan then names the same one to move away.
            targets=tuple(
                own if path == here else _beside(path, named_dirs) for path in dict.fromkeys((*named_dirs.paths, here))
            ),
            now_ms=self._request.now_ms,
            level="files",
            jobs=self._request.jobs,
            kafka=replace(self._context.request, kafka=str(self._context.release)),
        )
        rules = rules_of(self._context.release)
        for verdict in verify(request, self._progress):
            for finding in verdict.findings:
                is_own = f"{absolute(finding.path)}/".startswith(f"{self._target.root}/")
                counts = finding.code == _MISSING or _is_wrong(finding, rules)
                if (is_own or finding.code in _OF_SEVERAL) and counts:
                    yield self._compared(finding) if finding.code == IN_TWO_DIRS else finding

    def _compared(self, finding: Finding) -> Finding:
        """Return the finding with the copy that makes way: both are compared once, as they are without the plan."""
        known = self._in_two_dirs.get(finding.path)
        if known is None:
            known = self._in_two_dirs[finding.path] = with_copy_to_move(finding, self._target.named_dirs.paths)
        return known

    def _marked(self, problems: Sequence[Finding], repaired: PlanReport) -> PlanReport | None:
        """Stage the clean shutdown file, and the checkpoints as a clean shutdown leaves them; None: it is not asked.

        Where the file is there, the checkpoints alone, if recovery points are not at the ends of their logs.
        """
        broker_dir, log_dir = self._context.broker_dir, self._target.log_dir
        is_whole = self._target.is_whole and broker_dir is not None and broker_dir.log_dir.is_broker_dir
        if problems or not is_whole or log_dir is None or self._is_metadata_alone():
            return None
        if log_dir.is_clean and all(each.code != _NOT_AT_END for each in repaired.refusals):
            return None
        return plan_checkpoint(self._checkpoint_request(marks=True), self._joined, self._progress)

    def _is_metadata_alone(self) -> bool:
        """Return whether only the metadata log is here, which KafkaRaftLog recovers at every start, marked or not."""
        return all(place.name.topic == METADATA_TOPIC for place in self._target.partitions)

    def _is_marked(self) -> bool:
        """Return whether the broker finds the clean shutdown file, and recovers nothing but the metadata log."""
        log_dir = self._target.log_dir
        if self._is_metadata_alone():
            return False
        made = any(change.path.endswith(".kafka_cleanshutdown") for change in self._joined.changes)
        return made or (log_dir is not None and log_dir.is_clean)

    def _with_effect(self, findings: Iterable[Finding], *effects: Effect) -> list[str]:
        rules = rules_of(self._context.release)
        return [finding.path for finding in findings if effect_of(finding, rules) in effects]

    def _verdict(
        self, done: Sequence[PartitionRecovery], outside: Sequence[Finding], problems: Sequence[Finding]
    ) -> str:
        """Return what a broker would lose by itself, and what the plan loses, in one sentence without a full stop.

        Args:
            done: the partitions.
            outside: about files outside of the logs, because of which a broker does not do all, and lost directories.
            problems: what the plan does not repair.
        """
        own = [loss for each in done for loss in each.own_losses]
        losses = [loss for each in done for loss in each.losses]
        unread = [loss for each in done for loss in each.unread]
        causes = self._with_effect(outside, "stops", "offline")
        causes += [each.path for each in done if each.own_problem is not None]
        stops = self._with_effect(outside, "stops")
        stops += [each.path for each in done if each.own_problem not in {None, _OFFLINE}]
        if causes:
            names = [*map(self._short, dict.fromkeys(stops or causes))]
            others = [each.path for each in self._context.related_dirs if each.is_same_broker]
            # LogManager.handleLogDirFailure, ReplicaManager.handleLogDirFailure
            is_left = not stops and len(others) > 1 and not has_metadata_log(self._target.partitions)
            does = "takes this log directory offline" if is_left else "does not start"
            alone = f"by itself the broker {does}, because of {first_of(names)}"
        elif own:
            alone = f"by itself the broker would delete {_counted(own)}"
        else:
            alone = "by itself the broker would delete no record that can be read"
        hidden = sum(each.hides_end for each in done)
        if hidden and not causes:
            alone += f", and hide the end of {count_of(hidden, 'log')}, whose offsets it assigns again"
        alone += "" if causes else self._beyond_logs(outside)
        then = f"this plan deletes {_counted(losses)}" if losses else "this plan deletes none"
        fetched = sum(finding.code == "recover.refetched" for each in done for finding in each.findings)
        if fetched:
            then += f", and truncates {count_of(fetched, 'log')} at damage, so that the broker fetches the rest again"
        if unread:
            then += f", and excises {count_of(len(unread), 'place')} that cannot be read ({_counted(unread)})"
        if not self._joined.changes and not problems:
            then = "nothing has to be recovered"
        if any(finding.code == _MISSING for finding in outside):
            alone += ", and create empty partitions in the place of directories that are missing"
            then = "nothing of them can be recovered here" if not self._joined.changes else then
        if problems:
            paths = dict.fromkeys(self._short(finding.path) for finding in problems)
            # A partition that is not kept is one place, whatever else is wrong with its files
            places = [path for path in paths if path.rpartition("/")[0] not in paths]
            left = f"{_places(len(places))} left that a person has to repair first: {first_of(places)}"
            return f"{alone}; {then}, but {left}"
        if not self._is_marked():
            return f"{alone}; {then}"
        is_kraft = has_metadata_log(self._target.partitions)
        starts = "recovers only the metadata log when it starts" if is_kraft else "starts without recovery"
        return f"{alone}; {then}, and the broker {starts}"

    def _beyond_logs(self, outside: Sequence[Finding]) -> str:
        """Return what a broker that starts makes of whole directories, as clauses of a sentence."""
        strays = self._with_effect(outside, "stray")
        copies = [self._short(each.path) for each in outside if each.code == _LONE_COPY]
        stray = f", and serve nothing of {count_of(len(strays), 'partition')} that it renames to -stray"
        return (stray if strays else "") + (f", and truncate {first_of(copies)} to nothing" if copies else "")

    def _short(self, path: str) -> str:
        return path.removeprefix(f"{self._target.root}/")

    def _checkpoint_request(self, *, marks: bool) -> PlanRequest:
        options = self._request.options
        given = {
            "kafka": options.get("kafka"),
            "beside": options.get("beside"),
            "mark_clean": marks,
            "is_recovered": True,
        }
        return replace(self._request, options=given)


def _beside(path: str, named_dirs: NamedDirs) -> LogDirTarget:
    return LogDirTarget(log_dir=read_log_dir(path), partitions=(), is_whole=False, named_dirs=named_dirs)


def _places(count: int) -> str:
    return f"{count_of(count, 'place')} {'is' if count == 1 else 'are'}"


def _counted(losses: Sequence[Loss]) -> str:
    known = [loss.records for loss in losses if loss.records is not None]
    places = count_of(len({(loss.topic, loss.partition) for loss in losses}), "partition")
    if not known:
        return f"records of {places} that cannot be counted"
    total = sum(known)
    # a place without a record that can be counted may have held some
    least = "at least " if len(known) < len(losses) or (total and 0 in known) else ""
    if not total and not least:  # a damaged batch may have held records: nobody can count them
        return f"no record of {places} that can be read"
    return f"{least}{total:,} record{'' if total == 1 else 's'} of {places}"


def _is_wrong(finding: Finding, rules: LoaderRules) -> bool:
    """Return whether a broker does not start, or not whole, or loses records because of a file outside of the logs."""
    is_lost = (finding.code, finding.severity) == (_LONE_COPY, "error")
    return is_lost or effect_of(finding, rules) is not None


def _not_of_releases(refusals: Iterable[Finding], problems: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the refusals of files that are not damaged for each release: of the others, the problem says it all."""
    paths = {problem.path for problem in problems if problem.code in STARTS_LATER.values()}
    return (each for each in refusals if each.path not in paths)


def _distinct(findings: Iterable[Finding], but: Container[_Key] = ()) -> dict[_Key, Finding]:
    """Return the findings by what they say, each once: as a refusal alone where it is one of those."""
    found = {(each.code, each.path, each.message): each for each in findings}
    return {key: finding for key, finding in found.items() if key not in but}


def _rules(release: Release) -> object:
    """Return the rules of a release on which the plan depends."""
    of_start, of_recovery = start_rules(release)
    # How many producers a snapshot may have decides whether a broker starts, which is simulated for one release.
    return replace(of_start, max_snapshot_entries=0), of_recovery, rules_of_indexes(release)


def _rules_with_search(release: Release) -> object:
    """Return the same for a plan that excises messages because of how the release looks for an offset."""
    return _rules(release), rules_of(release).search
