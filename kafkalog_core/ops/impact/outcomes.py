"""What a change of a log means for one group: unchanged, repeated, skipped, or decided by auto.offset.reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.kafka.sim.consumer_positions import position_in
from kafkalog_core.kafka.sim.logdir.leader_epochs import truncation_offset
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of, moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.sim.consumer_positions import ConsumerPosition
    from kafkalog_core.ops.impact.counting import Counted, Span
    from kafkalog_core.ops.impact.logs import Log
    from kafkalog_core.topics.group_offsets import CommittedOffset

__all__ = ["EFFECTS", "Commit", "Effect", "Impact", "bounds_of", "impact_on", "with_expiry"]

Effect = Literal["unchanged", "repeats", "skips", "reset", "diverges", "stops", "unknown"]
EFFECTS: Final[tuple[Effect, ...]] = ("reset", "diverges", "skips", "repeats", "stops", "unknown", "unchanged")
"""All effects, those that ask for a decision first."""


class Commit(Struct, frozen=True, kw_only=True):
    """The offset of a group in a partition.

    Args:
        group: the group.
        place: topic and partition.
        before: what it has committed on the disks as they are; None: nothing.
        after: what is left of that afterwards; None: nothing.
        is_pending: whether an open transaction is to commit another one.
    """

    group: str
    place: TopicPartition
    before: CommittedOffset | None
    after: CommittedOffset | None
    is_pending: bool = False

    @property
    def offset(self) -> int:
        """The offset up to which the group has read: the last that it committed."""
        found = self.before or self.after
        return 0 if found is None else found.offset


class Impact(Struct, frozen=True, kw_only=True):
    """What happens to a group in a partition: the columns of the row `impact`, which describe each."""

    commit: Commit
    effect: Effect
    path: str | None = None
    resume_offset: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    unread_records: int | None = None
    remaining_records: int | None = None
    repeated_records: int | None = None
    skipped_records: int | None = None
    first_skipped_ms: int | None = None
    last_skipped_ms: int | None = None
    earliest_repeated: int | None = None
    earliest_skipped: int | None = None
    latest_skipped: int | None = None
    truncated_to: int | None = None
    reused_offsets: int = 0
    damage_offset: int | None = None
    reset_offset: int | None = None
    expires_ms: int | None = None
    is_expired: bool = False
    detail: str

    @property
    def records(self) -> int | None:
        """The number that belongs to the effect; None: it has none, or auto.offset.reset decides."""
        numbers = {"repeats": self.repeated_records, "skips": self.skipped_records, "diverges": self.skipped_records}
        return 0 if self.effect == "unchanged" else numbers.get(self.effect)

    @property
    def is_reset_needed(self) -> bool:
        """Whether a group that reads on by itself repeats or skips records, or auto.offset.reset decides."""
        return self.effect in {"repeats", "skips", "reset", "diverges"}

    def row(self) -> dict[str, object]:
        """Return the `impact` row."""
        commit, is_reset = self.commit, self.effect == "reset"
        before, after = commit.before, commit.after
        return {
            "group": commit.group,
            "topic": commit.place[0],
            "partition": commit.place[1],
            "effect": self.effect,
            "records": self.records,
            "committed_offset": None if before is None else before.offset,
            "leader_epoch": None if before is None else before.leader_epoch,
            "committed_offset_after": None if after is None else after.offset,
            "resume_offset": self.resume_offset,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "unread_records": self.unread_records,
            "remaining_records": self.remaining_records,
            "repeated_records": self.repeated_records,
            "skipped_records": self.skipped_records,
            "first_skipped_timestamp_ms": self.first_skipped_ms,
            "last_skipped_timestamp_ms": self.last_skipped_ms,
            "earliest_offset": self.log_start_offset if is_reset else None,
            "earliest_repeated": self.earliest_repeated,
            "earliest_skipped": self.earliest_skipped,
            "latest_offset": self.log_end_offset if is_reset else None,
            "latest_skipped": self.latest_skipped,
            "truncated_to": self.truncated_to,
            "reused_offsets": self.reused_offsets,
            "damage_offset": self.damage_offset,
            "reset_offset": self.reset_offset,
            "expires_ms": self.expires_ms,
            "is_expired": self.is_expired,
            "detail": self.detail,
            "path": self.path,
        }


def bounds_of(commit: Commit, now: Log, after: Log) -> set[int]:
    """Return the offsets of both logs between which `impact_on` has to know the records.

    Only where auto.offset.reset decides is the whole log counted.
    """
    position = _position(commit, after)
    found = {commit.offset, after.end_offset}
    found |= {each for each in (position.offset, position.truncated_to, _fork(now, after)) if each is not None}
    if position.offset is None:
        found |= {after.start_offset, now.start_offset}
    return found


def impact_on(
    commit: Commit, now: Log, after: Log, before_count: Counted, after_count: Counted, others: Iterable[Log] = ()
) -> Impact:
    """Return what becomes of a group in a partition.

    Args:
        commit: its offset.
        now: the log as it is.
        after: the log afterwards.
        before_count: the records of the log as it is, between the bounds.
        after_count: those afterwards.
        others: other copies of the log, from which the group may have read.
    """
    problem = after.problem or now.problem
    if problem is not None:
        return Impact(commit=commit, effect="unknown", path=after.path, detail=f"{problem}.")
    position = _position(commit, after)
    impact = _Assessment(commit, now, after, before_count, after_count, position).impact()
    return _in_doubt(impact, after, others)


def _in_doubt(impact: Impact, after: Log, others: Iterable[Log]) -> Impact:
    """Return the impact; unknown where another copy has other records, and no leader epoch shows which were read.

    Of two copies that differ after an unclean election either may have led when the group committed.
    """
    left = impact.commit.after
    if left is None or left.leader_epoch >= 0:
        return impact
    forks = [(fork, each.path) for each in others if (fork := _fork(each, after)) is not None and fork < left.offset]
    if not forks:
        return impact
    fork, path = min(forks)
    effect: Effect = "unknown" if impact.effect == "unchanged" else impact.effect
    detail = f"{impact.detail} {_DOUBT.format(path=path, fork=fork, offset=left.offset)}"
    return replace(impact, effect=effect, detail=detail)


def _fork(now: Log, after: Log) -> int | None:
    """Return the offset from which on two copies have different records, as their leader epochs show; None: they agree.

    The logs before and after a plan or a start are one copy, whatever its leader epochs are.
    """
    found = None if now.path == after.path else truncation_offset(now.history, after.history)
    return found if found is not None and found < min(now.end_offset, after.end_offset) else None


def _position(commit: Commit, after: Log) -> ConsumerPosition:
    return position_in(commit.after, after.start_offset, after.end_offset, after.history)


class _Assessment:
    """The numbers of one group in one partition, and the sentence about them."""

    def __init__(
        self,
        commit: Commit,
        now: Log,
        after: Log,
        before_count: Counted,
        after_count: Counted,
        position: ConsumerPosition,
    ) -> None:
        self._commit = commit
        self._now, self._after = now, after
        self._old, self._new = before_count, after_count
        self._position = position
        self._read_to = commit.offset
        self._fork = _fork(now, after)
        self._shared_end = after.end_offset if self._fork is None else self._fork
        # Of the log afterwards, the group has read nothing from there on: the epochs of the two copies show that, or
        # the epoch of the commit, which ended there
        others = [each for each in (self._fork, position.truncated_to) if each is not None]
        self._known_to = min((self._read_to, *others))

    def impact(self) -> Impact:
        """Return the result."""
        unread = self._old.between(max(self._read_to, self._now.start_offset))
        kept = self._new.between(max(self._known_to, self._after.start_offset))
        same = self._new.between(max(self._read_to, self._after.start_offset), self._shared_end)
        lost = max(0, unread.records - same.records)
        resume, position = self._position.offset, self._position
        repeated = None if resume is None else self._new.between(resume, self._known_to).records
        reused = max(0, self._read_to - self._after.end_offset)
        gone = self._gone(lost)
        damage = self._damage(resume)
        earliest = self._new.between(self._after.start_offset, self._known_to).records
        unread_after = kept.records
        effect, detail = self._effect(lost, gone, repeated, damage)
        is_reset = effect == "reset"
        skipped: int | None = lost
        if effect == "diverges" and position.truncated_to is not None:
            skipped = self._new.between(position.truncated_to, self._read_to).records
        return Impact(
            commit=self._commit,
            effect=effect,
            path=self._after.path,
            resume_offset=resume,
            log_start_offset=self._after.start_offset,
            log_end_offset=self._after.end_offset,
            unread_records=unread.records,
            remaining_records=None if resume is None else self._new.between(resume).records,
            repeated_records=repeated,
            skipped_records=skipped,
            first_skipped_ms=gone.first_timestamp_ms,
            last_skipped_ms=gone.last_timestamp_ms,
            earliest_repeated=earliest if is_reset else None,
            earliest_skipped=lost if is_reset else None,
            latest_skipped=lost + unread_after if is_reset else None,
            truncated_to=position.truncated_to,
            reused_offsets=reused,
            damage_offset=damage,
            reset_offset=self._reset_offset(),
            detail=detail + (_PENDING if self._commit.is_pending else "") + self._unknown(),
        )

    def _gone(self, lost: int) -> Span:
        """Return the span of the unread records that are gone, as far as they are at an end of the log."""
        none = type(self._old.spans[0])() if self._old.spans else None
        after = self._after
        found = [
            self._old.between(max(self._read_to, self._shared_end)),
            self._old.between(max(self._read_to, self._now.start_offset), max(self._read_to, after.start_offset)),
        ]
        for each in found:
            if lost and each.records == lost:
                return each
        return none or found[0]

    def _damage(self, resume: int | None) -> int | None:
        """Return the offset of the first place that consumers of the group cannot read; None: there is none."""
        return self._new.damage_from(self._after.start_offset if resume is None else resume)

    def _reset_offset(self) -> int:
        """Return where the group should be: it repeats nothing there, and skips nothing that is still to be read."""
        target = min(max(self._read_to, self._after.start_offset), self._after.end_offset)
        found = self._position.truncated_to
        return target if found is None else max(min(target, found), self._after.start_offset)

    def _effect(self, lost: int, gone: Span, repeated: int | None, damage: int | None) -> tuple[Effect, str]:
        after, offset = self._after, self._read_to
        resume = self._position.offset
        if resume is None:
            return "reset", self._of_reset(lost, gone)
        if self._position.truncated_to is not None:
            return "diverges", self._of_divergence(self._position.truncated_to)
        parts = []
        if repeated:
            parts.append(f"its commits after {resume} are lost, so it reads {count_of(repeated, 'record')} again")
        elif resume != offset:
            parts.append(f"its last commit is lost, and it goes on at {resume} in place of {offset}")
        if lost:
            parts.append(self._lost_text(lost, gone))
        if damage is not None:
            parts.append(f"the log cannot be read at offset {damage:,}: its consumers stop there, or skip records")
        effect: Effect = "unchanged"
        if lost or repeated:
            effect = "skips" if lost else "repeats"
        elif damage is not None:
            effect = "stops"
        unread = self._new.between(resume).records
        where = f"It goes on at {resume:,}, with {count_of(unread, 'record')} to read"
        if not parts:
            at_end = ", the end of the log" if resume == after.end_offset else ""
            return effect, f"{where}{at_end}." if unread else f"It goes on at {resume:,}{at_end}."
        return effect, f"{where}; {'; '.join(parts)}."

    def _of_reset(self, lost: int, gone: Span) -> str:
        after, offset = self._after, self._read_to
        if self._position.range == "no-commit":
            why = f"Its commit of {offset:,} is lost, so auto.offset.reset decides"
        elif self._position.range == "below-start":
            why = f"Its offset {offset:,} is below the log start offset {after.start_offset:,}: {_RANGE}"
        else:
            why = f"Its offset {offset:,} is beyond the end of the log, {after.end_offset:,}: {_RANGE}"
        again = self._new.between(after.start_offset, self._known_to).records
        unread = self._new.between(max(self._known_to, after.start_offset)).records
        earliest = f"earliest goes back to {after.start_offset:,} and reads {count_of(again, 'record')} again"
        if self._position.range == "below-start":
            earliest = f"earliest goes on at {after.start_offset:,}"
        latest = f"latest goes on at {after.end_offset:,}"
        if unread:
            latest += f" and skips {count_of(unread, 'record')} that {_are(unread)} still there"
        text = f"{why}: {earliest}; {latest}."
        if lost:
            text += f" In any case {self._lost_text(lost, gone)}."
        return text + self._of_epochs()

    def _lost_text(self, lost: int, gone: Span) -> str:
        """Return how many records are gone that the group has not read, and which, as a clause."""
        least = "at least " if len(self._old.damages) > len(self._new.damages) else ""
        where = []
        if gone.records == lost and self._read_to < self._after.start_offset:
            where.append(f"offsets {self._read_to:,} to {self._after.start_offset - 1:,}")
        elif gone.records == lost:
            first, last = max(self._read_to, self._shared_end), self._now.end_offset - 1
            where.append(f"offsets {first:,} to {last:,}")
        if gone.first_timestamp_ms is not None and gone.last_timestamp_ms is not None:
            first_time, last_time = moment(gone.first_timestamp_ms), moment(gone.last_timestamp_ms)
            where.append(f"of {first_time}" + ("" if first_time == last_time else f" to {last_time}"))
        which = f" ({', '.join(where)})" if where else ""
        others = "" if self._fork is None else f", and the log has other records from offset {self._fork:,} on"
        return f"{least}{count_of(lost, 'record')} that it has not read {_are(lost)} gone{which}{others}"

    def _of_epochs(self) -> str:
        """Return what clients do that check leader epochs, and what happens once offsets are assigned again."""
        if self._position.range != "beyond-end":
            return ""
        end, offset = self._after.end_offset, self._read_to
        found = self._position.truncated_to
        epoch = -1 if self._commit.after is None else self._commit.after.leader_epoch
        if found is not None:
            return (
                f" The commit has leader epoch {epoch}: clients that check it (Java 2.3, librdkafka 2.1 and later) go "
                f"on at {found:,} whatever the policy, unless it is none."
            )
        return (
            f" The commit has no leader epoch: new records get the offsets {end:,} to {offset - 1:,} again, and a "
            f"consumer that starts after that goes on at {offset:,} and skips them silently."
        )

    def _of_divergence(self, found: int) -> str:
        new = self._new.between(found, self._read_to).records
        return (
            f"From offset {found:,} on this log has other records than the one that the group read. Clients that check "
            f"leader epochs (Java 2.3, librdkafka 2.1 and later) go back to {found:,} and read "
            f"{count_of(new, 'record')} there; older ones go on at {self._read_to:,} and skip "
            f"{'it' if new == 1 else 'them'}."
        )

    def _unknown(self) -> str:
        if not (self._old.has_unknown or self._new.has_unknown):
            return ""
        return " A batch cannot be opened, so that its records are not counted."


def with_expiry(impact: Impact, expires_ms: int | None, now_ms: int) -> Impact:
    """Return what becomes of a group in a partition, with the time at which its offset expires."""
    if expires_ms is None:
        return impact
    is_expired = expires_ms <= now_ms
    text = impact.detail + (_EXPIRED.format(moment(expires_ms)) if is_expired else "")
    return replace(impact, expires_ms=expires_ms, is_expired=is_expired, detail=text)


_EXPIRED: Final = (
    " This offset has expired at {}: the coordinator deletes it at its next check unless the group is in use again "
    "before that, and then auto.offset.reset decides."
)
_DOUBT: Final = (
    "{path} has other records from offset {fork:,} on, and the commit of {offset:,} has no leader epoch: it is unknown "
    "whether the group has read those or the ones of this log."
)
_RANGE: Final = "the fetch fails, and auto.offset.reset decides"
_PENDING: Final = " An open transaction is to commit another offset of this partition, which counts if it is committed."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
