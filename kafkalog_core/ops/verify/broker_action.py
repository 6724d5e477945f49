"""What a broker does at its next start with damage in a log, in words: the simulated start of its partition is asked.

Without a log directory it is unknown whether the last shutdown was clean: both starts are asked then.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.findings.kinds import CLEAN_MARK, DENIED, MARK_OF_ALL
from kafkalog_core.findings.logs import DAMAGE_REASONS, V07_SUFFIX, ZERO_TAIL
from kafkalog_core.findings.next_commands import AS_BROKER, AT_DAMAGE
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.kafka.start.outcome import Start
from kafkalog_core.kafka.start.results import LoadOptions
from kafkalog_core.ops.verify.metadata_log import snapshot_damage
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.kafka.logdir.top_files import PartitionContext
    from kafkalog_core.kafka.releases import Release
    from kafkalog_core.kafka.start.outcome import Outcome
    from kafkalog_core.kafka.start.results import LoadProblem
    from kafkalog_core.ops.verify.verdict import PlaceVerdict

__all__ = ["BrokerAction", "DamagePlace", "Starts", "Unmarking", "is_unmarking", "with_broker_actions"]

_CUT_REASONS: Final = frozenset({"torn-tail", "zero-filled", "bad-length", "unknown-magic", "crc-mismatch"})
_FRAMING: Final = _CUT_REASONS | {"offset-order"}
"""What a start may notice."""
_TAIL_REASONS: Final = frozenset({"torn-tail", "zero-filled"})
_BY_CHECKSUM: Final = frozenset({"crc-mismatch", "unknown-magic"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagePlace:
    """Damage in a log.

    Args:
        reason: one of `LOG_DAMAGE`.
        path: of the log.
        base_offset: of its segment.
        log_bytes: size of the log.
        position: first byte of the damage.
        size_bytes: of the damage.
        is_active: whether the segment is the last one.
        is_zeros: whether nothing but zeros follow in the file.
    """

    reason: str
    path: str
    base_offset: int
    log_bytes: int
    position: int
    size_bytes: int
    is_active: bool
    is_zeros: bool = False

    @property
    def rest_bytes(self) -> int:
        """Bytes of the log from this place on."""
        return self.log_bytes - self.position

    @property
    def is_tail(self) -> bool:
        """Whether nothing but this damage follows, so that no whole batch is lost with it."""
        return self.is_active and self.size_bytes >= self.rest_bytes

    @property
    def is_plain_tail(self) -> bool:
        """Whether the log ends here as a crash or preallocation leaves it: in a torn append, or in zeros alone.

        Other bytes after the zeros are data, of which it is unknown what they were.
        """
        return self.is_tail and (self.reason == "torn-tail" or self.is_zeros)


@dataclass(frozen=True, slots=True)
class BrokerAction:
    """What a broker does with damage, and what helps.

    Args:
        text: what it does, whole sentences.
        lost_bytes: bytes of logs that it deletes, at most.
        severity: None: that of the damage, wherever it is.
        cure: None: likewise.
        next_step: template of the next command; None: that of the damage, which saves what can be read. A cut is named
            only where no whole batch is lost by it, or where no broker starts without one.
        may_stop: whether the broker may not start.
    """

    text: str
    lost_bytes: int = 0
    severity: Severity | None = None
    cure: str | None = None
    next_step: str | None = None
    may_stop: bool = False


_COPY_AWAY: Final = "copy the directory away and see what can be read after this place: kafkalog dump --resync"
_REPLICA: Final = f"Copy the partition from a healthy replica. Without one, {_COPY_AWAY}."
_SAVE: Final = f"Start no broker on it yet. Copy the partition from a healthy replica; without one, {_COPY_AWAY}."
_UNMARK: Final = (
    "With the broker stopped, copy the directory away and truncate the log here: kafkalog truncate --at-damage. Or "
    f"delete {CLEAN_MARK}: the next start then recovers the log, and truncates it here too. {MARK_OF_ALL}"
)
_TAIL_CUT: Final = "Nothing needs to be done: the next start truncates the log here, and no whole batch is lost."
_TAIL: Final = (
    f"After a crash nothing needs to be done: the next start truncates the log here. Where {CLEAN_MARK} is there, copy "
    "the directory away and truncate the log here: kafkalog truncate --at-damage. Or delete that file while the broker "
    f"is stopped, so that the next start recovers the log. {MARK_OF_ALL}"
)
_INSIDE: Final = BrokerAction(
    "Does not read the records of a batch at its start: keeps the batch and serves it to consumers, which fail here."
)
_SAME_ALWAYS: Final = {
    "unreadable": BrokerAction(
        "Takes the whole log directory offline at the first read that reaches this place, at its start or later."
    ),
    "over-limit": BrokerAction(
        "Reads it: the limit is kafkalog's own. Kafka 0.8.2 to 0.10 truncate what they recover at a message larger "
        "than max.message.bytes; no other release does."
    ),
}
_UNNOTICED: Final = "Does not notice it at its start; consumers may skip records here."


class Starts:
    """The next start of a broker on one partition, after the shutdown that the disk shows or after either kind.

    Args:
        path: of the partition directory.
        context: what its log directory says of it, as it is loaded.
        release: returns the one whose rules count.
        now_ms: the time of the start, ms since 1970.
    """

    def __init__(self, path: str, context: PartitionContext, release: Callable[[], Release], now_ms: int) -> None:
        self._path = path
        self._context = context
        self._release = release
        self._now_ms = now_ms

    @cached_property
    def _start(self) -> Start | None:
        """None: the partition cannot be read, or is of 0.7."""
        try:
            partition = read_partition(self._path)
        except StorageError:  # reported with the partition
            return None
        if partition.format == "v07":
            return None
        return Start(partition, self._context, LoadOptions.of(self._release(), partition.topic, self._now_ms))

    @cached_property
    def _clean(self) -> Start | None:
        return None if self._start is None else self._start.after(is_clean=True)

    @cached_property
    def _unclean(self) -> Start | None:
        return None if self._start is None else self._start.after(is_clean=False)

    def action(self, place: DamagePlace, topic: str | None, end_offset: int | None) -> BrokerAction | None:
        """Return what the broker does with a place; None: it is unknown.

        Args:
            place: damage in one of the logs.
            topic: of the partition.
            end_offset: where its log ends; None: that is unknown.
        """
        if place.reason in _SAME_ALWAYS:
            return _SAME_ALWAYS[place.reason]
        if place.reason not in _FRAMING:
            return _INSIDE
        if self._context.is_clean is None and topic != METADATA_TOPIC:
            return self._either(place, end_offset)
        start = self._clean if self._context.is_clean else self._unclean
        return None if start is None else _action(place, start, end_offset)

    def after_crash(self, place: DamagePlace, end_offset: int | None) -> BrokerAction | None:
        """Return what it does with a place after an unclean shutdown."""
        if place.reason in _SAME_ALWAYS or place.reason not in _FRAMING or self._unclean is None:
            return None
        return _action(place, self._unclean, end_offset)

    @property
    def problem(self) -> LoadProblem | None:
        """Why the next start fails; None: it does not, or it is unknown whether the last shutdown was clean."""
        is_clean = self._context.is_clean
        start = None if is_clean is None else self._clean if is_clean else self._unclean
        return None if start is None else start.result.problem

    @property
    def failure_after_crash(self) -> tuple[str, int | None] | None:
        """Path and byte at which the start after an unclean shutdown fails; None: it does not."""
        problem = None if self._unclean is None else self._unclean.result.problem
        return None if problem is None or problem.kind == "unknown" else (problem.path, problem.position)

    def _either(self, place: DamagePlace, end_offset: int | None) -> BrokerAction | None:
        if self._clean is None or self._unclean is None:
            return None
        clean, crashed = _action(place, self._clean, end_offset), _action(place, self._unclean, end_offset)
        scope = "" if place.is_active else ", unless the recovery point is after this segment"
        text = (
            "It is unknown whether the last shutdown was clean. After a clean one, the broker "
            f"{_joined(clean.text)} After an unclean one{scope}, it {_joined(crashed.text)}"
        )
        may_stop = clean.may_stop or crashed.may_stop
        if place.is_plain_tail:
            return BrokerAction(text, 0, "warning", _TAIL, AT_DAMAGE, may_stop)
        return BrokerAction(text, cure=_SAVE, may_stop=may_stop)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count:,} bytes"


def _joined(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def _action(place: DamagePlace, start: Start, end_offset: int | None) -> BrokerAction:
    outcome = start.at(place.path, place.base_offset, place.position, place.size_bytes)
    if outcome.fate in {"stops", "unknown"}:
        return _stopped(outcome)
    if outcome.fate == "deleted":
        why = f": {outcome.why}" if outcome.why else ""
        lost = f" {_bytes(outcome.lost_bytes)} are lost." if outcome.lost_bytes else ""
        return BrokerAction(f"Deletes the whole segment{why}.{lost}", outcome.lost_bytes, cure=_SAVE)
    if outcome.fate == "truncated":
        return _truncated(place, outcome)
    if outcome.fate == "kept":
        text = f"Recovers the segment, as {outcome.why}, and keeps this place"
        return BrokerAction(f"{text}. Consumers may skip records here, or fail.", cure=_REPLICA)
    return _unread(place, start, end_offset)


def _stopped(outcome: Outcome) -> BrokerAction:
    problem = outcome.problem
    if problem is None:
        raise RuntimeError("a start that stops has a problem")
    sentence = problem.sentence.removesuffix(".")
    where = ""
    if not outcome.is_at_place:
        byte = "" if problem.position is None else f"byte {problem.position:,} of "
        where = f" because of {byte}{os.path.basename(problem.path)}"
    if outcome.fate == "unknown":
        return BrokerAction(f"What it does here is unknown{where}: {sentence}.", cure=_SAVE)
    severity: Severity = "error"
    return BrokerAction(
        f"Does not start{where}: {sentence}.", severity=severity, cure=_SAVE, next_step=AT_DAMAGE, may_stop=True
    )


def _truncated(place: DamagePlace, outcome: Outcome) -> BrokerAction:
    position = outcome.position or 0
    if place.is_tail and position >= place.position:
        is_plain = place.is_plain_tail
        return BrokerAction(
            f"Truncates the log here: {_bytes(place.rest_bytes)} that hold no whole batch.",
            outcome.lost_bytes,
            "info" if is_plain else None,
            _TAIL_CUT if is_plain else _SAVE,
            AS_BROKER,
        )
    here = "here" if position >= place.position else f"at byte {position:,}, before this place"
    rest = place.log_bytes - position
    later = ""
    if outcome.later:
        later = f", and deletes the {count_of(outcome.later, 'segment')} after it"
    text = f"Truncates the log {here}, as {outcome.why}: {_bytes(rest)} of this segment{later}."
    if outcome.later:
        text += f" {_bytes(outcome.lost_bytes)} are lost, whole batches among them."
    return BrokerAction(text, outcome.lost_bytes, cure=_SAVE)


def _unread(place: DamagePlace, start: Start, end_offset: int | None) -> BrokerAction:
    why = "the last shutdown was clean" if start.is_clean else "the segment is below the recovery point"
    if place.reason == "offset-order":
        return BrokerAction(_UNNOTICED)
    if place.reason in _BY_CHECKSUM:
        text = f"Computes no checksum at its start, as {why}, and serves the batch to consumers, which fail here."
        return BrokerAction(text, cure=_REPLICA)
    rest = _bytes(place.rest_bytes)
    found_end = start.result.end_offset
    if place.is_tail:
        text = f"Takes this place for the end of the log, as {why}, and appends after these {rest}: nothing that is "
        text += "appended can be read then."
        cure = _UNMARK if place.reason in _TAIL_REASONS else _SAVE
        return BrokerAction(text, severity="error", cure=cure, next_step=AT_DAMAGE)
    if place.is_active and end_offset is not None and found_end < end_offset:
        text = f"Takes offset {found_end:,} for the end of the log, as {why}, though there are records up to offset "
        text += f"{end_offset - 1:,}: it assigns their offsets again."
        return BrokerAction(text, severity="error", cure=_SAVE, next_step=AT_DAMAGE)
    text = (
        f"Does not read this place at its start, as {why}. Reads that come here fail, so consumers do not get to the "
    )
    return BrokerAction(f"{text}{rest} after it.", cure=_REPLICA)


_V07_ACTION: Final = (
    "Truncates the log here: after an unclean shutdown 0.7 reads its last file up to the first message that is not "
    "whole."
)
_V07_CURE: Final = "Nothing needs to be done: the next start truncates the log here, and no whole message is lost."


def damage_places(verdict: PartitionVerdict) -> Iterator[tuple[Finding, DamagePlace | None]]:
    """All findings of a partition; where one is of damage in a log of 0.8 or later, with its place among the logs."""
    segments = {each.path: each for each in verdict.segments if not each.path.endswith(V07_SUFFIX)}
    last = verdict.segments[-1].path if verdict.segments else None
    for finding in verdict.findings:
        reason = DAMAGE_REASONS.get(finding.code)
        segment = segments.get(finding.path)
        if reason is None or segment is None or finding.position is None:
            yield finding, None
            continue
        place = DamagePlace(
            reason=reason,
            path=finding.path,
            base_offset=segment.base_offset,
            log_bytes=segment.size_bytes,
            position=finding.position,
            size_bytes=finding.size_bytes or 0,
            is_active=finding.path == last,
            is_zeros=finding.code == ZERO_TAIL,
        )
        yield finding, place


def with_broker_actions(verdict: PartitionVerdict, starts: Starts, context: PartitionContext) -> Iterator[Finding]:
    """Yield all findings of a partition; those of damage with what a broker does about it in this place."""
    last = verdict.segments[-1] if verdict.segments else None
    last_v07 = last.path if last is not None and last.path.endswith(V07_SUFFIX) else None
    for finding, place in damage_places(verdict):
        action = None if place is None else starts.action(place, verdict.topic, verdict.log_end_offset)
        if action is not None:
            yield replace(
                finding,
                broker_action=action.text,
                severity=action.severity or finding.severity,
                cure=action.cure or finding.cure,
                next_step=action.next_step or finding.next_step,
            )
        elif finding.code == "log.torn-tail" and finding.path == last_v07 and context.is_clean is not True:
            yield replace(finding, severity="info", broker_action=_V07_ACTION, cure=_V07_CURE)
        else:
            yield snapshot_damage(finding) if finding.path.endswith(".checkpoint") else finding


_RECOVERED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_NOT_READ: Final = frozenset({DENIED, "file.not-readable", "dir.unreadable", "log.unreadable", "batch.over-limit"})
_FAILS: Final = frozenset(
    {"record.control-key", "record.control-value", "record.control-type", "txn.plain-inside", "txn.marker-unreadable"}
)
"""At these the replay of a recovered segment fails, and of some it cuts what is behind them before."""
_SAFE: Final = "Verified: without the mark the next start would cut nothing else in this log directory."

_ALONE: Final = "What is here can be cut by itself: kafkalog truncate --at-damage shows the plan for this partition."


class _Cut(NamedTuple):
    """Where recovery would cut first in a partition, and what there is the reason."""

    partition: str
    place: str


class Unmarking:
    """One log directory that has the mark of a clean stop: what recovery would cut in it.

    Args:
        has_checksums: whether batches were read, so that one whose checksum is wrong has been found.
    """

    def __init__(self, *, has_checksums: bool) -> None:
        self._is_known = has_checksums
        self._count = 0
        self._cuts: list[_Cut] = []

    def add(self, verdict: PartitionVerdict | PlaceVerdict, name: DirectoryName, starts: Starts) -> None:
        """One of its partitions has been checked."""
        if name.state not in _RECOVERED or name.topic == METADATA_TOPIC:  # the metadata log is recovered in any case
            return
        self._count += 1
        if not isinstance(verdict, PartitionVerdict) or any(one.code in _NOT_READ for one in verdict.findings):
            self._is_known = False
        if isinstance(verdict, PartitionVerdict):
            cut = _first_cut(verdict, starts)
            if cut is not None:
                self._cuts.append(_Cut(os.path.basename(verdict.path), cut))

    def settled(self, findings: Sequence[Finding], *, is_whole: bool) -> tuple[Finding, ...]:
        """Findings whose cure is to delete the mark say what that would do; `is_whole`: all partitions were added."""
        if not any(map(is_unmarking, findings)):
            return tuple(findings)
        is_known = is_whole and self._is_known
        return tuple(
            self._settled(finding, is_known=is_known) if is_unmarking(finding) else finding for finding in findings
        )

    def _settled(self, finding: Finding, *, is_known: bool) -> Finding:
        if not self._cuts:
            return replace(finding, cure=(finding.cure or "").replace(MARK_OF_ALL, _SAFE)) if is_known else finding
        cure = self._warning(is_known=is_known)
        return replace(finding, cure=f"{cure} {_ALONE}" if finding.code.startswith("log.") else cure)

    def _warning(self, *, is_known: bool) -> str:
        first, count = self._cuts[0], len(self._cuts)
        of_all = f"{count:,} of {self._count:,}" if is_known else f"at least {count:,}"
        partitions = "partition" if (self._count if is_known else count) == 1 else "partitions"
        return (
            f"Start no broker on it yet, and do not delete {CLEAN_MARK}, though that might mend this: the mark is that "
            "of the whole log directory, and without it the next start would cut damaged batches, and all that is "
            f"behind them, off {of_all} {partitions}, the first {first.partition} at {first.place}. Copy the log "
            "directory away, mend what is damaged there, and verify it again."
        )


def is_unmarking(finding: Finding) -> bool:
    """Whether its cure is to delete the mark of the clean stop."""
    return finding.cure is not None and CLEAN_MARK in finding.cure


def _first_cut(verdict: PartitionVerdict, starts: Starts) -> str | None:
    """The first place at which recovery would truncate a log with whole batches after it, or fail; None: there is none.

    A partition without damage is not read again: nothing is truncated there.
    """
    if not any(finding.code in DAMAGE_REASONS or finding.code in _FAILS for finding in verdict.findings):
        return None
    places: list[tuple[int, int, str]] = []
    for _, place in damage_places(verdict):
        action = None if place is None else starts.after_crash(place, verdict.log_end_offset)
        if place is not None and action is not None and action.lost_bytes and action.severity != "info":
            places.append(
                (place.base_offset, place.position, f"byte {place.position:,} of {os.path.basename(place.path)}")
            )
    if places:
        return min(places)[2]
    failure = starts.failure_after_crash
    if failure is None:
        return None
    path, position = failure
    return os.path.basename(path) if position is None else f"byte {position:,} of {os.path.basename(path)}"
