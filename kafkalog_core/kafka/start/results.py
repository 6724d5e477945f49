"""What a broker's start makes of a partition, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.kafka.rules import recovery_rules, rules_of
from kafkalog_core.kafka.settings import SettingsRequest, read_settings
from kafkalog_core.kafka.snapshots import SnapshotOptions

if TYPE_CHECKING:
    from typing import Self

    from kafkalog_core.kafka.leader_epochs import EpochStart
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.kafka.rules import LoaderRules, RecoveryRules
    from kafkalog_core.kafka.setting_table import TopicSettings
    from kafkalog_core.kafka.start.recovery import SegmentRecovery
    from kafkalog_core.storage.listing import FileInfo, Segment

__all__ = ["LoadOptions", "LoadProblem", "LoadProblemKind", "LoadResult", "LoadedSegment", "Occasion", "RemovedSegment"]

LoadProblemKind = Literal["fatal", "old-release", "split", "unknown"]
Occasion = Literal["unclean-stop", "no-index", "odd-index"]
_REASONS: Final[dict[Occasion, str]] = {
    "unclean-stop": "the last stop was not clean, and it is not below the recovery point",
    "no-index": "it has no offset index",
    "odd-index": "its index cannot be right",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What a start depends on beside the files.

    Args:
        release: whose rules count.
        settings: of the topic.
        snapshots: how producer snapshots are read and written.
    """

    release: Release
    settings: TopicSettings
    snapshots: SnapshotOptions

    @classmethod
    def of(cls, release: Release, topic: str | None, now_ms: int) -> Self:
        """Return those of a release with its default settings, for a start at `now_ms`, ms since 1970."""
        settings = read_settings(SettingsRequest(), release)
        expiration_ms = settings.producer_expiration_ms
        snapshots = SnapshotOptions.of_release(release, now_ms=now_ms, expiration_ms=expiration_ms)
        return cls(release=release, settings=settings.for_topic(topic), snapshots=snapshots)

    @property
    def loader(self) -> LoaderRules:
        """Rules for partitions."""
        return rules_of(self.release)

    @property
    def recovery(self) -> RecoveryRules:
        """Rules for one segment."""
        return recovery_rules(self.release)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProblem:
    """Why a load does not come to its end.

    Args:
        kind: `fatal`: the broker stops; `old-release`: it stops, and a later release does not; `split`: the segment is
            split first; `unknown`: this cannot be foreseen.
        path: of the file that is meant.
        position: byte in it; null: the whole file.
        sentence: what is wrong, and what the broker does.
    """

    kind: LoadProblemKind
    path: str
    sentence: str
    position: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSegment:
    """A segment that is there in the end.

    Args:
        base_offset: the number in its name.
        segment: its files: under the names that they have then, with the paths at which they are now; null: it is new.
        size_bytes: of its log then.
        recovery: what recovery found; null: it was not recovered, or is emptied. In a `LoadResult` it is there for the
            segments that are cut alone: its indexes may be large.
        occasion: why it was recovered; null: it was not.
        is_emptied: all of its log goes, though no batch is bad.
    """

    base_offset: int
    segment: Segment | None
    size_bytes: int
    recovery: SegmentRecovery | None = None
    occasion: Occasion | None = None
    is_emptied: bool = False

    @property
    def lost_bytes(self) -> int:
        """What is cut off its log."""
        return 0 if self.segment is None else self.segment.size_bytes - self.size_bytes

    @property
    def why(self) -> str:
        """Why it is recovered, as a part of a sentence."""
        return "" if self.occasion is None else _REASONS[self.occasion]


@dataclass(frozen=True, slots=True)
class RemovedSegment:
    """A segment that is deleted, and why, as a part of a sentence."""

    segment: Segment
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What becomes of a partition.

    Args:
        problem: why it was not played to the end; null: it was, and only then the rest counts.
        segments: those that are there in the end, the active one last.
        removed: those that are deleted, ascending.
        swept: files that go before the first segment is opened, each with the reason.
        moved: finished replacements, under the names that they get, with the sizes that they have then.
        rebuilt: what recovery made of a finished replacement; None: none was recovered.
        orphans: indexes without a log; they go.
        log_start_offset: from where on records are served.
        end_offset: where the next record goes.
        recovery_point: what counts as flushed.
        epochs: entries of the leader-epoch-checkpoint; null: the release has none.
        is_end_lost: whether the last index entry leads to no whole batch, so that the log end offset is the base offset
            of the last segment, though there are batches in it.
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

    @property
    def lost_bytes(self) -> int:
        """Bytes of logs that go."""
        return sum(each.lost_bytes for each in self.segments) + sum(each.segment.size_bytes for each in self.removed)
