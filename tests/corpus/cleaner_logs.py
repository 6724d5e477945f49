"""What a broker's log says about its cleaner and its retention: which passes ran, over what, and when."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIME: Final = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[.,](\d{3})")
_STARTED: Final = re.compile(r"Starting the log cleaner")
_BEGUN: Final = re.compile(r"Beginning cleaning of log (\S+?)\.?(?: \(|$)")
_RANGE: Final = re.compile(r"for log (\S+) for \d+ segments in offset range \[(\d+), (\d+)\)")
_CLEANED: Final = re.compile(
    r"Swapping in cleaned segment (?P<into>.*?) for segment\(s\) (?P<sources>.*) in log (?P<log>\S+)"
)
_SEGMENT: Final = re.compile(r"LogSegment\(baseOffset=(\d+), size=(\d+)(?:, lastModifiedTime=(\d+))?")
_NUMBERS: Final = re.compile(r"\d+")
_LOG_NAME: Final = re.compile(r"(?:Log\((?:dir=)?\S*/)?(?P<name>[^/,)]+?)[.,)]*$")
_DELETED: Final = (
    re.compile(r"Scheduling log segment (?P<what>\d+) for log (?P<log>\S+) for deletion"),
    re.compile(r"partition=(?P<log>[^,]+), .*Deleting segment (?P<what>LogSegment.*) due to"),
    re.compile(r"partition=(?P<log>[^,]+), .*Deleting segments due to [^:]* breach: (?P<what>.*)"),
)


@dataclass(frozen=True, slots=True)
class Swap:
    """Segments, by their base offsets, that became one.

    Args:
        base: of the new segment.
        sources: what it was made from.
        size_bytes: of the new segment; null: the release does not say.
        mtime_ms: of its log; null: the release does not say.
        source_mtimes: of the logs that it was made from, by base offset; those of which the release says it.
    """

    base: int
    sources: tuple[int, ...]
    size_bytes: int | None = None
    mtime_ms: int | None = None
    source_mtimes: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class LoggedPass:
    """One pass of the cleaner over one partition.

    Args:
        partition: its directory's name.
        began_ms: when its first line was written; the pass asked for the time right before.
        first_dirty: where the offset map began.
        end: behind what could be cleaned.
        swaps: in their order.
    """

    partition: str
    began_ms: int
    first_dirty: int = -1
    end: int = -1
    swaps: list[Swap] = field(default_factory=list)


@dataclass(slots=True)
class LoggedDeletion:
    """A segment that retention took away."""

    partition: str
    at_ms: int
    base: int


@dataclass(slots=True)
class Session:
    """What happened between one start of a broker's cleaner and the next one, in order."""

    events: list[LoggedPass | LoggedDeletion] = field(default_factory=list)

    def of(self, partition: str) -> list[LoggedPass | LoggedDeletion]:
        """The events of one partition."""
        return [event for event in self.events if event.partition == partition]


def sessions(text: str) -> list[Session]:
    """Read a broker's log; one without a cleaner has none."""
    found: list[Session] = []
    for at_ms, line in _timed(text):
        if _STARTED.search(line):
            found.append(Session())
        elif found:
            _note(found[-1], at_ms, line)
    return found


def deletions(text: str) -> list[LoggedDeletion]:
    """What retention took away, whether or not a cleaner runs."""
    everything = Session()
    for at_ms, line in _timed(text):
        _note(everything, at_ms, line)
    return [event for event in everything.events if isinstance(event, LoggedDeletion)]


def _timed(text: str) -> Iterator[tuple[int, str]]:
    for line in text.splitlines():
        if match := _TIME.match(line):
            moment = datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(tzinfo=UTC)
            yield int(moment.timestamp()) * 1000 + int(match[3]), line


def _note(session: Session, at_ms: int, line: str) -> None:
    if match := _BEGUN.search(line):
        session.events.append(LoggedPass(match[1], at_ms))
    elif match := _RANGE.search(line):
        current = _current(session, match[1])
        current.first_dirty, current.end = int(match[2]), int(match[3])
    elif match := _CLEANED.search(line):
        name = _LOG_NAME.match(match["log"])
        assert name is not None, line
        _current(session, name["name"]).swaps.append(_swap(match["into"], match["sources"]))
    else:
        for pattern in _DELETED:
            if match := pattern.search(line):
                bases = [base for base, _, _ in _SEGMENT.findall(match["what"])] or [match["what"]]
                session.events += [LoggedDeletion(match["log"], at_ms, int(base)) for base in bases]


def _current(session: Session, partition: str) -> LoggedPass:
    """The pass that the line belongs to: one cleaner thread, one pass at a time."""
    last = next(event for event in reversed(session.events) if isinstance(event, LoggedPass))
    assert last.partition == partition
    return last


def _swap(into: str, sources: str) -> Swap:
    new = _SEGMENT.search(into)
    if new is None:
        return Swap(int(into), tuple(map(int, _NUMBERS.findall(sources))))
    old = _SEGMENT.findall(sources)
    return Swap(
        int(new[1]),
        tuple(int(base) for base, _, _ in old),
        int(new[2]),
        int(new[3]) if new[3] else None,
        tuple((int(base), int(mtime)) for base, _, mtime in old if mtime),
    )
