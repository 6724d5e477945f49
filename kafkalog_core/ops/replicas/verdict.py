"""The copies of a partition: where they are, which one to keep, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.format.names import DirectoryState, FileKind
from kafkalog_core.kafka.leader_epochs import EpochStart, History, read_epoch_file, truncation_offset
from kafkalog_core.kafka.logdir.bounds import log_bounds
from kafkalog_core.kafka.logdir.text_files import read_topic_ids
from kafkalog_core.kafka.logdir.top_files import PartitionContext, read_broker_dir
from kafkalog_core.kafka.releases import LATEST
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.storage.logdir import PartitionPath
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.kafka.logdir.top_files import BrokerDir
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.ops.replicas.comparison import BatchCursor
    from kafkalog_core.ops.replicas.differences import CopyCounts, Differences
    from kafkalog_core.storage.partition import Partition

__all__ = [
    "STATES",
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


TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDir:
    """A directory of the partition, and what its broker's checkpoints hold of it.

    Args:
        path: of the directory.
        node_id: of the broker; None: not known.
        log_start: checkpointed; None: nothing is.
        high_watermark: checkpointed; None: nothing is.
        cleaned_to: how far the broker's cleaner came; None: it has not cleaned this log.
        knows_cleaner: whether there is a cleaner's checkpoint that can be read.
    """

    path: str
    node_id: str | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    cleaned_to: int | None = None
    knows_cleaner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A place, and what is in its directory."""

    place: ReplicaDir
    partition: Partition
    topic_id: str | None
    epochs_in_file: tuple[EpochStart, ...]

    @property
    def log_start(self) -> int:
        """First offset that a broker serves."""
        base = self.partition.segments[0].base_offset if self.partition.segments else 0
        return log_bounds(base, PartitionContext(log_start_offset=self.place.log_start), rules_of(LATEST)).local_start

    @property
    def bytes(self) -> int:
        """Bytes of log."""
        return sum(segment.size_bytes for segment in self.partition.segments)


def places_of(targets: Iterable[Target]) -> tuple[dict[TopicPartition, list[ReplicaDir]], list[PartitionPath]]:
    """Return directories of each partition by topic and number, and those that are set aside, which are not compared.

    Raises StorageError.
    """
    places: dict[TopicPartition, list[ReplicaDir]] = {}
    aside: list[PartitionPath] = []
    for site in target_dirs(targets):
        broker_dir = None if site.log_dir is None else read_broker_dir(site.log_dir)
        for path in site.partitions:
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
    cleaner = broker_dir.offsets.get(FileKind.CLEANER_OFFSET)
    return ReplicaDir(
        path=path.path,
        node_id=broker_dir.node_id,
        log_start=broker_dir.offset(FileKind.LOG_START_OFFSET, path.name),
        high_watermark=broker_dir.offset(FileKind.HIGH_WATERMARK, path.name),
        cleaned_to=broker_dir.offset(FileKind.CLEANER_OFFSET, path.name),
        knows_cleaner=cleaner is not None and not cleaner.is_refused,
    )


def read_copy(place: ReplicaDir) -> Copy:
    """Look into the directory. Raises StorageError."""
    partition = read_partition(place.path)
    epochs = read_epoch_file(place.path)
    return Copy(
        place=place,
        partition=partition,
        topic_id=_topic_id(partition),
        epochs_in_file=() if epochs is None or epochs.refusal is not None else epochs.entries,
    )


def _topic_id(partition: Partition) -> str | None:
    place = PartitionPath(path=partition.path, name=partition.name, device=0, inode=0)
    said = read_topic_ids([place], {}, "").of_topic.get(partition.topic or "", {})
    return next(iter(said), None)


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
"""The worst first."""


class Read(NamedTuple):
    """One copy after it was read."""

    copy: Copy
    cursor: BatchCursor
    history: History
    counts: CopyCounts
    in_gaps: tuple[int, int]
    """Records that are missing in it, and those that compaction took."""

    def lacks(self, others: Iterable[int]) -> Lacks:
        """Return what it lacks of what these copies have."""
        missing, compacted = self.in_gaps
        return Lacks(
            damaged=self.counts.lacks_of(others, "damaged"),
            missing=missing,
            behind=self.counts.lacks_of(others, "behind"),
            compacted=compacted,
            trimmed=self.counts.lacks_of(others, "trimmed"),
        )


class Lacks(NamedTuple):
    """Numbers of records by why a copy lacks them."""

    damaged: int
    missing: int
    behind: int
    compacted: int
    trimmed: int

    @property
    def lost(self) -> int:
        """Those that it should have."""
        return self.damaged + self.missing + self.behind


@dataclass(frozen=True, slots=True)
class ReplicaVerdict:
    """`keep` is the number of the copy to keep, None: unknown; the other lists are by number of copy."""

    keep: int | None
    basis: Basis | None
    states: tuple[State, ...]
    divergent_at: tuple[int | None, ...]
    truncates_to: tuple[int | None, ...]
    silent: tuple[bool, ...]
    """Divergent below where its broker cuts it, so that a broker never notices."""
    lacks: tuple[Lacks, ...]
    """What each copy lacks of what those of the true history have."""

    @property
    def state(self) -> State:
        """The worst of all copies; the one to keep may lack something too."""
        states: list[State] = [state for state in self.states if state != "keep"]
        lacks = None if self.keep is None else self.lacks[self.keep]
        if lacks is not None and lacks.damaged:
            states.append("damaged")
        if lacks is not None and lacks.missing:
            states.append("missing")
        return min(states, key=STATES.index)

    @property
    def divergent_offset(self) -> int | None:
        """Where the first of them diverges."""
        return min((offset for offset in self.divergent_at if offset is not None), default=None)


def judge(reads: Sequence[Read], differences: Differences) -> ReplicaVerdict:
    """Return the verdict over copies that were read to their ends."""
    truth, basis = _true_one(reads, differences)
    numbers = range(len(reads))
    if truth is None:
        firsts = [
            min((offset for pair, offset in differences.diverged.items() if number in pair), default=None)
            for number in numbers
        ]
        states: tuple[State, ...] = tuple("identical" if offset is None else "divergent" for offset in firsts)
        lacks = tuple(read.lacks(numbers) for read in reads)
        return ReplicaVerdict(None, None, states, tuple(firsts), (None,) * len(reads), (False,) * len(reads), lacks)
    same = [number for number in numbers if _departs(reads, differences, number, truth) is None]
    lacks = tuple(read.lacks(same) for read in reads)
    keep = min(same, key=lambda number: _rank(reads[number], lacks[number]))
    divergent = tuple(_departs(reads, differences, number, keep) for number in numbers)
    cuts = tuple(_cut(reads, number, keep) for number in numbers)
    silent = tuple(
        offset is not None and (cut is None or cut > offset) for offset, cut in zip(divergent, cuts, strict=True)
    )
    states = tuple(
        "keep" if number == keep else _state(reads[number], lacks[number], divergent[number]) for number in numbers
    )
    return ReplicaVerdict(keep, basis, states, divergent, cuts, silent, lacks)


def _rank(read: Read, lacks: Lacks) -> tuple[int, ...]:
    """Return a sort key, smallest for the copy to keep: least lost, least damage, most old records, then the leader."""
    latest = -1 if read.history.latest is None else read.history.latest
    return lacks.lost, read.cursor.damage_count, read.copy.log_start, lacks.compacted, -latest


def _true_one(reads: Sequence[Read], differences: Differences) -> tuple[int | None, Basis | None]:
    """Return a copy of the true history, and the evidence; None: copies contradict each other without evidence."""
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
    """Return first offset at which a copy is of another history than the true one; None: nowhere.

    Records may differ, or the leader epoch of the same records, or the true one may have begun an epoch before the
    copy's end.
    """
    if number == truth:
        return None
    offsets = [_diverged(differences, number, truth)]
    cut = _cut(reads, number, truth)
    later = (reads[truth].history.latest or -1) > (reads[number].history.latest or -1)
    if later and cut is not None and cut < reads[number].cursor.end_offset:
        offsets.append(max(cut, reads[number].copy.log_start))
    pair = (min(number, truth), max(number, truth))
    offsets.append(differences.epochs_differ.get(pair))
    return min((offset for offset in offsets if offset is not None), default=None)


def _cut(reads: Sequence[Read], number: int, leader: int) -> int | None:
    """Return where a broker cuts the copy; None: it does not."""
    if number == leader:
        return None
    offset = truncation_offset(reads[number].history, reads[leader].history)
    return offset if offset is not None and offset < reads[number].cursor.end_offset else None


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
    """Count torn tails and preallocated space: they are not damage; no batch follows them."""
    return len(cursor.flaws) if all(flaw.reason in {"torn-tail", "zero-filled"} for flaw in cursor.flaws) else 0


_SIMPLE: Final[dict[State, str]] = {
    "keep": "Keep it.",
    "behind": "Leave it: its broker fetches the {behind} that it lacks.",
    "compacted": "Leave it: compaction has only come farther in it than elsewhere.",
    "trimmed": "Leave it: it starts later, as its oldest segments are deleted.",
    "identical": "Leave it as it is.",
}


def reason(reads: Sequence[Read], verdict: ReplicaVerdict) -> str:
    """Return why the copy that is to be kept, and what to do first."""
    if verdict.keep is None:
        return (
            f"The copies hold different records from offset {verdict.divergent_offset} on, and neither leader epochs "
            "nor high watermarks nor their lengths show which are right: compare the records (kafkalog dump), and ask "
            "those who wrote them."
        )
    keep = reads[verdict.keep]
    parts = [_why(keep, verdict)]
    lacks = verdict.lacks[verdict.keep]
    if lacks.lost:
        parts.append(f"It lacks {_records(lacks.lost)} that another copy has ({_of_kinds(lacks)}).")
    risk = keep.counts.at_risk
    if risk:
        parts.append(f"First save the {_records(risk)} that it does not have: kafkalog dump of the other copies.")
    return " ".join(parts)


def _why(keep: Read, verdict: ReplicaVerdict) -> str:
    path = keep.copy.place.path
    if verdict.basis == "leader-epoch":
        return (
            f"Keep {path}: its leader epoch {keep.history.latest} is the latest, so its history is the one that the "
            f"cluster went on with from offset {verdict.divergent_offset} on."
        )
    if verdict.basis == "high-watermark":
        mark = keep.copy.place.high_watermark
        return f"Keep {path}: leader epochs do not decide, but its high watermark {mark} is above the first difference."
    if verdict.basis == "length":
        return (
            f"Keep {path}, it is the longest: neither leader epochs nor high watermarks show which history is right, "
            "so check the records first."
        )
    if all(state in {"keep", "identical"} for state in verdict.states):
        return "All copies are the same: any of them will do."
    if verdict.state in {"compacted", "trimmed"}:
        return f"No copy has lost anything: they are cleaned to different points. {path} holds most."
    return f"Keep {path}: of the one history that all copies have it lacks least."


def advice(reads: Sequence[Read], verdict: ReplicaVerdict, number: int) -> str:
    """Return what to do with one copy."""
    read, state, lacks = reads[number], verdict.states[number], verdict.lacks[number]
    if state == "divergent":
        return _of_divergent(read, verdict, number)
    if state not in {"damaged", "missing"}:
        return _SIMPLE[state].format(behind=_records(lacks.behind))
    only = f" First save the {_records(read.counts.only_here)} that it alone has." if read.counts.only_here else ""
    if state == "missing":
        return (
            f"It has lost {_records(lacks.missing)}, which no broker notices: delete the directory, and its broker "
            f"fetches it again.{only}"
        )
    flaw = read.cursor.first_flaw
    where = f" at byte {flaw.position} of {flaw.path} ({flaw.reason})" if flaw is not None else ""
    return f"Damaged{where}: delete the directory, and its broker fetches it again.{only}"


def _of_divergent(read: Read, verdict: ReplicaVerdict, number: int) -> str:
    at, cut = verdict.divergent_at[number], verdict.truncates_to[number]
    only = f"save the {_records(read.counts.only_here)} that it alone has, then " if read.counts.only_here else ""
    if verdict.keep is None:
        return f"It differs from offset {at} on: keep it until it is known which records are true."
    if verdict.silent[number]:
        where = "nowhere" if cut is None else f"only at offset {cut}"
        return (
            f"It differs from offset {at} on, and its broker would cut it {where}, so the difference remains: {only}"
            "delete the directory, and its broker fetches it again."
        )
    return f"Its broker cuts it at offset {cut} and fetches the rest: {only}let it start."


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _of_kinds(lacks: Lacks) -> str:
    kinds = ((lacks.damaged, "damaged here"), (lacks.missing, "missing here"), (lacks.behind, "after its end"))
    return ", ".join(f"{count} {text}" for count, text in kinds if count)
