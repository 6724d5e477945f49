"""What a preflight foresees of a disk of the corpus, and what the broker that was started on it did, to compare them.

The broker's side is read from its own log, from the sheet of the case, and from the files that it left.
"""

from __future__ import annotations

import gzip
import re
import struct
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.engine.targets import resolve
from kafkalog_core.findings.broker_lines import hear
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.preflight.preflight import PreflightRequest, preflight
from kafkalog_core.ops.preflight.sentences import logged_message
from tests.corpus.verifying import NOW_MS
from tests.support.corpus import faults, recovering, replaying, walking
from tests.support.corpus.faults import STARTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.ops.preflight.partition_starts import PartitionStart
    from kafkalog_core.ops.preflight.preflight import Preflight
    from tests.support.corpus.faults import Fault
    from tests.support.corpus.recovering import Pair

NONE: Final = "-"
_OVERHEAD: Final = 12
_LEAST: Final = 17
"""Bytes of a batch with which a broker begins to look at it."""
_LAST_START: Final = " starting (kafka.server.KafkaServer)"
_LOGS: Final = ("broker.log", "broker-3.log", "expected/recovery-log-lines.txt")
_IN_LOG: Final = re.compile(
    r"\[(?:LogLoader|Log) partition=(?P<partition>[^,\]]+).*Corruption found in segment (?P<segment>\d+),"
    r" truncating to offset (?P<offset>\d+)"
    r"|Corruption found in segment (?P<old_segment>\d+) of log (?P<old_partition>\S+), truncating to offset"
    r" (?P<old_offset>\d+)"
)
_BAD: Final = re.compile(r"Found invalid messages in log segment \S+?([^/ ]+-\d+/\d+)\.log at byte offset (\d+)")
_ALL: Final = re.compile(r"partition=([^,\]]+).*Deleting all segments because logEndOffset")
_STRAY: Final = re.compile(r"Log in \S*?([^/ ]+-\d+) marked stray and renamed")
_OFFLINE: Final = re.compile(r"Stopping serving logs in dir (\S+)")


@dataclass(frozen=True, slots=True)
class Case:
    """A disk on which a broker was started; one of `fault` and `pair` is given."""

    id: str
    fault: Fault | None = None
    pair: Pair | None = None

    def lay(self, corpus: Path, into: Path) -> list[Path]:
        """Put the disk below a directory; return the log directories that are there, that of the metadata log last."""
        if self.fault is None:
            assert self.pair is not None
            return [self.pair.lay(corpus, into)[0]]
        walk = walking.lay(corpus, self.fault, into)
        homes = [home for home in walk.homes if home.is_dir() and any(home.iterdir())]
        return homes if walk.metadata is None else [*homes, walk.metadata]

    def options(self, corpus: Path, into: Path) -> dict[str, Any]:
        """Return the release and the settings of the broker."""
        case = "/".join(self.id.split("/")[:2])
        pair = self.pair or recovering.Pair(id=self.id, case=case, before="", after="")
        options: dict[str, Any] = pair.options(recovering.sheet_of(corpus, pair), into)["kafka"]
        if case.endswith("two-log-dirs-4.3.1"):
            with open(options["config"], "a", encoding="utf-8") as file:
                file.write(f"log.dirs={into}/disk/A,{into}/disk/B\n")
        there = {path.name.rpartition("-")[0] for path in into.rglob("*-*") if path.is_dir()}
        given = options["topic_assignments"]
        return options | {"topic_assignments": [each for each in given if each.partition(":")[0] in there]}

    def has_started(self, corpus: Path) -> bool:
        """Return whether the broker started on the disk as it was laid."""
        if self.fault is not None:
            return bool(self.fault.sheet["started"])
        assert self.pair is not None
        notes = recovering.sheet_of(corpus, self.pair).get("notes") or ()
        return not any("refused to start on stage damaged" in note for note in notes if isinstance(notes, list))

    def log(self, corpus: Path) -> list[str]:
        """Return the lines of the broker's log about this start."""
        home = corpus / self.id
        if self.pair is not None and not self.pair.is_alone:
            home = corpus / self.pair.case
            recovery = corpus / f"{self.id.removesuffix('-killed')}-recovery.log"
            if recovery.exists():
                return recovery.read_text().splitlines()
        whole = home / "broker.log.gz"
        if whole.exists():  # of all the broker's runs, of which this start is the last
            lines = gzip.decompress(whole.read_bytes()).decode().splitlines()
            starts = [number for number, line in enumerate(lines) if _LAST_START in line]
            if starts:
                return lines[starts[-1] :]
        for name in _LOGS:
            if (home / name).exists():
                return (home / name).read_text().splitlines()
        return []


def cases() -> list[Case]:
    """All faults and crashes of the corpus, in a stable order."""
    crashes = [pair for pair in recovering.pairs() if pair.fault is None]
    found = [Case(fault.path, fault=fault) for fault in walking.all_faults()]
    return sorted([*found, *(Case(pair.id, pair=pair) for pair in crashes)], key=lambda case: case.id)


def foresee(directories: Sequence[Path], kafka: dict[str, Any], now_ms: int = NOW_MS) -> Preflight:
    """Run a preflight."""
    targets = tuple(resolve([str(path) for path in directories]))
    return preflight(PreflightRequest(targets=targets, now_ms=now_ms, kafka=SettingsRequest(**kafka)))


# --- the columns of the table -----------------------------------------------------------------------------------------
def foreseen(result: Preflight) -> tuple[str, ...]:
    """Return what is foreseen: started, directories offline, strays, what is deleted of logs, bad places."""
    stop = result.start.stop
    offline = {Path(path).name for path in result.start.offline}
    strays = {each.name for each in result.partitions if each.fate == "stray"}
    deleted, bad = set(), set()
    for each in result.partitions:
        deleted |= {*_deleted(each)}
        bad |= {*_bad(each)}
    return (
        "starts" if stop is None else "dies",
        _listed(offline if stop is None else ()),
        _listed(strays if stop is None else ()),
        _listed(deleted),
        _listed(bad),
    )


def _deleted(start: PartitionStart) -> Iterator[str]:
    for step in start.steps:
        stem = PurePosixPath(step.path).name.partition(".")[0]
        if step.kind in {"truncated", "emptied"}:
            yield f"{start.name}:{int(stem)}->{step.offset}"
    if start.cut == "below-start":
        yield f"{start.name}:all"


def _bad(start: PartitionStart) -> Iterator[str]:
    for step in start.steps:
        stem = PurePosixPath(step.path).name.partition(".")[0]
        if step.kind == "truncated" and not _is_cut_off(step.path, step.position or 0):
            yield f"{start.name}/{int(stem)}@{step.position}"


def _is_cut_off(path: str, position: int) -> bool:
    """Whether the end of the file cuts a batch off: `FileLogInputStream.nextBatch` ends there without a message."""
    data = Path(path).read_bytes()[position:]
    return len(data) < _LEAST or len(data) < _OVERHEAD + struct.unpack_from(">i", data, 8)[0]


def seen(case: Case, corpus: Path) -> tuple[str, ...]:
    """Return what the broker did, by its log."""
    lines = case.log(corpus)
    started = case.has_started(corpus)
    deleted: set[str] = set()
    bad: set[str] = set()
    for line in lines:
        if (match := _IN_LOG.search(line)) is not None:
            partition = match["partition"] or match["old_partition"]
            segment, offset = match["segment"] or match["old_segment"], match["offset"] or match["old_offset"]
            deleted.add(f"{partition}:{int(segment)}->{offset}")
        if (match := _ALL.search(line)) is not None:
            deleted.add(f"{match[1]}:all")
        if (match := _BAD.search(line)) is not None:
            name, _, stem = match[1].partition("/")
            bad.add(f"{name}/{int(stem)}@{match[2]}")
    text = "\n".join(lines)
    names = {"$LOGDIR": "disk", "$LOGDIR2": "B"} if "$LOGDIR2" in text else {}
    offline = {names.get(match, match) for match in _OFFLINE.findall(text)}
    return (
        "starts" if started else "dies",
        _listed(offline if started else ()),
        _listed(set(_STRAY.findall(text)) if started else ()),
        _listed(deleted),
        _listed(bad),
    )


def logged_why(case: Case, corpus: Path, result: Preflight) -> bool:
    """Return whether the log of a dead broker names the file because of which it does not start, by preflight."""
    assert result.start.stop is not None
    path = PurePosixPath(result.start.stop.path)
    text = "\n".join(line for line in case.log(corpus) if " INFO " not in line)
    name = path.name.removesuffix(".log") if not path.stem.isdecimal() else f"{path.parent.name}/{path.name}"
    return name in text


def is_logged(case: Case, corpus: Path, result: Preflight) -> bool:
    """Return whether the log of a dead broker has the message that is foreseen; also where none is."""
    stop = result.start.stop
    message = None if stop is None else logged_message(stop)
    heard = {each.message.name for line in case.log(corpus) if (each := hear(line)) is not None}
    return message is None or message.name in heard


def _listed(names: Any) -> str:
    return ",".join(sorted(names)) or NONE


# --- the files afterwards ---------------------------------------------------------------------------------------------
def other_directories(result: Preflight, home: Path, after: Path) -> list[str]:
    """Return where the directories that a broker left are others than those that are foreseen.

    A directory that is assigned to the broker is made again, empty; `-delete` directories are there for a minute.
    """
    before, left = _directories(home), _directories(after)
    strays = {each.name for each in result.partitions if each.fate == "stray" and each.log_dir == str(home)}
    made = {name.partition(".")[0] for name in left - before if name.endswith("-stray")}
    found = [f"{name}: renamed to -stray" for name in made ^ strays]
    gone = {name for name in before - left if not name.endswith(("-delete", "-stray"))}
    return found + [f"{name}: gone" for name in gone - strays]


def _directories(home: Path) -> set[str]:
    return {path.name for path in home.iterdir() if path.is_dir()} if home.is_dir() else set()


def beyond_allowed(home: Path, after: Path, options: dict[str, Any]) -> list[str]:
    """Return the files of a dead broker that are neither as they were, nor as the start of their partition leaves them.

    The broker died while its threads loaded partitions: some of them had come to their end.
    """
    if not any(path.is_file() for path in after.rglob("*")):
        return []
    loaded = replaying.after_start(home, {"kafka": options}, recovering.started_ms(after))
    found = []
    for name, files in loaded.items():
        if not (after / name).is_dir():
            found.append(f"{name}: gone")
            continue
        before, left = recovering.files_of(home / name), recovering.files_of(after / name)
        for file, data in left.items():
            allowed = {before.get(file), files.get(file)} - {None}
            if not any(data == each or _is_grown(file, data, each) for each in allowed if each is not None):
                found.append(f"{name}/{file}: other")
    return found


def _is_grown(file: str, data: bytes, content: bytes) -> bool:
    """Whether an index has the room of the active segment behind its entries."""
    return file.endswith("index") and data.startswith(content) and not data[len(content) :].strip(b"\0")


def has_states(case: Case) -> bool:
    """Return whether the files of a fault were kept while the broker ran on them, or when it had died."""
    return case.fault is not None and STARTED in case.fault.states


def states(case: Case, corpus: Path, into: Path) -> tuple[Path, Path]:
    """Return the directory before and after the start of a fault."""
    assert case.fault is not None
    faults.build(corpus, case.fault, faults.BEFORE, into / "before")
    faults.build(corpus, case.fault, STARTED, into / "after")
    return into / "before", into / "after"


def place_of(home: Path, laid: Path) -> str | None:
    """Return the path of a log directory below its disk; None: it is that of the metadata log."""
    disk = laid / "disk"
    return str(home.relative_to(disk)) if home.is_relative_to(disk) else None


# --- offsets ----------------------------------------------------------------------------------------------------------
def offsets(case: Case) -> dict[str, tuple[int, int]]:
    """Return the first offset and the end that the broker answered for a topic, by topic; where it answered."""
    readings = {} if case.fault is None else case.fault.readings
    return {
        topic: (reading["low"], reading["high"])
        for topic, reading in readings.items()
        if reading.get("low") is not None and reading.get("high") is not None
    }


def bounds(result: Preflight, topic: str) -> tuple[int, int] | None:
    """Return the same as it is foreseen; None: the partition is not loaded, and another one may be in its place."""
    for each in result.partitions:
        load = each.result
        if f"{topic}-0" == each.name and each.fate == "loaded" and load is not None:
            return load.log_start_offset, load.end_offset
    return None
