"""The options and the result of a simulated start, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog_core.kafka.rules.rule_table import recovery_rules, rules_of
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.candidates import RECOVERY_REASONS
from kafkalog_core.kafka.sim.start.snapshots import SnapshotOptions
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.rule_table import LoaderRules, RecoveryRules
    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart
    from kafkalog_core.kafka.sim.start.candidates import Occasion
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.kafka.sim.start.snapshots import SnapshotFate
    from kafkalog_core.storage.listing import FileInfo, Segment

__all__ = [
    "LoadOptions",
    "LoadProblem",
    "LoadProblemKind",
    "LoadResult",
    "LoadedSegment",
    "RemovedSegment",
]

LoadProblemKind = Literal["fatal", "offline", "first-offset", "old-release", "split", "misnamed", "unknown"]


class LoadOptions(Struct, frozen=True, kw_only=True):
    """What a start depends on, apart from the files.

    Args:
        release: whose rules are used.
        settings: of the topic.
        snapshots: how producer snapshots are read and written.
    """

    release: Release
    settings: TopicSettings
    snapshots: SnapshotOptions

    @classmethod
    def of(cls, release: Release, topic: str | None, now_ms: int) -> Self:
        """Return the options of a release with its default settings, for a start at `now_ms`, ms since 1970."""
        settings = read_settings(SettingsRequest(), release)
        expiration_ms = settings.producer_expiration_ms
        snapshots = SnapshotOptions.of_release(release, now_ms=now_ms, expiration_ms=expiration_ms)
        return cls(release=release, settings=settings.for_topic(topic), snapshots=snapshots)

    @property
    def loader(self) -> LoaderRules:
        """The rules for partitions."""
        return rules_of(self.release)

    @property
    def recovery(self) -> RecoveryRules:
        """The rules for one segment."""
        return recovery_rules(self.release)


class LoadProblem(Struct, frozen=True, kw_only=True):
    """Why a start does not come to its end.

    Args:
        kind: `fatal`: the broker stops; `offline`: it takes the log directory offline, and stops if it has no other;
            `old-release`: it stops at a control batch that the cleaner has emptied, and a later release does not;
            `first-offset`: it stops at a compressed message that begins with offsets of the one before, and a later
            release does not; `split`: it splits the segment first; `misnamed`: it creates an empty segment where the
            name of a log is not its offset in 20 digits; `unknown`: the simulation does not go further.
        path: of the file.
        position: byte in it; None: the whole file.
        sentence: what is wrong, and what the broker does.
    """

    kind: LoadProblemKind
    path: str
    sentence: str
    position: int | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the broker fails there; else only the simulation ends there, and the broker may start."""
        return self.kind not in {"unknown", "misnamed"}


class LoadedSegment(Struct, frozen=True, kw_only=True):
    """A segment that is there after the start.

    Args:
        base_offset: the number in its name.
        segment: its files, under their names after the start and with the paths at which they are now; None: it is new.
        size_bytes: size of its log after the start.
        recovery: the result of its recovery; None: it was not recovered, or is emptied. A `LoadResult` has it only for
            truncated segments, because its indexes may be large.
        occasion: why it was recovered; None: it was not.
        is_emptied: whether all of its log is truncated, though no batch is bad.
    """

    base_offset: int
    segment: Segment | None
    size_bytes: int
    recovery: SegmentRecovery | None = None
    occasion: Occasion | None = None
    is_emptied: bool = False

    @property
    def lost_bytes(self) -> int:
        """Bytes that are truncated from its log."""
        return 0 if self.segment is None else self.segment.size_bytes - self.size_bytes

    @property
    def why(self) -> str:
        """Why it is recovered, as a clause."""
        return "" if self.occasion is None else RECOVERY_REASONS[self.occasion]


class RemovedSegment(Struct, frozen=True):
    """A segment that is deleted, and why, as a clause."""

    segment: Segment
    why: str


class LoadResult(Struct, frozen=True, kw_only=True):
    """The partition after the start.

    Args:
        problem: why the start does not come to its end; None: it does, and only then the rest counts.
        segments: those that are there, the active one last.
        removed: those that are deleted, ascending.
        swept: files that are deleted before the first segment is opened, each with the reason.
        moved: finished replacements under their new names, with their sizes after the start.
        rebuilt: the result of the recovery of a finished replacement; None: none was recovered.
        orphans: indexes without a log, which are deleted.
        log_start_offset: the first offset that is served.
        end_offset: the log end offset.
        recovery_point: every record below this offset was flushed.
        epochs: entries of the leader-epoch-checkpoint; None: the release has none.
        is_end_lost: whether batches of the last segment reach beyond the log end offset: its last index entry leads to
            no batch, or its offsets go back.
        zero_indexes: base offsets of replacements without an offset index: the broker has made one of zeros, of its
            largest size.
        forgets_producers: whether no producer snapshot is left after a clean shutdown, so that the broker knows no
            producer, and no open transaction.
        snapshots: what becomes of the producer snapshots that were there before the start, by offset.
        reads_unstable: whether the first unstable offset is looked up in the log, because of a transaction.
    """

    problem: LoadProblem | None = None
    segments: tuple[LoadedSegment, ...] = ()
    removed: tuple[RemovedSegment, ...] = ()
    swept: tuple[tuple[FileInfo, str], ...] = ()
    moved: tuple[FileInfo, ...] = ()
    rebuilt: SegmentRecovery | None = None
    orphans: tuple[FileInfo, ...] = ()
    log_start_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    epochs: tuple[EpochStart, ...] | None = None
    is_end_lost: bool = False
    zero_indexes: frozenset[int] = frozenset()
    forgets_producers: bool = False
    snapshots: Mapping[int, SnapshotFate] = field(default_factory=dict)
    reads_unstable: bool = False

    @property
    def lost_bytes(self) -> int:
        """Bytes of logs that are truncated or deleted."""
        return sum(each.lost_bytes for each in self.segments) + sum(each.segment.size_bytes for each in self.removed)
