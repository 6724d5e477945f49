"""`kafkalog impact`: what a plan, the choice of a replica or the next start means for the groups of consumers.

Where groups are is read from the partitions of `__consumer_offsets` on the same disks. These change too: a start that
truncates one of them loses commits, and a group goes on at an older one.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError, SelectionError, StorageError
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.copies import check_one_cluster, copies_on_disk
from kafkalog_core.kafka.sim.group_states import read_groups
from kafkalog_core.ops.groups.groups import absent_groups, offset_expiries
from kafkalog_core.ops.groups.request import GroupsRequest
from kafkalog_core.ops.impact.counting import Counted, count_records
from kafkalog_core.ops.impact.logs import Log, Logs, logs_of, read_logs
from kafkalog_core.ops.impact.outcomes import EFFECTS, Commit, Impact, bounds_of, impact_on, with_expiry
from kafkalog_core.ops.impact.planned import copied, planned_dir
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.structs import Struct, replace
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC, GroupOffsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.sim.evidence import ReleaseGuess
    from kafkalog_core.ops.planners import StoredPlan
    from kafkalog_core.progress import Progress

__all__ = ["ImpactRequest", "Impacts", "find_impacts", "reset_lines"]

Isolation = Literal["read_uncommitted", "read_committed"]


class ImpactRequest(Struct, frozen=True, kw_only=True):
    """What to compare.

    Args:
        targets: the disks as they are.
        plans: plans for log directories among them; empty: none.
        replica: disks with the copies that are to be used in their place; empty: none.
        kafka: release and settings.
        now_ms: the time that counts as now, in milliseconds since 1970.
        groups: the groups; empty: all of them.
        isolation: what consumers get.
        jobs: number of processes that plan.
    """

    targets: tuple[Target, ...]
    plans: tuple[StoredPlan, ...] = ()
    replica: tuple[Target, ...] = ()
    kafka: SettingsRequest = SettingsRequest()
    now_ms: int = 0
    groups: tuple[str, ...] = ()
    isolation: Isolation = "read_uncommitted"
    jobs: int = 1


class Impacts(Struct, frozen=True, kw_only=True):
    """The result.

    Args:
        impacts: for each group and partition, those that ask for a decision first.
        cause: what changes the logs, a noun phrase.
        guess: the release by whose rules a start was simulated; None: none was.
        problems: places that cannot be read, where commits may be missing: a sentence each.
        doubts: why the broker may not start at all: a sentence each.
        clock: by which release, setting and time offsets expire; None: unknown.
    """

    impacts: tuple[Impact, ...]
    cause: str
    guess: ReleaseGuess | None = None
    problems: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    clock: str | None = None

    @property
    def expired(self) -> tuple[Impact, ...]:
        """Those whose offset the coordinator deletes at its next check."""
        return tuple(each for each in self.impacts if each.is_expired)

    def chunks(self) -> Iterator[RowChunk]:
        """Yield the rows."""
        yield RowChunk(tables.IMPACT, [each.row() for each in self.impacts])


def find_impacts(request: ImpactRequest, progress: Progress = NO_PROGRESS) -> Impacts:
    """Return what changes for each group.

    Raises StorageError, SettingError, SelectionError for a group that is not there, and RefusedError without committed
    offsets and for the disks of two clusters.
    """
    brokers = copies_on_disk([*request.targets, *request.replica]).brokers
    check_one_cluster(brokers, "kafkalog impact", "whose groups must not be mixed")
    with ExitStack() as stack:
        return _Comparison(request, progress, stack).impacts()


def reset_lines(impacts: Sequence[Impact]) -> Iterator[tuple[str, ...]]:
    """Yield the fields of the CSV that puts each group where it should be, for those for which something changes.

    In the form of `kafka-consumer-groups.sh --reset-offsets --from-file`: the tool takes topic, partition and offset
    where one group is named, and the group in front of them where there are several (`ConsumerGroupCommand`).
    """
    rows = [each for each in impacts if each.is_reset_needed]
    has_groups = len({each.commit.group for each in rows}) > 1
    for each in sorted(rows, key=lambda impact: (impact.commit.group, impact.commit.place)):
        topic, partition = each.commit.place
        fields = (topic, str(partition), str(each.reset_offset))
        yield (each.commit.group, *fields) if has_groups else fields


class _Comparison:
    """The logs before and after, and the offsets that groups committed in both."""

    def __init__(self, request: ImpactRequest, progress: Progress, stack: ExitStack) -> None:
        self._request = request
        self._progress = progress
        self._stack = stack
        self._problems: list[str] = []
        self._now = read_logs(request.targets, request.kafka, request.now_ms, progress.advance)
        replica = request.replica
        self._replica = read_logs(replica, request.kafka, request.now_ms, progress.advance) if replica else []
        places = {place for logs in (*self._now, *self._replica) for place in logs.places}
        self._offset_places = sorted(place for place in places if place[0] == OFFSETS_TOPIC)
        if not self._offset_places:  # asked first: a plan of a large disk takes minutes
            raise RefusedError(_no_offsets(request))
        self._planned = {plan.root: self._plan(plan) for plan in request.plans}

    def _plan(self, plan: StoredPlan) -> Logs:
        """Return the logs that a plan would leave."""
        state = self._stack.enter_context(planned_dir(plan, self._request.jobs, self._progress))
        target = replace(target_dirs(resolve([state.root]))[0], named_dirs=NamedDirs(plan.named_dirs))
        settings = SettingsRequest.from_json(plan.options.get("kafka"))
        return logs_of(target, settings, plan.now_ms, self._progress.advance, state)

    def impacts(self) -> Impacts:
        """Compare all groups."""
        before, after = self._offsets()
        self._check_groups(before.offsets.keys() | after.offsets.keys())
        commits: dict[TopicPartition, list[Commit]] = {}
        for commit in self._commits(before, after):
            commits.setdefault(commit.place, []).append(commit)
        found = [impact for place in sorted(commits) for impact in self._of_place(place, commits[place])]
        found, clock = self._with_expiries(found)
        found.sort(key=lambda each: (EFFECTS.index(each.effect), each.commit.group, each.commit.place))
        return Impacts(
            impacts=tuple(found),
            cause=self._cause(),
            guess=self._guess(),
            problems=tuple(self._problems),
            doubts=tuple(doubt for logs in self._started for doubt in logs.doubts),
            clock=clock,
        )

    def _check_groups(self, known: Iterable[str]) -> None:
        """Raise SelectionError for a group that has no committed offset."""
        names = sorted(known)
        absent = [name for name in self._request.groups if name not in names]
        if absent:
            disks = copies_on_disk(self._request.targets)
            raise SelectionError(absent_groups("no offset of the group {} is in these logs", absent, names, disks))

    def _with_expiries(self, impacts: list[Impact]) -> tuple[list[Impact], str | None]:
        """Return the impacts with the times at which offsets expire, and by what these are known."""
        request = self._request
        asked = GroupsRequest(
            targets=(*request.targets, *request.replica), now_ms=request.now_ms, kafka=request.kafka, jobs=request.jobs
        )
        try:
            clock, expires = offset_expiries(asked)
        except (SelectionError, StorageError):  # what cannot be read is among the problems
            return impacts, None
        found = []
        for each in impacts:
            commit, left = each.commit, each.commit.after
            # A pending commit may come, so the check leaves the offset alone.
            time_ms = None if left is None or commit.is_pending else expires(commit.group, commit.place[0], left)
            found.append(with_expiry(each, time_ms, request.now_ms))
        return found, clock.note

    # --- logs ---------------------------------------------------------------------------------------------------------
    def _copies(self, place: TopicPartition) -> list[Logs]:
        """Return the disks that have a partition, the copy that a cluster would rather go on with first."""
        found = [logs for logs in self._now if place in logs.places]
        return sorted(found, key=lambda logs: logs.now(place).rank, reverse=True)

    def _both(self, place: TopicPartition) -> tuple[Log, Log] | None:
        """Return a log as it is and as it is afterwards; None: it is on no disk."""
        copies = self._copies(place)
        replicas = [logs for logs in self._replica if place in logs.places]
        if not copies and not replicas:
            return None
        now = copies[0].now(place) if copies else replicas[0].now(place)
        if replicas:
            return now, replicas[0].after_start(place)
        if not self._planned:
            return (now, now) if self._replica else (now, copies[0].after_start(place))
        planned = next((each for logs in copies if (each := self._planned.get(logs.state.origin)) is not None), None)
        if planned is None:
            return now, now
        own = next(logs for logs in copies if logs.state.origin == planned.state.origin).now(place)
        return own, planned.after_start(place) if place in planned.places else own

    # --- committed offsets ----------------------------------------------------------------------------------------
    def _offsets(self) -> tuple[GroupOffsets, GroupOffsets]:
        """Return what groups have committed, as it is and afterwards."""
        before, after = GroupOffsets(), GroupOffsets()
        for place in self._offset_places:
            both = self._both(place)
            if both is None:
                continue
            now, then = both
            found = self._read(now)
            before.absorb(found)
            after.absorb(found if _is_same(now, then) else self._read(then))
        return before, after

    def _read(self, log: Log) -> GroupOffsets:
        """Return what one partition of `__consumer_offsets` holds up to its end."""
        if log.partition is None:
            self._problems.append(f"{log.path}: {log.problem}")
            return GroupOffsets()
        with copied((each.file for each in log.files), os.path.basename(log.path)) as copy:
            states, problems = read_groups([copy])
        self._problems += (text.replace(copy, log.path) for text in problems)
        if log.problem is not None:
            self._problems.append(f"{log.path}: {log.problem}")
        return states.offsets

    def _commits(self, before: GroupOffsets, after: GroupOffsets) -> Iterator[Commit]:
        wanted = self._request.groups
        for group in sorted(before.offsets.keys() | after.offsets.keys()):
            if wanted and group not in wanted:
                continue
            old, new = before.offsets.get(group, {}), after.offsets.get(group, {})
            pending = after.pending_of(group)
            for place in sorted(old.keys() | new.keys()):
                yield Commit(
                    group=group,
                    place=place,
                    before=old.get(place),
                    after=new.get(place),
                    is_pending=place in pending,
                )

    # --- records --------------------------------------------------------------------------------------------------
    def _of_place(self, place: TopicPartition, commits: Sequence[Commit]) -> Iterator[Impact]:
        both = self._both(place)
        if both is None:
            for commit in commits:
                yield Impact(commit=commit, effect="unknown", detail="Its log is not on these disks.")
            return
        now, after = both
        bounds = {bound for commit in commits for bound in bounds_of(commit, now, after)}
        old = self._count(now, bounds)
        new = old if _is_same(now, after) else self._count(after, bounds)
        others = [] if self._replica else [logs.now(place) for logs in self._copies(place)[1:]]
        for commit in commits:
            yield impact_on(commit, now, after, old, new, others)

    def _count(self, log: Log, bounds: set[int]) -> Counted:
        is_committed = self._request.isolation == "read_committed"
        committed = log.committed_view() if is_committed and log.problem is None else None
        return count_records(
            log.files, bounds, end_offset=log.end_offset, committed=committed, advance=self._progress.advance
        )

    # --- what it is about -----------------------------------------------------------------------------------------
    def _cause(self) -> str:
        if self._request.replica:
            return f"the logs of {', '.join(logs.state.origin for logs in self._replica)} in place of these"
        if self._request.plans:
            names = (f"kafkalog {plan.command} in {plan.root}" for plan in self._request.plans)
            return f"{', '.join(names)} and the start of the broker after it"
        return "the next start of the broker"

    @property
    def _started(self) -> list[Logs]:
        """The directories on which a start is simulated."""
        return [*self._planned.values(), *self._replica] or self._now

    def _guess(self) -> ReleaseGuess | None:
        found = Counter(each.guess for each in self._started)
        return found.most_common(1)[0][0] if found else None


def _is_same(now: Log, after: Log) -> bool:
    """Return whether consumers get the same of both."""
    if now is after:
        return True
    files = [
        [(each.file.name.raw, each.file.size_bytes, each.file.inode) for each in log.files] for log in (now, after)
    ]
    return files[0] == files[1] and (now.start_offset, now.end_offset) == (after.start_offset, after.end_offset)


def _no_offsets(request: ImpactRequest) -> Refusal:
    example = " ".join(target.path for target in request.targets[:1])
    return Refusal(
        f"none of these disks has a partition of {OFFSETS_TOPIC}, so that no group's offset is known",
        (WayOut("name the disk that has it too", options="DIR"),) if example else (),
    )
