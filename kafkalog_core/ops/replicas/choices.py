"""What the choice of a copy costs the groups of consumers, by their commits on the same disks.

It is counted as `kafkalog impact` counts: what a group has not read and would not get, or reads again, if the cluster
goes on with one copy in place of another one. Every copy counts as it is on its disk: `kafkalog impact DIR` shows what
the start of its broker changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.sim.copies import best_of, copies_on_disk
from kafkalog_core.kafka.sim.group_states import read_groups
from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.ops.impact.counting import count_records
from kafkalog_core.ops.impact.logs import Log
from kafkalog_core.ops.impact.outcomes import Commit, bounds_of, impact_on
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct
from kafkalog_core.topics.group_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.sim.logdir.leader_epochs import History
    from kafkalog_core.ops.impact.outcomes import Impact

__all__ = ["CopyChoice", "GroupCosts", "PartitionChoice", "group_costs"]

_Result = TypeVar("_Result")
_NOWHERE: Final = f"no partition of {OFFSETS_TOPIC} is in these directories; name the disks that have it too"


class TaskRunner(Protocol):
    """Does tasks in this process or others, and returns their results in order."""

    def __call__(
        self, work_of: Callable[..., _Result], tasks: Sequence[tuple[object, ...]], size_bytes: int
    ) -> Iterator[_Result]:
        """Return `work_of(*task, advance)` for each task, which together read that many bytes."""


class CopyChoice(Struct, frozen=True, kw_only=True):
    """A copy that a cluster may go on with; `only_here`: records that no other copy has."""

    path: str
    log_start: int
    history: History
    only_here: int


class PartitionChoice(Struct, frozen=True, kw_only=True):
    """The copies of a partition that differ; `keep`: the number of the one to keep, None: unknown."""

    place: TopicPartition
    copies: tuple[CopyChoice, ...]
    keep: int | None

    def in_place_of(self, number: int) -> CopyChoice:
        """Return the copy that is given up for this one: that to keep, or of the others the one with most to lose."""
        if self.keep is not None and number != self.keep:
            return self.copies[self.keep]
        others = (copy for other, copy in enumerate(self.copies) if other != number)
        return max(others, key=lambda copy: (copy.only_here, copy.history.end_offset))


class GroupCosts(Struct, frozen=True, kw_only=True):
    """What each choice costs each group: a row `impact` each, whose path is that of the chosen copy.

    `problems`: why commits may be missing, a clause each.
    """

    impacts: tuple[Impact, ...] = ()
    problems: tuple[str, ...] = ()

    def chunks(self) -> Iterator[RowChunk]:
        """Yield the rows."""
        if self.impacts:
            yield RowChunk(tables.IMPACT, [each.row() for each in self.impacts])


def group_costs(
    choices: Sequence[PartitionChoice], log_dirs: Iterable[str], max_batch_bytes: int, run: TaskRunner
) -> GroupCosts:
    """Return what each choice costs the groups that have commits of these partitions.

    Args:
        choices: the partitions, at least one.
        log_dirs: paths of the log directories among which the partitions of `__consumer_offsets` are.
        max_batch_bytes: larger batches are damage.
        run: does the work.
    """
    paths, problems = _offset_logs(log_dirs)
    if not paths:
        return GroupCosts(problems=tuple(problems or [_NOWHERE]))
    places = frozenset(choice.place for choice in choices)
    commits: dict[TopicPartition, list[Commit]] = {}
    readings = [(path, places, max_batch_bytes) for path, _ in paths]
    for found, of_log in run(read_commits, readings, sum(size_bytes for _, size_bytes in paths)):
        problems += of_log
        for commit in found:
            commits.setdefault(commit.place, []).append(commit)
    tasks = [(choice, tuple(commits[choice.place])) for choice in choices if choice.place in commits]
    impacts = tuple(impact for some in run(costs_of, tasks, 0) for impact in some)
    return GroupCosts(impacts=impacts, problems=tuple(problems))


def _offset_logs(log_dirs: Iterable[str]) -> tuple[list[tuple[str, int]], list[str]]:
    """Return path and size of each partition of `__consumer_offsets`, the best copy; and what cannot be read."""
    problems: list[str] = []
    try:
        targets = resolve(list(log_dirs), Selection(topics=(OFFSETS_TOPIC,)))
        places = copies_on_disk(targets).places
    except SelectionError:
        return [], []
    except StorageError as error:
        return [], [str(error)]
    found = []
    for place in sorted(places):
        best, _, errors = best_of(places[place], LATEST)
        problems += map(str, errors)
        if best is not None:
            found.append((best.path, sum(segment.size_bytes for segment in best.partition.segments)))
    return found, problems


def read_commits(
    path: str, places: frozenset[TopicPartition], max_batch_bytes: int, advance: Callable[[int], None]
) -> tuple[list[Commit], list[str]]:
    """Return what groups have committed of these partitions, in one partition of `__consumer_offsets`; and problems."""
    states, problems = read_groups([path], max_batch_bytes=max_batch_bytes)
    advance(0)
    offsets = states.offsets
    found = []
    for group, of_group in sorted(offsets.offsets.items()):
        pending = offsets.pending_of(group) & places
        found += [
            Commit(group=group, place=place, before=of_group[place], after=of_group[place], is_pending=place in pending)
            for place in sorted(of_group.keys() & places)
        ]
    return found, problems


def costs_of(choice: PartitionChoice, commits: Sequence[Commit], advance: Callable[[int], None]) -> list[Impact]:
    """Return what becomes of each group with each copy, the copy to keep first."""
    # These bytes are not among those that progress expects: it only learns that the work goes on.
    logs = [_log_of(copy) for copy in choice.copies]
    numbers = sorted(range(len(logs)), key=lambda number: (number != choice.keep, number))
    found = []
    for number in numbers:
        other = logs[choice.copies.index(choice.in_place_of(number))]
        bounds = {bound for commit in commits for bound in bounds_of(commit, other, logs[number])}
        before, after = (
            count_records(log.files, bounds, end_offset=log.end_offset, advance=lambda _: advance(0))
            for log in (other, logs[number])
        )
        found += [impact_on(commit, other, logs[number], before, after) for commit in commits]
    return found


def _log_of(copy: CopyChoice) -> Log:
    """Return a copy as it is."""
    end = copy.history.end_offset
    try:
        partition = read_partition(copy.path)
    except StorageError as error:
        return Log(path=copy.path, problem=error.message)
    return Log(
        path=copy.path,
        partition=partition,
        files=unit_of_partition(partition, None).files,
        start_offset=copy.log_start,
        end_offset=end,
        history=copy.history,
    )
