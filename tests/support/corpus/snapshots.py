"""What there is to test: every partition directory of the corpus, and what was read from it where something was.

Nothing here knows a case's name. What belongs together follows from the layout: `pairing` for directories of a case,
`fault.json` for faults.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from kafkalog_core.structs import Struct, replace
from tests.corpus import pairing
from tests.support.corpus import archives, faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.support.corpus.archives import Contents

BEHIND_LAST = -1
_LOG_FILE = re.compile(r"(?:(?P<directory>.+)/)?\d{20}\.(?:log|kafka)")
_COMMITTED = ("records.read_committed.jsonl.gz", "read_committed.json")
_SAME_AS_BASE = "as in base"


class Snapshot(Struct, frozen=True, kw_only=True):
    """One partition directory at one time.

    `records` and `committed` are files of the corpus tree: what a consumer read, and what a read_committed one did
    (records, offsets, or a fault's sheet). `stopped_at` is the offset at which the consumer gave up with an error,
    `BEHIND_LAST` where the sheet names none: it saw nothing from there on. `goldens` are texts of Kafka's dump tool.
    `same_as` is the id of the base's snapshot where a fault has changed no file of this directory and none next to it.
    """

    log_dir: str
    partition: str
    fault: faults.Fault | None = None
    state: str = ""
    records: str | None = None
    committed: str | None = None
    stopped_at: int | None = None
    goldens: tuple[str, ...] = ()
    same_as: str | None = None

    @property
    def id(self) -> str:
        """Name of the test."""
        return f"{self.log_dir}/{self.partition}"

    @property
    def label(self) -> str:
        """The name for lists of exceptions: it says where the broker did not start on a fault."""
        return f"{self.id}!unserved" if self.fault and not self.fault.sheet["started"] else self.id


@lru_cache(maxsize=1)
def snapshots() -> tuple[Snapshot, ...]:
    """Every partition directory with log files, in a stable order."""
    contents = archives.contents(archives.source())
    sheets = {name.removesuffix(f"/{faults.SHEET}") for name in contents.texts if name.endswith(f"/{faults.SHEET}")}
    found = [*_plain(contents, sheets), *_faulty(contents, sheets)]
    return tuple(sorted(found, key=lambda snapshot: snapshot.id))


def _partitions(files: Iterable[str]) -> set[PurePosixPath]:
    """Directories with log files."""
    matches = (_LOG_FILE.fullmatch(name) for name in files)
    return {PurePosixPath(name) for name in {match["directory"] for match in matches if match}}


def _plain(contents: Contents, sheets: set[str]) -> Iterator[Snapshot]:
    found = {path for path in _partitions(contents.files) if not any(str(parent) in sheets for parent in path.parents)}
    truths = pairing.truths(contents.files, found)
    goldens = pairing.goldens(contents.files, found)
    for path in found:
        snapshot = Snapshot(log_dir=str(path.parent), partition=path.name, goldens=tuple(goldens.get(path, ())))
        if records := truths.get(path):
            beside = PurePosixPath(records).parent
            snapshot = replace(
                snapshot,
                records=records,
                committed=next((name for file in _COMMITTED if (name := str(beside / file)) in contents.files), None),
                stopped_at=_stopped_at(contents, PurePosixPath(records)),
            )
        yield snapshot


def _stopped_at(contents: Contents, records: PurePosixPath) -> int | None:
    """Where the consumer gave up; of single partitions the case's sheet says it."""
    if records.name not in pairing.BARE_TRUTHS:
        return None
    sheet = json.loads(contents.texts[str(pairing.case_of(records) / "case.json")])
    return _error_offset(sheet["runs"][records.parent.name]["reads"][pairing.BARE_TRUTHS[records.name][1]])


def _error_offset(reading: dict[str, Any]) -> int | None:
    return int(reading["error"].get("offset", BEHIND_LAST)) if reading["error"] else None


def _faulty(contents: Contents, sheets: set[str]) -> Iterator[Snapshot]:
    bases: dict[str, set[str]] = {}
    for name in sorted(sheets):
        fault = faults.Fault.parse(name, contents.texts[f"{name}/{faults.SHEET}"])
        if fault.base not in bases:
            prefix = fault.base + "/"
            bases[fault.base] = {path.removeprefix(prefix) for path in contents.files if path.startswith(prefix)}
        of_base = _by_directory(dict.fromkeys(bases[fault.base]))
        for state in fault.states:
            origins = fault.origins(state, bases[fault.base])
            found = _by_directory(origins)
            for path in _partitions(origins):
                is_same = all(found.get(place) == of_base.get(place) for place in (path, path.parent))
                snapshot = Snapshot(
                    log_dir=str(PurePosixPath(fault.path, state, path.parent)),
                    partition=path.name,
                    fault=fault,
                    state=state,
                    same_as=str(PurePosixPath(fault.base, path)) if is_same else None,
                )
                yield _with_reading(contents, fault, snapshot)


def _by_directory(origins: Mapping[str, str | None]) -> dict[PurePosixPath, dict[str, str | None]]:
    """The files of each directory, with the layer that each comes from; None is the base."""
    found: dict[PurePosixPath, dict[str, str | None]] = {}
    for name, layer in origins.items():
        found.setdefault(PurePosixPath(name).parent, {})[name] = layer
    return found


def _with_reading(contents: Contents, fault: faults.Fault, snapshot: Snapshot) -> Snapshot:
    """What was read while the broker ran is about the copy made while it ran; the dump tool was run before that."""
    golden = f"{fault.path}/golden/{snapshot.partition}.dump.txt.gz"
    if snapshot.state == faults.BEFORE and golden in contents.files:
        return replace(snapshot, goldens=(golden,))
    topic, _, number = snapshot.partition.rpartition("-")
    reading = fault.readings.get(topic) if number == "0" else None
    # A topic of which the broker knew no log start was not there to read.
    if snapshot.state != faults.STARTED or not reading or not reading.get("records") or reading["low"] is None:
        return snapshot
    directory = PurePosixPath(fault.path)
    beside = directory.parents[1] if reading["records"] == _SAME_AS_BASE else directory
    return replace(
        snapshot,
        records=str(beside / "truth" / snapshot.partition / pairing.RECORDS),
        committed=_committed_offsets(fault, reading, directory.parents[1] / "truth" / snapshot.partition),
        stopped_at=_error_offset(reading),
    )


def _committed_offsets(fault: faults.Fault, reading: dict[str, Any], base_truth: PurePosixPath) -> str | None:
    offsets = reading.get("read_committed_offsets")
    if offsets is None:
        return None
    return str(base_truth / _COMMITTED[1]) if offsets == _SAME_AS_BASE else f"{fault.path}/{faults.SHEET}"
