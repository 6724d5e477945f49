"""The text of Kafka's own dump tool, read back: one section a file, one dictionary a batch.

Modern goldens cover all files of a partition, each under `#### FILE name` with the tool's exit status. Old ones are
one run over all files of a partition, standard error included. A tool that throws has shown only what stands before
that place.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FILE = re.compile(r"Dumping (?:.*/)?(?P<name>\d+[^/ ]*)")
_EXIT = re.compile(r"## exit (?P<status>\d+)(?:: .*)?")
_THROWN = re.compile(r"(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b|Exception in thread |\s+at [\w.$]+\(|Caused by: ")
# A batch with its size is a line of the tools of 2.8 and later. Before, the lines are about single records.
_BATCH = re.compile(r"(?:baseOffset|offset): -?\d+ .*(?<=\s)size: \d+ .*")
_RECORD = re.compile(r"offset: \d+ (position: \d+ )?(?:\w+: -?\d+ )?isvalid: ")
_FIELD = re.compile(r"(\w+): (\S+)")
_TIMESTAMP_TYPES = {"CreateTime": "create", "LogAppendTime": "append", "NoTimestampType": None}
_NUMBERS = {
    "lastOffset": "last_offset",
    "offset": "last_offset",
    "baseOffset": "base_offset",
    "count": "record_count",
    "baseSequence": "base_sequence",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "partitionLeaderEpoch": "leader_epoch",
    "position": "position",
    "size": "size_bytes",
    "crc": "crc_stored",
}
_FLAGS = {"isTransactional": "is_transactional", "isControl": "is_control", "isvalid": "crc_ok"}


@dataclass(slots=True)
class Section:
    """What the tool said about one file; `complete` is false where it ended with an exception."""

    file: str
    lines: list[str] = field(default_factory=list)
    complete: bool = True

    @property
    def shows_batches(self) -> bool:
        """Whether the tool was one that prints batches: so does none before 2.8."""
        return not any(_RECORD.match(line) for line in self.lines)

    def batches(self) -> list[dict[str, object]]:
        """Batches as columns of our rows, as far as the tool shows them."""
        return [_batch(line) for line in self.lines if _BATCH.fullmatch(line)]


def sections(path: Path) -> list[Section]:
    """All sections of a golden, in order."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="\n") as stream:
        return list(_sections(stream.read().split("\n")))


def _sections(lines: list[str]) -> Iterator[Section]:
    section: Section | None = None
    complete = True
    for line in lines:
        if match := _EXIT.fullmatch(line):
            complete = match["status"] == "0"
        elif match := _FILE.fullmatch(line):
            if section:
                yield section
            section = Section(match["name"], complete=complete)
        elif line.startswith("#### FILE"):
            complete = True
        elif section:
            section.lines.append(line)
            section.complete &= _THROWN.match(line) is None
    if section:
        yield section


def _batch(line: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, text in _FIELD.findall(line):
        if name in _NUMBERS:
            found[_NUMBERS[name]] = int(text)
        elif name in _FLAGS:
            found[_FLAGS[name]] = text == "true"
        elif name in _TIMESTAMP_TYPES:
            found["timestamp_type"] = _TIMESTAMP_TYPES[name]
            found["max_timestamp_ms"] = int(text) if _TIMESTAMP_TYPES[name] else None
        elif name == "deleteHorizonMs":
            found["delete_horizon_ms"] = int(text[len("OptionalLong[") : -1]) if "[" in text else None
        elif name == "compresscodec":
            found["codec"] = text.lower()
        elif name == "magic":
            found["format"] = f"v{text}"
    return found
