"""The verdict on the copies of a partition: which one to keep, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.command_lines import shell_line
from kafkalog_core.format.names import DirectoryState, FileKind
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.cluster import read_topic_ids
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart, History, epochs_in_file, truncation_offset
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext, read_broker_dir
from kafkalog_core.ops.copies.comparison import is_torn
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.storage.logdir import PartitionPath
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of, first_of, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.ops.copies.comparison import BatchCursor
    from kafkalog_core.ops.copies.differences import AtRisk, CopyCounts, Differences
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "STATES",
    "Assigned",
    "Basis",
    "Copy",
    "Lacks",
    "Read",
    "ReplicaDir",
    "ReplicaVerdict",
    "State",
    "advice",
    "judge",
    "places_of",
    "read_copy",
    "reason",
]


class ReplicaDir(Struct, frozen=True, kw_only=True):
    """A directory of the partition, and the values of its broker's checkpoints.

    Args:
        path: path of the directory.
        node_id: node id of the broker; None: unknown.
        log_start: checkpointed log start offset; None: there is none.
        high_watermark: checkpointed high watermark; None: there is none.
        cleaned_to: offset that the broker's cleaner has reached; None: it has not cleaned this log.
        knows_cleaner: whether the cleaner's checkpoint can be read.
    """

    path: str
    node_id: str | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    cleaned_to: int | None = None
    knows_cleaner: bool = False


class Assigned(Struct, frozen=True, kw_only=True):
    """What a metadata log says of a partition.

    Args:
        topic_id: of its topic.
        leader: node id of the leader; -1: it has none.
        last_leader: node id of the leader before that; None: unknown.
        leader_epoch: of the leader.
        isr: node ids of the in-sync replicas.
        elr: node ids of the eligible leader replicas (KIP-966), not in the ISR.
    """

    topic_id: str
    leader: int
    last_leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()


class Copy(Struct, frozen=True, kw_only=True):
    """A copy: its directory, and the files in it."""

    place: ReplicaDir
    partition: Partition
    topic_id: str | None
    epochs_in_file: tuple[EpochStart, ...]

    @property
    def log_start(self) -> int:
        """The log start offset."""
        base = self.partition.segments[0].base_offset if self.partition.segments else 0
        return log_bounds(base, PartitionContext(log_start_offset=self.place.log_start), rules_of(LATEST)).local_start

    @property
    def bytes(self) -> int:
        """Size of the log, in bytes."""
        return sum(segment.size_bytes for segment in self.partition.segments)


def places_of(targets: Iterable[Target]) -> tuple[dict[TopicPartition, list[ReplicaDir]], list[PartitionPath]]:
    """Return the directories of each partition by topic and number, and those moved aside, which are not compared.

    Raises StorageError.
    """
    places: dict[TopicPartition, list[ReplicaDir]] = {}
    aside: list[PartitionPath] = []
    for target in target_dirs(targets):
        broker_dir = None if target.log_dir is None else read_broker_dir(target.log_dir)
        for path in target.partitions:
            name = path.name
            if name.topic is None or name.partition is None:
                continue
            if name.state is not DirectoryState.CURRENT:
                aside.append(path)
                continue
            places.setdefault((name.topic, name.partition), []).append(_place(path, broker_dir))
    return dict(sorted(places.items())), aside


def _place(path: PartitionPath, broker_dir: BrokerDir | None) -> ReplicaDir:
    if broker_dir is None:
        return ReplicaDir(path=path.path)
    return ReplicaDir(
        path=path.path,
        node_id=broker_dir.node_id,
        log_start=broker_dir.offset(FileKind.LOG_START_OFFSET, path.name),
        high_watermark=broker_dir.offset(FileKind.HIGH_WATERMARK, path.name),
        cleaned_to=broker_dir.offset(FileKind.CLEANER_OFFSET, path.name),
        knows_cleaner=broker_dir.knows_cleaner,
    )


def read_copy(place: ReplicaDir) -> Copy:
    """List the directory, and read its small files. Raises StorageError."""
    partition = read_partition(place.path)
    return Copy(
        place=place,
        partition=partition,
        topic_id=_topic_id(partition),
        epochs_in_file=epochs_in_file(place.path),
    )


def _topic_id(partition: Partition) -> str | None:
    place = PartitionPath(path=partition.path, name=partition.name, device=0, inode=0)
    ids = read_topic_ids([place], {}, "").get(partition.topic or "", {})
    return next(iter(ids), None)


State = Literal["divergent", "damaged", "missing", "behind", "compacted", "trimmed", "identical", "keep"]
Basis = Literal["leader-epoch", "high-watermark", "length"]
STATES: Final[tuple[State, ...]] = (
    "divergent",
    "damaged",
    "missing",
    "behind",
    "compacted",
    "trimmed",
    "identical",
)
"""All states except `keep`, the worst first."""


class Read(NamedTuple):
    """One copy that was read to its end."""

    copy: Copy
    cursor: BatchCursor
    history: History
    counts: CopyCounts
    in_gaps: tuple[int, int]
    """Number of records in its gaps that are missing, and that were compacted away."""

    def lacks(self, others: Iterable[int]) -> Lacks:
        """Return the records of these copies that it lacks."""
        missing, compacted = self.in_gaps
        return Lacks(
            damaged=self.counts.lacks_of(others, "damaged"),
            missing=missing,
            behind=self.counts.lacks_of(others, "behind"),
            compacted=compacted,
            trimmed=self.counts.lacks_of(others, "trimmed"),
        )


class Lacks(NamedTuple):
    """Number of records that a copy lacks, by reason."""

    damaged: int
    missing: int
    behind: int
    compacted: int
    trimmed: int

    @property
    def lost(self) -> int:
        """Number of lacking records that the copy should have."""
        return self.damaged + self.missing + self.behind


class ReplicaVerdict(Struct, frozen=True):
    """The verdict: `keep` is the number of the copy to keep, None: unknown; the tuples are by number of copy."""

    keep: int | None
    basis: Basis | None
    states: tuple[State, ...]
    divergent_at: tuple[int | None, ...]
    truncates_to: tuple[int | None, ...]
    silent: tuple[bool, ...]
    """Whether the copy diverges below the offset at which its broker truncates it, so that no broker notices."""
    lacks: tuple[Lacks, ...]
    """Records that each copy lacks and the copies of the true history have."""
    lost: str | None = None
    """Where every copy is damaged, `offsets 60..67`; None: nowhere."""

    @property
    def state(self) -> State:
        """The worst state of all copies; the copy to keep may lack records too."""
        states: list[State] = [state for state in self.states if state != "keep"]
        lacks = None if self.keep is None else self.lacks[self.keep]
        if self.lost is not None or (lacks is not None and lacks.damaged):
            states.append("damaged")
        if lacks is not None and lacks.missing:
            states.append("missing")
        return min(states, key=STATES.index)

    @property
    def divergent_offset(self) -> int | None:
        """The first offset at which a copy diverges; None: none does."""
        return min((offset for offset in self.divergent_at if offset is not None), default=None)


def judge(reads: Sequence[Read], differences: Differences) -> ReplicaVerdict:
    """Return the verdict on copies that were read to their ends."""
    truth, basis = _true_one(reads, differences)
    lost = _lost(reads, differences)
    numbers = range(len(reads))
    if truth is None:
        firsts = [
            min((offset for pair, offset in differences.diverged.items() if number in pair), default=None)
            for number in numbers
        ]
        states: tuple[State, ...] = tuple("identical" if offset is None else "divergent" for offset in firsts)
        lacks = tuple(read.lacks(numbers) for read in reads)
        return ReplicaVerdict(
            None, None, states, tuple(firsts), (None,) * len(reads), (False,) * len(reads), lacks, lost
        )
    same = [number for number in numbers if _departs(reads, differences, number, truth) is None]
    lacks = tuple(read.lacks(same) for read in reads)
    keep = min(same, key=lambda number: _rank(reads[number], lacks[number]))
    divergent = tuple(_departs(reads, differences, number, keep) for number in numbers)
    truncations = tuple(_follower_end(reads, number, keep) for number in numbers)
    silent = tuple(
        offset is not None and (truncated_to is None or truncated_to > offset)
        for offset, truncated_to in zip(divergent, truncations, strict=True)
    )
    states = tuple(
        "keep" if number == keep else _state(reads[number], lacks[number], divergent[number]) for number in numbers
    )
    return ReplicaVerdict(keep, basis, states, divergent, truncations, silent, lacks, lost)


def _lost(reads: Sequence[Read], differences: Differences) -> str | None:
    """Return the offsets at which every copy is damaged; None: there are none."""
    ranges = [f"{each.first}..{each.last}" for each in differences.ranges if set(each.has) == {"damaged"}]
    ends = [read.cursor.end_offset for read in reads if read.cursor.flaws and not is_torn(read.cursor.flaws)]
    if len(ends) == len(reads):  # damage after the last batch of each
        ranges.append(f"{max(ends)}..?")
    return f"offsets {first_of(ranges)}" if ranges else None


def _rank(read: Read, lacks: Lacks) -> tuple[int, ...]:
    """Return a sort key, smallest for the copy to keep: least lost, least damage, most old records, then the leader."""
    latest = -1 if read.history.latest is None else read.history.latest
    return lacks.lost, read.cursor.damage_count, read.copy.log_start, lacks.compacted, -latest


def _true_one(reads: Sequence[Read], differences: Differences) -> tuple[int | None, Basis | None]:
    """Return a copy of the true history, and the evidence; None: the copies differ and there is no evidence."""
    numbers = range(len(reads))
    epochs = [-1 if read.history.latest is None else read.history.latest for read in reads]
    best = max(numbers, key=lambda number: (epochs[number], reads[number].cursor.end_offset))
    others = [number for number in numbers if _departs(reads, differences, number, best) is not None]
    if not others:
        return best, None
    if epochs[best] > max(epochs[number] for number in others):
        return best, "leader-epoch"
    first = min(offset for number in others if (offset := _departs(reads, differences, number, best)) is not None)
    marks = [reads[number].copy.place.high_watermark or 0 for number in numbers]
    best = max(numbers, key=lambda number: marks[number])
    if marks[best] > first and all(marks[number] < marks[best] for number in others if number != best):
        return best, "high-watermark"
    ends = [read.cursor.end_offset for read in reads]
    best = max(numbers, key=lambda number: ends[number])
    if ends.count(ends[best]) == 1:
        return best, "length"
    return None, None


def _diverged(differences: Differences, one: int, other: int) -> int | None:
    return differences.diverged.get((min(one, other), max(one, other)))


def _departs(reads: Sequence[Read], differences: Differences, number: int, truth: int) -> int | None:
    """Return the first offset at which the history of a copy differs from the true one; None: it does not.

    The records may differ, or the leader epochs of the same records, or the true history may have begun an epoch
    before the copy's end.
    """
    if number == truth:
        return None
    offsets = [_diverged(differences, number, truth)]
    truncated_to = _truncation_of(reads, number, truth)
    later = (reads[truth].history.latest or -1) > (reads[number].history.latest or -1)
    if later and truncated_to is not None and truncated_to < reads[number].cursor.end_offset:
        offsets.append(max(truncated_to, reads[number].copy.log_start))
    pair = (min(number, truth), max(number, truth))
    offsets.append(differences.epochs_differ.get(pair))
    return min((offset for offset in offsets if offset is not None), default=None)


def _truncation_of(reads: Sequence[Read], number: int, leader: int) -> int | None:
    """Return the offset at which a broker truncates the copy (KIP-101); None: it does not truncate it."""
    if number == leader:
        return None
    offset = truncation_offset(reads[number].history, reads[leader].history)
    return offset if offset is not None and offset < reads[number].cursor.end_offset else None


def _follower_end(reads: Sequence[Read], number: int, leader: int) -> int | None:
    """Return the offset at which a broker truncates the copy, with or without leader epochs; None: it does not."""
    if reads[number].history.epochs:
        return _truncation_of(reads, number, leader)
    # A follower without epochs begins to fetch at its high watermark (ReplicaManager.initialFetchOffset).
    mark = reads[number].copy.place.high_watermark
    return mark if number != leader and mark is not None and mark < reads[number].cursor.end_offset else None


def _state(read: Read, lacks: Lacks, divergent_at: int | None) -> State:
    if divergent_at is not None:
        return "divergent"
    if lacks.damaged or read.cursor.damage_count > _harmless(read.cursor):
        return "damaged"
    if lacks.missing:
        return "missing"
    if lacks.behind:
        return "behind"
    if lacks.compacted:
        return "compacted"
    return "trimmed" if lacks.trimmed else "identical"


def _harmless(cursor: BatchCursor) -> int:
    """Return the number of torn tails and preallocated ranges at the end, which are not damage."""
    return len(cursor.flaws) if is_torn(cursor.flaws) else 0


_SIMPLE: Final[dict[State, str]] = {
    "keep": "Keep it.",
    "behind": "Leave it: its broker fetches the {behind} that it lacks once a broker that has them leads.",
    "compacted": "Leave it: its broker has only compacted it further than the others.",
    "trimmed": "Leave it: it only starts later, because its oldest segments are deleted.",
    "identical": "Leave it as it is.",
}


def reason(reads: Sequence[Read], verdict: ReplicaVerdict, assigned: Assigned | None) -> str:
    """Return why the copy is kept, what the metadata log says, and what to do first."""
    of_cluster = [] if assigned is None else [_of_cluster(reads, verdict, assigned)]
    if verdict.keep is None:
        text = (
            f"The copies hold different records from offset {verdict.divergent_offset} on, and neither leader epochs "
            "nor high watermarks nor their lengths show which are correct: compare the records (kafkalog dump), and "
            "ask the owners of the producers."
        )
        return " ".join([text, *of_cluster])
    keep = reads[verdict.keep]
    parts = [_why(keep, verdict)]
    lacks = verdict.lacks[verdict.keep]
    if lacks.lost:
        parts.append(f"It lacks {count_of(lacks.lost, 'record')} that another copy has ({_of_kinds(lacks)}).")
    parts += of_cluster
    if verdict.lost is not None:
        parts.append(f"Every copy is damaged at {verdict.lost}.")
    risk = keep.counts.at_risk
    if risk.records:
        parts.append(
            f"First save the {count_of(risk.records, 'record')} that it does not have ({_where(risk)}): "
            f"{_save_line(reads, risk)}"
        )
    if verdict.lost is not None or lacks.damaged:
        line = shell_line(["kafkalog", "recover", "--only-copy", keep.copy.place.path])
        parts.append(f"No follower can fetch a damaged batch of this copy: excise it before the brokers start: {line}")
    return " ".join(parts)


def _where(extent: AtRisk) -> str:
    """Return `offsets 100..149, 2026-11-21T02:15:50Z to 2026-11-21T02:18:21Z`."""
    first_ms, last_ms = extent.times
    text = f"offsets {extent.first_offset}..{extent.last_offset}"
    return text if first_ms is None or last_ms is None else f"{text}, {moment(first_ms)} to {moment(last_ms)}"


def _save_line(reads: Sequence[Read], extent: AtRisk) -> str:
    """Return the command that reads these records, of as few copies as have them all."""
    owners = sorted(extent.owners)
    # a record that two copies have is read once: of copies with the same records the first one is named
    paths = [
        reads[number].copy.place.path
        for number in owners
        if not any(
            reads[other].counts.has_all_of(number) and (other < number or not reads[number].counts.has_all_of(other))
            for other in owners
            if other != number
        )
    ]
    offsets = f"{extent.first_offset}..{extent.last_offset}"
    return shell_line(["kafkalog", "dump", "--records", "--offsets", offsets, *paths])


def _of_cluster(reads: Sequence[Read], verdict: ReplicaVerdict, assigned: Assigned) -> str:
    """Return what the metadata log says of the partition, and whether its leader has another history."""
    leader, isr = assigned.leader, ", ".join(map(str, assigned.isr))
    if leader >= 0:
        text = f"By the metadata log broker {leader} leads it in leader epoch {assigned.leader_epoch}"
    else:
        leader = -1 if assigned.last_leader is None else assigned.last_leader
        text = "By the metadata log it has no leader" + (f"; broker {leader} was the last one" if leader >= 0 else "")
    text += f"; in sync are {isr}" if isr else "; no replica is in sync"
    text += f"; eligible leader replicas are {', '.join(map(str, assigned.elr))}." if assigned.elr else "."
    states = {read.copy.place.node_id: state for read, state in zip(reads, verdict.states, strict=True)}
    # The disks show which copy has most; a cluster goes on with the one that it elects, whatever that holds.
    if states.get(str(leader)) in {"divergent", "behind", "missing"} and verdict.keep is not None:
        text += f" If broker {leader} leads again, the cluster goes on with its copy, not with the one to keep."
    return text


def _why(keep: Read, verdict: ReplicaVerdict) -> str:
    path = keep.copy.place.path
    # Records of the formats before v2 have none, and neither has a log that only such records are in.
    epochs = "leader epochs do not decide"
    if keep.history.latest is None:
        epochs = "the log has no leader epochs that could decide (message format v0 or v1)"
    if verdict.basis == "leader-epoch":
        return (
            f"Keep {path}: its leader epoch {keep.history.latest} is the latest, so the cluster continued with its "
            f"history from offset {verdict.divergent_offset} on."
        )
    if verdict.basis == "high-watermark":
        mark = keep.copy.place.high_watermark
        return f"Keep {path}: {epochs}, but its high watermark {mark} is above the first difference."
    if verdict.basis == "length":
        return (
            f"Keep {path}, because it is the longest: {epochs}, and high watermarks do not show which history is "
            "correct, so check the records first."
        )
    if all(state in {"keep", "identical"} for state in verdict.states):
        return "All copies are the same: keep any of them."
    if verdict.state in {"compacted", "trimmed"}:
        return f"No copy has lost records: they are only cleaned to different offsets. {path} has the most records."
    return f"Keep {path}: all copies have the same history, and this one lacks the fewest records."


def advice(reads: Sequence[Read], verdict: ReplicaVerdict, number: int) -> str:
    """Return what to do with one copy."""
    read, state, lacks = reads[number], verdict.states[number], verdict.lacks[number]
    if state == "divergent":
        return _of_divergent(reads, verdict, number)
    if state not in {"damaged", "missing"}:
        return _SIMPLE[state].format(behind=count_of(lacks.behind, "record"))
    flaw = read.cursor.first_flaw
    what = "Damaged" if flaw is None else f"Damaged at byte {flaw.position} of {flaw.path} ({flaw.reason})"
    if state == "missing":
        what = f"It has lost {count_of(lacks.missing, 'record')}, and no broker notices that"
    if state == "damaged" and not lacks.damaged:
        line = shell_line(["kafkalog", "recover", "--only-copy", read.copy.place.path])
        return f"{what}, and no other copy has what is lost there, so no broker can send it again: excise it: {line}"
    if state == "damaged" and flaw is not None and flaw.reason != "unreadable":
        line = shell_line(["kafkalog", "recover", "--refetch", read.copy.place.path])
        return f"{what}: {_save_first(read)}truncate it there, and its broker fetches the rest again: {line}"
    return f"{what}: {_save_first(read)}delete the directory, and its broker fetches it again."


def _save_first(read: Read) -> str:
    only_here = read.counts.only_here
    return f"save the {count_of(only_here, 'record')} that only this copy has, then " if only_here else ""


def _of_divergent(reads: Sequence[Read], verdict: ReplicaVerdict, number: int) -> str:
    at, truncated_to, first = verdict.divergent_at[number], verdict.truncates_to[number], _save_first(reads[number])
    if verdict.keep is None:
        return f"It differs from offset {at} on: keep it until you know which records are correct."
    if verdict.silent[number]:
        what = "would not truncate it" if truncated_to is None else f"would truncate it only at offset {truncated_to}"
        return (
            f"It differs from offset {at} on, but its broker {what}, so the difference would remain: {first}delete "
            "the directory, and its broker fetches it again."
        )
    node_id = reads[verdict.keep].copy.place.node_id
    leader = f"broker {node_id}" if node_id else "the broker of the copy to keep"
    return (
        f"Its broker truncates it at offset {truncated_to} and fetches the rest again once {leader} leads: "
        f"{first}start {leader} first, and this one when it leads."
    )


def _of_kinds(lacks: Lacks) -> str:
    kinds = ((lacks.damaged, "damaged here"), (lacks.missing, "missing here"), (lacks.behind, "after its end"))
    return ", ".join(f"{count} {text}" for count, text in kinds if count)
