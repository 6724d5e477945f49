"""What a broker does at its next start with damage in a log: the simulated start of the partition, in words.

Outside of a log directory it is unknown whether the last shutdown was clean: both starts are simulated then.
`unmarking` finds what a start without the clean shutdown file would truncate in the other partitions.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.findings import found
from kafkalog_core.findings.broker_actions import AFTER_EITHER, DOES_NOT_START, START_ACTIONS
from kafkalog_core.findings.kinds import UNLESS_RECOVERED
from kafkalog_core.findings.logs import DAMAGE_REASONS, LOG_DAMAGE, ZERO_TAIL
from kafkalog_core.findings.logs_07 import V07_SUFFIX
from kafkalog_core.findings.metadata_log import SNAPSHOT_ACTION, SNAPSHOT_CURE
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, parse_file_name
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.batch_places import GO_BACK
from kafkalog_core.kafka.sim.start.candidates import RECOVERY_REASONS, recovers_v07
from kafkalog_core.kafka.sim.start.outcome import Outcome, Start
from kafkalog_core.kafka.sim.start.replay import SegmentReads, end_of_log
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from kafkalog_core.findings import Finding
    from kafkalog_core.findings.broker_actions import StartAction
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.rule_table import OffsetSearch
    from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
    from kafkalog_core.kafka.sim.start.replay import EndOfLog
    from kafkalog_core.kafka.sim.start.results import LoadOptions, LoadProblem
    from kafkalog_core.ops.verify.verdict import PartitionVerdict

__all__ = [
    "BrokerAction",
    "DamagePlace",
    "Starts",
    "damage_places",
    "end_after_clean",
    "end_findings",
    "snapshot_damage",
    "with_broker_actions",
]

_SEEN_BY_START: Final = frozenset(
    {"torn-tail", "zero-filled", "bad-length", "unknown-magic", "crc-mismatch", "offset-order"}
)
"""Reasons of damage that a start may notice."""
_SAME_ALWAYS: Final = frozenset({"unreadable", "over-limit"})
"""Reasons with which every start does the same."""
_OTHER: Final = "contents"
"""The reason of a place that is wrong in another way than that of `LOG_DAMAGE`."""
_HARMLESS: Final = frozenset({_OTHER, *(reason for reason, damage in LOG_DAMAGE.items() if damage.severity != "error")})
"""Reasons of places that remain what they are if a start fails elsewhere."""
_GAPS: Final = frozenset({"segment.gap", "segment.overlap", "batch.gap", "batch.gaps"})
"""Findings about offsets, and not about the bytes at their place; those between segments have no position."""
_TAIL_REASONS: Final = frozenset({"torn-tail", "zero-filled"})
_BY_CHECKSUM: Final = frozenset({"crc-mismatch", "unknown-magic"})


class DamagePlace(Struct, frozen=True, kw_only=True):
    """Damage in a log.

    Args:
        reason: one of `LOG_DAMAGE`, or `contents`.
        path: of the log.
        base_offset: of its segment.
        log_bytes: size of the log, in bytes.
        position: first byte of the damage.
        size_bytes: size of the damage, in bytes.
        is_active: whether the segment is the last one.
        is_zeros: whether only zeros follow in the file.
        is_below_base: whether it is a whole batch of offsets below the base offset of the segment.
    """

    reason: str
    path: str
    base_offset: int
    log_bytes: int
    position: int
    size_bytes: int
    is_active: bool
    is_zeros: bool = False
    is_below_base: bool = False

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

        Other bytes after the zeros are unknown data.
        """
        return self.is_tail and (self.reason == "torn-tail" or self.is_zeros)


class BrokerAction(Struct, frozen=True):
    """What a broker does with damage, and what helps.

    Args:
        kind: template of the texts.
        text: what the broker does, in whole sentences.
        lost_bytes: bytes of logs that it deletes, at most.
    """

    kind: StartAction
    text: str
    lost_bytes: int = 0

    @classmethod
    def of(cls, name: str, lost_bytes: int = 0, **values: str) -> Self:
        """Return the action of a name in `START_ACTIONS`; `values` fill the placeholders of its text."""
        kind = START_ACTIONS[name]
        return cls(kind, kind.text.format_map(values), lost_bytes)


class Starts:
    """The next start of a broker on one partition, after the shutdown that the disk shows or after either kind.

    Args:
        path: of the partition directory.
        context: what its log directory shows of it when it is loaded.
        options: returns the release and the settings of the broker for a topic; called when damage is found.
    """

    def __init__(self, path: str, context: PartitionContext, options: Callable[[str | None], LoadOptions]) -> None:
        self._path = path
        self._context = context
        self._options = options

    @cached_property
    def _start(self) -> Start | None:
        """The start after the shutdown that the disk shows; None: the partition cannot be read, or is of 0.7."""
        try:
            partition = read_partition(self._path)
        except StorageError:  # reported with the partition
            return None
        if partition.format == "v07":
            return None
        return Start(partition, self._context, self._options(partition.topic))

    @cached_property
    def _clean(self) -> Start | None:
        return None if self._start is None else self._start.after(is_clean=True)

    @cached_property
    def _unclean(self) -> Start | None:
        return None if self._start is None else self._start.after(is_clean=False)

    @property
    def _next(self) -> Start | None:
        """The start after the shutdown that the disk shows; an unclean one where it shows none."""
        return self._clean if self._context.is_clean else self._unclean

    def _is_either(self, topic: str | None) -> bool:
        """Return whether it is unknown how the last shutdown was; a node recovers its metadata log in any case."""
        return self._context.is_clean is None and topic != METADATA_TOPIC

    def action(
        self, place: DamagePlace, topic: str | None, end_offset: int | None, otherwise: str = ""
    ) -> BrokerAction | None:
        """Return what the broker does with a place; None: it is unknown, or the broker does not notice the place.

        Args:
            place: damage in one of the logs.
            topic: of the partition.
            end_offset: log end offset; None: unknown.
            otherwise: what it does where it does not notice the place.
        """
        if place.reason in _SAME_ALWAYS:
            return BrokerAction.of(place.reason)
        if self._is_either(topic):
            return self._either(place, end_offset, otherwise)
        start = self._next
        return None if start is None else _action(place, start, end_offset, otherwise)

    def settled(self, finding: Finding, topic: str | None) -> Finding:
        """Return a finding of an index or a snapshot with what the next start makes of it, as far as that is known."""
        action, name = finding.broker_action or "", parse_file_name(os.path.basename(finding.path))
        is_settled = name.kind in _SETTLED or UNLESS_RECOVERED in action
        if not is_settled or finding.severity == "info" or name.base_offset is None or self._is_either(topic):
            return finding
        start = self._next
        if start is None:
            return finding
        problem = start.result.problem
        if problem is not None and problem.is_failure and problem.path == finding.path:
            stopped = _stopped(Outcome(fate="stops", problem=problem, is_at_place=True), problem)
            return replace(finding, broker_action=stopped.text, severity="error")
        if name.kind is FileKind.SNAPSHOT:
            fate = _OF_SNAPSHOTS.get(start.snapshot_fate(name.base_offset) or "")
            return finding if fate is None else replace(finding, broker_action=START_ACTIONS[fate].text)
        why = start.why_recovered(name.base_offset)
        # the entry before it may have the segment recovered, and the index deleted, before this one is read
        is_passed = why and problem is None and action.startswith(DOES_NOT_START)
        if why is None or not (is_passed or UNLESS_RECOVERED in action):
            return finding
        rebuilt = BrokerAction.of("index-rebuilt", why=why).text
        return replace(finding, broker_action=rebuilt if why else action.replace(UNLESS_RECOVERED, ""))

    def after_crash(self, place: DamagePlace, end_offset: int | None) -> BrokerAction | None:
        """Return what it does with a place after an unclean shutdown."""
        if place.reason in _SAME_ALWAYS or place.reason not in _SEEN_BY_START or self._unclean is None:
            return None
        return _action(place, self._unclean, end_offset)

    @property
    def problem(self) -> LoadProblem | None:
        """Why the next start fails; None: it does not, or it is unknown whether the last shutdown was clean."""
        start = None if self._context.is_clean is None else self._next
        return None if start is None else start.result.problem

    @property
    def is_known(self) -> bool:
        """Whether it is known how the next start ends, and that it comes to its end."""
        return self._context.is_clean is not None and self._start is not None and self.problem is None

    @property
    def forgets_producers(self) -> bool:
        """Whether the next start knows no producer, because no snapshot is left after a clean shutdown."""
        return bool(self._context.is_clean) and self._clean is not None and self._clean.result.forgets_producers

    def is_cut(self, offset: int | None) -> bool:
        """Return whether the next start truncates the log at this offset or before."""
        start = self._next
        return offset is not None and self.is_known and start is not None and start.result.end_offset <= offset

    @property
    def misled_end(self) -> int | None:
        """The log end offset that a start after a clean shutdown takes by a wrong index; None: it takes the right one.

        Also None if the last shutdown was not clean: then the start rebuilds the index.
        """
        result = None if self._context.is_clean is False or self._clean is None else self._clean.result
        if result is None or result.problem is not None or not result.is_end_lost:
            return None
        return result.end_offset if result.end_offset == result.segments[-1].base_offset else None

    @property
    def failure_after_crash(self) -> tuple[str, int | None] | None:
        """Path and byte at which the start after an unclean shutdown fails; None: it does not."""
        problem = None if self._unclean is None else self._unclean.result.problem
        return None if problem is None or not problem.is_failure else (problem.path, problem.position)

    def _either(self, place: DamagePlace, end_offset: int | None, otherwise: str) -> BrokerAction | None:
        if self._clean is None or self._unclean is None:
            return None
        clean = _action(place, self._clean, end_offset, otherwise)
        unclean = _action(place, self._unclean, end_offset, otherwise)
        if clean == unclean:
            return clean
        kind = AFTER_EITHER["tail" if place.is_plain_tail else "any"]
        values = {
            "clean": _continued(otherwise if clean is None else clean.text),
            "unclean": _continued(otherwise if unclean is None else unclean.text),
            "scope": "" if place.is_active else ", unless the recovery point is after this segment",
        }
        return BrokerAction(kind, kind.text.format_map(values))


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count:,} bytes"


def _continued(text: str) -> str:
    """Return an action as the end of a sentence that has said how the broker was shut down: not as its reason again."""
    for reason in (RECOVERY_REASONS["unclean-stop"], _CLEAN):
        text = text.replace(f", because {reason}", "")
    return f"{text[:1].lower()}{text[1:]}"


def _action(place: DamagePlace, start: Start, end_offset: int | None, otherwise: str = "") -> BrokerAction | None:
    """Return the action that a start's outcome at a place is; None: the start does not notice the place.

    `otherwise`: what a broker does that does not notice it.
    """
    outcome = start.at(place.path, place.base_offset, place.position, place.size_bytes)
    is_whole = place.reason not in _SEEN_BY_START  # a batch of which the contents are wrong
    if is_whole and not _is_noticed(outcome) and (outcome.problem is None or place.reason in _HARMLESS):
        return _unnoticed(place, start, outcome, otherwise)
    if outcome.problem is not None:
        return _stopped(outcome, outcome.problem, is_damage=not is_whole)
    if outcome.fate == "deleted":
        why = f": {outcome.why}" if outcome.why else ""
        name = "deleted" if outcome.lost_bytes else "swept"
        return BrokerAction.of(name, outcome.lost_bytes, why=why, lost=_bytes(outcome.lost_bytes))
    if outcome.fate == "truncated":
        return _truncated(place, outcome)
    if outcome.fate == "kept":
        return _kept(place, start, outcome)
    return _unread(place, start, end_offset)


def _kept(place: DamagePlace, start: Start, outcome: Outcome) -> BrokerAction:
    name = "kept-hidden" if _hides_end(place, start) else "kept"
    action = BrokerAction.of(name, why=outcome.why, found_end=f"{start.result.end_offset:,}")
    if not _is_emptied_by_interval(place, start):
        return action
    other = BrokerAction.of("by-interval", interval=f"{start.index_interval_bytes:,}")
    return replace(action, text=f"{action.text} {other.text}")


def _is_emptied_by_interval(place: DamagePlace, start: Start) -> bool:
    """Return whether a start with another index.interval.bytes deletes a place whose offsets go back."""
    other = start.with_each_entry if place.reason == "offset-order" else None
    if other is None:
        return False
    outcome = other.at(place.path, place.base_offset, place.position, place.size_bytes)
    return outcome.fate in {"truncated", "deleted"}


def _unnoticed(place: DamagePlace, start: Start, outcome: Outcome, otherwise: str) -> BrokerAction | None:
    """Return the action at a place that a start does not notice; None: it is `otherwise`."""
    problem = outcome.problem
    if problem is None:
        return None if place.reason == _OTHER else _kept_closed(place, start.release) or BrokerAction.of("payload")
    if problem.kind == "split" and outcome.is_at_place:
        return BrokerAction.of("split", problem=problem.sentence.removesuffix("."))
    if outcome.fate != "stops" or outcome.is_at_place or not otherwise or otherwise.startswith(DOES_NOT_START):
        return None
    name = "offline-before-it" if problem.kind == "offline" else "stops-before-it"
    return BrokerAction.of(name, where=_place_of(problem), otherwise=_continued(otherwise))


def _kept_closed(place: DamagePlace, release: Release) -> BrokerAction | None:
    """Return the action at a message of magic 0 or 1 at which fetches fail; None: none does in this release."""
    search = rules_of(release).search
    if search == "last":
        return None
    try:
        with Source.open(place.path) as source:
            reads = SegmentReads(source, place.log_bytes, place.base_offset, None, search=search)
            is_closed = reads.is_closed(place.position)
    except StorageError:  # reported with the log
        return None
    return BrokerAction.of("payload-closed" if search == "base" else "payload-closed-4.0") if is_closed else None


def _place_of(problem: LoadProblem) -> str:
    byte = "" if problem.position is None else f"byte {problem.position:,} of "
    return f"{byte}{os.path.basename(problem.path)}"


def _is_noticed(outcome: Outcome) -> bool:
    """Return whether a start stops at a whole batch, or deletes it."""
    if outcome.problem is not None:
        return outcome.is_at_place and outcome.fate == "stops"
    return outcome.fate == "truncated" or (outcome.fate == "deleted" and outcome.lost_bytes > 0)


def _stopped(outcome: Outcome, problem: LoadProblem, *, is_damage: bool = True) -> BrokerAction:
    where, file = "", os.path.basename(problem.path)
    is_elsewhere = not outcome.is_at_place
    if is_elsewhere and file not in problem.sentence:
        where = f" because of {_place_of(problem)}"
    name: str = outcome.fate
    if problem.kind == "offline":
        name = "offline"
    elif problem.kind == "first-offset":
        name = "stops-until-2.0"
    elif name == "stops" and is_elsewhere and problem.position is None:
        name = "stops-elsewhere"
    elif name == "stops" and not is_damage:
        name = "stops-in-batch"
    return BrokerAction.of(name, where=where, problem=problem.sentence.removesuffix("."))


def _truncated(place: DamagePlace, outcome: Outcome) -> BrokerAction:
    position = outcome.position or 0
    if place.is_tail and position >= place.position:
        name = "tail-truncated" if place.is_plain_tail else "end-truncated"
        return BrokerAction.of(name, outcome.lost_bytes, rest=_bytes(place.rest_bytes))
    return BrokerAction.of(
        "truncated-and-later-deleted" if outcome.later else "truncated",
        outcome.lost_bytes,
        here="here" if position >= place.position else f"at byte {position:,}, before this place",
        why=outcome.why,
        rest=_bytes(place.log_bytes - position),
        later="segment" if outcome.later == 1 else count_of(outcome.later, "segment"),
        lost=_bytes(outcome.lost_bytes),
    )


def _hides_end(place: DamagePlace, start: Start) -> bool:
    """Return whether batches reach beyond the end that the broker finds because the offsets go back here."""
    return place.reason == "offset-order" and place.is_active and start.result.is_end_lost


def _unread(place: DamagePlace, start: Start, end_offset: int | None) -> BrokerAction:
    """Return the action for a place that a start does not read."""
    found_end = start.result.end_offset
    name = "unread"
    if place.reason == "offset-order":
        otherwise = "unread-order-below" if place.is_below_base else "unread-order"
        name = "unread-order-hidden" if _hides_end(place, start) else otherwise
    elif place.reason in _BY_CHECKSUM:
        name = "unread-checksum"
    elif place.is_active and end_offset is not None and found_end < end_offset:
        name = "unread-hidden"
    elif place.is_tail:
        name = "unread-tail" if place.reason in _TAIL_REASONS else "unread-end"
    return BrokerAction.of(
        name,
        why=_CLEAN if start.is_clean else "the segment is below the recovery point",
        rest=_bytes(place.rest_bytes),
        found_end=f"{found_end:,}",
        last="" if end_offset is None else f"{end_offset - 1:,}",
    )


def damage_places(verdict: PartitionVerdict) -> Iterator[tuple[Finding, DamagePlace | None]]:
    """Yield each finding of a partition, with its place if it is an error in a log of 0.8 or later."""
    segments = {each.path: each for each in verdict.segments if not each.path.endswith(V07_SUFFIX)}
    last = verdict.segments[-1].path if verdict.segments else None
    for finding in verdict.findings:
        segment = segments.get(finding.path)
        reason = DAMAGE_REASONS.get(finding.code, _OTHER)
        position = 0 if finding.position is None and finding.code in _GAPS else finding.position
        is_fine = reason == _OTHER and finding.severity == "info" and finding.code not in _GAPS
        if segment is None or position is None or is_fine:
            yield finding, None
            continue
        place = DamagePlace(
            reason=reason,
            path=finding.path,
            base_offset=segment.base_offset,
            log_bytes=segment.size_bytes,
            position=position,
            size_bytes=finding.size_bytes or 0,
            is_active=finding.path == last,
            is_zeros=finding.code == ZERO_TAIL,
            is_below_base=GO_BACK in finding.message and finding.offset == segment.base_offset,
        )
        yield finding, place


def with_broker_actions(verdict: PartitionVerdict, starts: Starts, context: PartitionContext) -> Iterator[Finding]:
    """Yield all findings of a partition; those of damage with what a broker does about it in this place."""
    last = verdict.segments[-1] if verdict.segments else None
    last_v07 = last.path if last is not None and last.path.endswith(V07_SUFFIX) else None
    # a gap alone changes nothing in a start, which is not simulated for it
    has_others = any(finding.severity == "error" and finding.code not in _GAPS for finding in verdict.findings)
    # of a damaged log, `log.end-hidden` reports it
    last_index = None if last is None or last.damage else f"{last.path.removesuffix('.log')}.index"
    for finding, place in damage_places(verdict):
        action = None
        if place is not None and (finding.code not in _GAPS or has_others):
            action = starts.action(place, verdict.topic, verdict.log_end_offset, finding.broker_action or "")
        if action is not None and finding.code in _GAPS:  # its own cure says how to get back what is missing
            yield replace(finding, broker_action=action.text)
        elif finding.code == "txn.open" and starts.forgets_producers:
            kind = START_ACTIONS["txn-forgotten"]
            yield replace(finding, broker_action=kind.text, cure=kind.cure, next_step=kind.next_step)
        elif finding.code == "txn.open" and has_others and starts.is_cut(finding.offset):
            yield replace(finding, broker_action=START_ACTIONS["txn-cut"].text)
        elif finding.code == _NO_SNAPSHOT and starts.is_known:
            name = "producers-forgotten" if starts.forgets_producers else "producers-read"
            yield replace(finding, broker_action=START_ACTIONS[name].text)
        elif action is not None:
            yield replace(
                finding,
                broker_action=action.text,
                severity=action.kind.severity or finding.severity,
                cure=action.kind.cure or finding.cure,
                next_step=action.kind.next_step or finding.next_step,
            )
        elif (
            finding.code == "log.torn-tail"
            and finding.path == last_v07
            and recovers_v07(verdict.path, is_clean=context.is_clean)
        ):
            kind = START_ACTIONS["v07-tail"]
            yield replace(finding, severity="info", broker_action=kind.text, cure=kind.cure)
        elif finding.path == last_index and finding.code in _OF_ENTRIES and starts.misled_end is not None:
            kind = START_ACTIONS["end-misled"]
            text = kind.text.format(found_end=f"{starts.misled_end:,}")
            yield replace(finding, severity="error", broker_action=text, cure=kind.cure, next_step=kind.next_step)
            last_index = None  # said once
        else:
            yield (
                snapshot_damage(finding)
                if finding.path.endswith(".checkpoint")
                else starts.settled(finding, verdict.topic)
            )


_OF_ENTRIES: Final = frozenset({"index.beyond-log", "index.wrong-position", "index.wrong-offset", "index.unsorted"})
"""Findings about entries of an offset index, of which the last one leads a start to the log end offset."""
_NO_SNAPSHOT: Final = "snapshot.missing"
_SETTLED: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT})
_OF_SNAPSHOTS: Final = {"unread": "snapshot-unread", "written": "snapshot-written"}
_CLEAN: Final = "the last shutdown was clean"


def snapshot_damage(finding: Finding) -> Finding:
    """Return a finding in a snapshot with what the node does: it neither recovers nor serves what is damaged there."""
    if finding.code not in DAMAGE_REASONS:
        return finding
    return replace(finding, broker_action=SNAPSHOT_ACTION, cure=SNAPSHOT_CURE)


# --- the end of the log -----------------------------------------------------------------------------------------------
def end_after_clean(verdict: PartitionVerdict, search: OffsetSearch) -> EndOfLog | None:
    """Return the log end offset that a broker assumes after a clean shutdown; None: unknown, or of 0.7.

    It reads the last segment from the last index entry on (`LogSegment.readNextOffset`), and headers alone, as the
    simulated start does: the last offset of a batch with a wrong size counts.

    Args:
        verdict: of a partition whose last segment is damaged.
        search: how the release looks up an offset.
    """
    try:
        partition = read_partition(verdict.path)
        if partition.format == "v07":  # its log ends at the end of its file: there is no offset index
            return None
        segment = partition.segments[-1]
        log = segment.files[0]
        return end_of_log(log.path, segment.size_bytes, segment.base_offset, segment.index, search=search)
    except (StorageError, IndexError):  # reported with the partition
        return None


def end_findings(verdict: PartitionVerdict, end: EndOfLog, *, is_reported: bool, is_named: bool) -> Iterator[Finding]:
    """Yield that damage or an index makes the log end offset another one after a clean shutdown, or unreadable.

    Args:
        verdict: of a partition whose last segment is damaged.
        end: as the broker finds it.
        is_reported: whether a finding about the damage already reports that the broker may not start.
        is_named: whether one already names the log end offset that the broker takes.
    """
    path = verdict.segments[-1].path
    place = {"topic": verdict.topic, "partition": verdict.partition}
    if end.obstacle is not None:
        if not is_reported:
            position, why = end.obstacle.position, end.obstacle.reason
            yield found("log.end-unreadable", path, position=position, why=why, **place)  # type: ignore[arg-type]
    elif (verdict.log_end_offset or 0) > end.offset and (end.is_lost or not is_named):
        last = (verdict.log_end_offset or 0) - 1
        yield found("log.end-hidden", path, offset=end.offset, last=last, **place)  # type: ignore[arg-type]
