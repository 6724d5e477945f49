"""Directories before a broker's start and after it: what belongs together, and what is other in what we make of it.

What follows from the layout of the corpus stands here, what is odd about one case in `recovery_differences.txt`.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.format.names import FileKind, FileState, parse_file_name
from tests.support.corpus import archives, faults
from tests.support.corpus.faults import BEFORE, SHEET, STARTED, Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KAFKAS_OWN: Final = ("__consumer_offsets", "__transaction_state", "__cluster_metadata")
"""Their coordinators write to them as soon as the broker runs."""
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
_SMALL: Final = ("index.interval.bytes", "segment.index.bytes")
_OF_ALL_CASES: Final = {"log.index.interval.bytes": "512", "log.index.size.max.bytes": "10240"}
"""What every topic of the modern cases has, of which the sheet of some says nothing."""
_STAGES: Final = ((r"(?P<case>.+)/damaged", "{case}/recovered"), (r"(?P<case>.+)/crashed", "{case}/recovered"))
_ROUNDS: Final = re.compile(r"(?P<round>.+/round-\d+)-killed")
_KINDS: Final = frozenset(
    {FileKind.LOG, FileKind.LOG_V07, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A log directory, or a partition alone, that a broker was started on.

    Args:
        id: name of the test, and of the lines in the list.
        case: path of the case in the corpus tree.
        before: of the log directory in the corpus tree; of a fault in what is put together.
        after: the same for what the broker left, or had while it ran.
        fault: null: both are copies as they are.
        is_alone: `before` holds partitions and nothing of the log directory; it was killed after a clean stop.
    """

    id: str
    case: str
    before: str
    after: str
    fault: Fault | None = None
    is_alone: bool = False

    def lay(self, corpus: Path, into: Path) -> tuple[Path, Path]:
        """Put both states below a directory; they may be written to."""
        before, after = into / "before", into / "after"
        if self.fault is None:
            shutil.copytree(corpus / self.before, before)
            shutil.copytree(corpus / self.after, after)
        else:
            for state, place in ((BEFORE, before), (STARTED, after)):
                faults.build(corpus, self.fault, state, into / f"{state}-built")
                shutil.copytree(into / f"{state}-built" / self.before, place)
        if self.is_alone:
            names = [path.name.rpartition("-") for path in before.iterdir()]
            lines = [f"{topic} {number} {2**40}" for topic, _, number in names]
            (before / RECOVERY_POINTS).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
        return before, after

    def options(self, sheet: dict[str, Any], into: Path) -> dict[str, Any]:
        """The options of a plan: the release and the settings that the broker had."""
        broker = sheet.get("broker_configs")
        config = broker[0]["config"] if broker else sheet.get("server_props", {})
        config = config if broker or "topic_configs" in sheet else _OF_ALL_CASES
        path = into / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        topics = [
            f"{topic}:{key}={values[key]}"
            for topic, values in sheet.get("topic_configs", {}).items()
            for key in _SMALL
            if key in values
        ]
        kafka = {
            "kafka": sheet.get("kafka") or sheet["release"],
            "config": str(path),
            "assignments": [],
            "topic_assignments": topics,
        }
        return {"kafka": kafka}


def pairs() -> list[Pair]:
    """All of them, in a stable order."""
    contents = archives.contents(archives.source())
    directories = {str(PurePosixPath(name).parent) for name in contents.files}
    above = {str(PurePosixPath(name).parent) for name in directories}
    found = [*_staged(above), *_rounds(above), *_alone(above), *_faulty(contents.texts, contents.files)]
    return sorted(found, key=lambda pair: pair.id)


def _staged(directories: Iterable[str]) -> Iterator[Pair]:
    for name in directories:
        for pattern, after in _STAGES:
            match = re.fullmatch(f"{pattern}/logdir", name)
            if match:
                case = match["case"]
                yield Pair(id=case, case=case, before=name, after=f"{after.format(case=case)}/logdir")


def _rounds(directories: Iterable[str]) -> Iterator[Pair]:
    known = set(directories)
    for name in known:
        match = _ROUNDS.fullmatch(name)
        if match and f"{match['round']}-recovered-running" in known:
            case = str(PurePosixPath(name).parent)
            yield Pair(id=name, case=case, before=name, after=f"{match['round']}-recovered-running")


def _alone(directories: Iterable[str]) -> Iterator[Pair]:
    for name in directories:
        if name.endswith("/after-kill9-and-recovery"):
            fault = str(PurePosixPath(name).parent)
            case = str(PurePosixPath(fault).parent)
            yield Pair(id=fault, case=case, before=f"{fault}/after", after=name, is_alone=True)


def _faulty(texts: dict[str, bytes], files: Iterable[str]) -> Iterator[Pair]:
    for path, text in texts.items():
        if not path.endswith(f"/{SHEET}"):
            continue
        fault = Fault.parse(path.removesuffix(f"/{SHEET}"), text)
        if not fault.sheet["started"] or STARTED not in fault.states:
            continue
        prefix = f"{fault.base}/"
        tops = {name.removeprefix(prefix).partition("/")[0] for name in files if name.startswith(prefix)}
        homes = ["."] if "meta.properties" in tops else sorted(tops)
        lasting = [str(PurePosixPath(name).parent) for name in fault.origins(STARTED, _below(files, prefix))]
        for home in homes:
            if home == "." or any(name.startswith(f"{home}/") for name in lasting):
                case = "/".join(fault.path.split("/")[:2])
                name = fault.path if home == "." else f"{fault.path}/{home}"
                yield Pair(id=name, case=case, before=home, after=home, fault=fault)


def _below(files: Iterable[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in files if name.startswith(prefix)]


def sheet_of(corpus: Path, pair: Pair) -> dict[str, Any]:
    """The sheet of its case."""
    return dict(json.loads((corpus / pair.case / "case.json").read_text()))


def started_ms(after: Path) -> int:
    """About when the broker ran: nothing in the directory is later."""
    return max(int(path.stat().st_mtime * 1000) for path in after.rglob("*") if path.is_file())


def is_own(partition: str) -> bool:
    """Whether a partition directory is of one of Kafka's own topics."""
    return partition.rpartition("-")[0] in KAFKAS_OWN


def files_of(partition: Path) -> dict[str, bytes]:
    """What a broker reads of its segments, by name."""
    found = {}
    for path in sorted(partition.iterdir()):
        name = parse_file_name(path.name)
        if path.is_file() and name.kind in _KINDS and name.state is FileState.LIVE and name.canonical:
            found[path.name] = path.read_bytes()
    return found


def differences(mine: dict[str, bytes], theirs: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Names of files that differ, and how: `missing`, `extra`, `other`.

    The indexes of the last segment have room for more entries, zeros, as long as a broker runs.
    """
    last = max((name for name in mine if name.endswith((".log", ".kafka"))), default="").partition(".")[0]
    for name in sorted({*mine, *theirs}):
        if name not in theirs:
            yield name, "extra"
        elif name not in mine:
            yield name, "missing"
        elif mine[name] != theirs[name]:
            tail = theirs[name].removeprefix(mine[name]) if theirs[name].startswith(mine[name]) else b"?"
            is_room = name.startswith(last) and name.endswith(("index",)) and not tail.strip(b"\0")
            if not is_room:
                yield name, "other"


def epochs_without_election(text: str, end_offset: int) -> list[str]:
    """Lines of a leader-epoch-checkpoint without the entry that the election at the end of the log has added."""
    return [line for line in text.split("\n")[2:] if line and int(line.split()[1]) < end_offset]
