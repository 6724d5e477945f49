"""The verdict of a preflight in one sentence, and what happens to one partition in a few words."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.broker_messages import BROKER_MESSAGES
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.format.properties import NO_IDS
from kafkalog_core.ops.preflight.partition_starts import total_of
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.findings.kinds import BrokerMessage, Finding
    from kafkalog_core.kafka.sim.start.disk import DiskStart, Fate, StartEvent
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart

__all__ = ["WAITS_FOR_LOG", "counted", "event_text", "log_line_of", "logged_message", "verdict_of", "what_of", "why_of"]

_FATES: Final[Mapping[Fate, str]] = {
    "refused": "refused",  # alone it stops the broker, or takes its log directory offline: the event shows which
    "not-loaded": "not served",
    "offline": "offline",
    "unserved": "not served",
    "stray": "renamed to -stray",
    "unknown": "not simulated",
}
_SUBJECTS: Final = {
    "log": "damage in the log",
    "batch": "damage in the log",
    "record": "damage in the log",
    "txn": "a damaged transaction",
    "index": "wrong indexes",
    "timeindex": "wrong indexes",
    "txnindex": "wrong transaction indexes",
    "snapshot": "wrong producer snapshots",
    "epochs": "wrong leader epochs",
    "high-watermark": "a high watermark after the log end offset",
}
_MISSING: Final = frozenset({"segment.gap", "batch.gap", "batch.gaps"})
_EPOCHS: Final = frozenset({"batch.epoch-back", "batch.bad-epoch"})
_SHOWN: Final = 3
WAITS_FOR_LOG: Final = (
    "a broker with ZooKeeper wrote the directory, and the release has none: it waits for a metadata log"
)
_ELSEWHERE: Final = "broker.metadata-elsewhere"
_REFUSED: Final = "A broker refuses the file: "
"""How the messages of findings about text files begin."""
_READ: Final = frozenset(
    {
        *("meta.no-version", "meta.no-broker-id", "meta.no-voter", "meta.only-voter"),
        *("meta.other-node-id", "meta.other-node-of-config", "meta.other-directory-id"),
        *("dir.other-cluster", "dir.other-node"),
    }
)
"""Findings about a meta.properties that a broker can read."""
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_NOT_SIMULATED: Final = "no file at the top of its directory shows how the broker was stopped, or it is of Kafka 0.7"


def counted(number: int, noun: str) -> str:
    """Return a number with commas and its noun."""
    return count_of(number if number == 1 else f"{number:,}", noun)


def verdict_of(
    release: str,
    start: DiskStart,
    partitions: Sequence[PartitionStart],
    *,
    is_harmed: bool,
    closed: int = 0,
    missing: int = 0,
    renamed: int = 0,
    emptied: int = 0,
) -> str:
    """Return one sentence without its full stop: whether the broker starts, and what is lost.

    Args:
        release: of the broker.
        start: what its parts decide about the whole.
        partitions: each with its start.
        is_harmed: whether something is lost, hidden or refused, or may not be opened.
        closed: number of files that the user of the broker may be unable to open.
        missing: number of log directories without a partition that the metadata log assigns to them.
        renamed: number of log directories with a directory.id that the node never registered.
        emptied: number of unfinished copies that are all there is of their partitions.
    """
    head, stop = f"A {release} broker", start.stop
    if stop is None and partitions and all(each.fate == "unknown" for each in partitions):
        return f"What {head[0].lower()}{head[1:]} does with {_names(partitions)} is not simulated"
    if stop is None:
        parts = [*_directories(start, partitions), *_logs(partitions)]
        if missing:
            parts.append("creates empty partitions in the place of directories that are missing")
        if renamed:
            where = counted(renamed, "log directory")
            parts.append(f"may lead no partition of {where} with a new directory.id before its second start")
        if emptied:
            parts.append(f"truncates {counted(emptied, 'unfinished copy')} to nothing")
        if closed:
            head += f" whose user may open {counted(closed, 'file')} of another user"
        verb = "may start" if any(each.has_disorder_of_metadata for each in partitions) else "starts"
        return f"{head} {verb}{_joined(parts)}{_after(partitions, is_harmed=is_harmed)}"
    more = len({event.path for event in start.events if event.effect == "stops"} - {stop.path})
    others = f" ({counted(more, 'other file')} {'stops' if more == 1 else 'stop'} it too)" if more else ""
    truncated = [each for each in partitions if each.is_truncated]
    is_only = len(start.log_dirs) == len(start.offline)
    gone = "no other log directory is left" if is_only else "no node goes on without the directory of its metadata log"
    last = f", and {gone}" if stop.effect == "offline" else ""
    before = ""
    if truncated:
        lost = total_of(each.lost_records for each in truncated)
        records = f" ({counted(lost, 'record')})" if lost else ""
        before = f"; while it loads other partitions it may truncate {counted(len(truncated), 'log')}{records}"
    return f"{head} does not start: {event_text(stop, tuple(start.log_dirs))}{last}{others}{before}"


def event_text(event: StartEvent, log_dirs: Sequence[str]) -> str:
    """Return the file of an event, and what is wrong with it, without a full stop."""
    name = _short(event.path, log_dirs)
    place = name if event.position is None else f"{name}, byte {event.position:,}"
    return f"{place}: {event.sentence.removeprefix(_REFUSED).rstrip('.')}"


def logged_message(event: StartEvent) -> BrokerMessage | None:
    """Return the message in the broker's own log about an event; None: it is unknown, or one of several."""
    code = None if event.finding is None else event.finding.code
    found = [each for each in BROKER_MESSAGES.values() if each.severity == "error" and code in each.codes]
    return found[0] if len(found) == 1 else None


def log_line_of(event: StartEvent, start: DiskStart) -> str | None:
    """Return that message, with `...` for what only the broker knows, in the words of the newest releases."""
    message = logged_message(event)
    meta = fixed_file_name(FileKind.META_PROPERTIES)
    if NO_IDS in event.sentence:
        message = BROKER_MESSAGES["broker.meta-no-node-id"]
    unread = {
        os.path.dirname(each.path)
        for each in start.events
        if os.path.basename(each.path) == meta and not _is_read(each)
    }
    if unread >= {*start.log_dirs}:
        message = BROKER_MESSAGES["broker.meta-none"]  # MetaPropertiesEnsemble.verify looks for this first
    if message is None:
        return None
    known = {
        "path": event.path,
        "entry": event.path,
        "dir": event.log_dir,
        "partition_dir": os.path.dirname(event.path),
    }
    if message.name == _ELSEWHERE:
        del known["dir"]  # that of the settings, which the sentence above has
    return _PLACEHOLDER.sub(lambda match: known.get(match[1], "..."), message.wordings[0])


def _is_read(event: StartEvent) -> bool:
    """Return whether the broker can read a meta.properties: it lacks the id of the node, or has a wrong one."""
    return NO_IDS in event.sentence or (event.finding is not None and event.finding.code in _READ)


def _short(path: str, log_dirs: Sequence[str]) -> str:
    """Return a path below the one log directory; of several, the whole path."""
    return path.removeprefix(f"{log_dirs[0]}/") if len(log_dirs) == 1 else path


def _joined(parts: Sequence[str]) -> str:
    if not parts:
        return ""
    *others, last = parts
    return f", {', '.join(others)} and {last}" if others else f", and {last}"


def _directories(start: DiskStart, partitions: Sequence[PartitionStart]) -> Iterator[str]:
    offline = start.offline
    if offline:
        named = offline[0] if len(offline) == 1 else counted(len(offline), "log directory")
        within = [each for each in partitions if each.fate in {"offline", "refused"}]
        records = counted(sum(each.records for each in within), "record")
        yield f"takes {named} offline with {counted(len(within), 'partition')} ({records})"
    strays = [each for each in partitions if each.fate == "stray"]
    if strays:
        records = counted(sum(each.records for each in strays), "record")
        yield f"sets {_names(strays)} with {records} aside (renames {'it' if len(strays) == 1 else 'them'} to -stray)"
    unserved = [each for each in partitions if each.fate == "unserved"]
    if unserved:
        records = counted(sum(each.records for each in unserved), "record")
        yield f"serves none of {counted(len(unserved), 'partition')} ({records})"


def _logs(partitions: Sequence[PartitionStart]) -> Iterator[str]:
    truncated = sum(each.is_cut for each in partitions)
    if truncated:
        yield f"truncates {counted(truncated, 'log')}"
    others = [each for each in partitions if each.losses and not each.is_cut]
    deleted = sum(each.cut == "below-start" for each in others)
    if deleted:
        yield f"deletes {counted(deleted, 'log')}"
    if len(others) > deleted:
        yield f"replaces segments of {counted(len(others) - deleted, 'log')}"
    hidden = [each for each in partitions if each.hidden_offsets]
    if hidden:
        yield f"hides the end of {counted(len(hidden), 'log')}"


def _after(partitions: Sequence[PartitionStart], *, is_harmed: bool) -> str:
    """Return what is lost, or that nothing is, as the end of the sentence."""
    losing = [each for each in partitions if each.losses]
    losing = [each for each in losing if each.lost_records != 0] or losing
    texts = []
    if losing:
        records = total_of(each.lost_records for each in losing)
        where = _names(losing) if len(losing) <= _SHOWN else counted(len(losing), "partition")
        what = "an unknown number of records" if records is None else counted(records, "record")
        first = losing[0].first_lost
        from_ = f" from offset {first:,} on" if len(losing) == 1 and first is not None else ""
        if records == 0:  # what is truncated was damaged before: how much it held is not known
            texts.append("no record that can be read is lost")
        else:
            texts.append(f"{what} of {where}{from_} {'is' if records == 1 else 'are'} lost{_committed(losing)}")
    hidden = [each for each in partitions if each.hidden_offsets]
    if hidden:
        offsets = sum(each.hidden_offsets for each in hidden)
        texts.append(
            f"{counted(offsets, 'offset')} of {_names(hidden)} {'is' if offsets == 1 else 'are'} assigned again"
        )
    if not texts and not is_harmed:
        # what the disk shows as lost before the start is in the clause about what the start does not notice
        is_before = any(finding.code.startswith("high-watermark.") for each in partitions for finding in each.silent)
        texts.append("the start loses no record" if is_before else "no record is lost")
    unknown = [each for each in partitions if each.fate == "unknown"]
    if unknown:
        texts.append(f"what happens to {_names(unknown)} is unknown")
    silent = [each for each in partitions if each.silent]
    if silent:
        wrong = first_of([*dict.fromkeys(_kind_of(finding) for each in silent for finding in each.silent)])
        texts.append(f"it does not notice what is wrong in {_names(silent)}: {wrong}")
    return f": {'; '.join(texts)}" if texts else ""


def _committed(losing: Sequence[PartitionStart]) -> str:
    """Return how many of the lost records are committed, as the end of a clause."""
    committed = total_of(each.lost_committed for each in losing)
    if committed is None:
        return ", and it is unknown whether they were committed"
    return f", at least {committed:,} of them committed" if committed else ", none of them known to be committed"


def _kind_of(finding: Finding) -> str:
    """Return what a finding about something that a start does not notice is about, in a few words."""
    if finding.code in _MISSING:
        return "missing offsets"
    subject = "epochs" if finding.code in _EPOCHS else finding.code.partition(".")[0]
    return _SUBJECTS.get(subject, "other damage")


def _names(partitions: Sequence[PartitionStart]) -> str:
    names = [each.name for each in partitions]
    if len(names) > _SHOWN:
        return f"{', '.join(names[:_SHOWN])} and {counted(len(names) - _SHOWN, 'other partition')}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def what_of(start: PartitionStart) -> str:
    """Return what happens to a partition, in a few words."""
    words = [_FATES[start.fate]] if start.fate in _FATES else []
    cut = next((step for step in start.steps if step.kind in {"truncated", "emptied"}), None)
    if cut is not None:
        words.append(f"{cut.kind} at offset {cut.offset:,}")
    elif start.cut == "below-start":
        words.append("all segments deleted")
    if start.hidden_offsets and start.result is not None:
        words.append(f"hidden from offset {start.result.end_offset:,} on")
    if not words and any(step.kind == "renamed" for step in start.steps):
        words.append("segments replaced")
    if start.silent:
        words.append("damage that it does not notice")
    return ", ".join(words) or "files rebuilt or deleted"


def why_of(start: PartitionStart) -> str:
    """Return where and why, as clauses; empty: its fate is all."""
    problem = None if start.result is None else start.result.problem
    if start.result is None:
        return _NOT_SIMULATED
    if problem is not None:
        place = "" if problem.position is None else f", byte {problem.position:,}"
        return f"{os.path.basename(problem.path)}{place}: {problem.sentence.rstrip('.')}"
    texts = []
    for step in start.steps:
        if step.why and step.kind in {"truncated", "emptied", "recovered"}:
            where = "" if step.position is None else f" from byte {step.position:,} on"
            texts.append(f"{os.path.basename(step.path)}{where}: {step.why}")
    deleted = [step for step in start.steps if step.kind == "deleted" and step.why and step.size_bytes]
    if deleted:
        texts.append(f"{counted(len(deleted), 'segment')} deleted: {deleted[0].why}")
    small = [step for step in start.steps if step.kind == "deleted" and step.why and not step.size_bytes]
    if small:
        texts.append(f"{counted(len(small), 'file')} deleted: {small[0].why}")
    renamed = [step for step in start.steps if step.kind == "renamed"]
    if renamed:
        texts.append(f"{counted(len(renamed), 'file')} renamed: {renamed[0].why}")
    texts += [loss.why[0].lower() + loss.why[1:] for loss in start.losses if loss.why]
    if start.silent:
        texts.append(f"{counted(len(start.silent), 'finding')} below")
    return "; ".join(texts)
