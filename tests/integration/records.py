"""A record as a consumer gets it and as `kafkalog dump` shows it, comparable; and how the command is run."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from aiokafka.structs import ConsumerRecord

Row = dict[str, object]

KAFKALOG: Final = (sys.executable, "-m", "kafkalog_cli")
_TIMESTAMP_TYPES: Final = {0: "create", 1: "append"}


class Record(NamedTuple):
    """What a record is made of."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Dump:
    """Rows of one run, and its exit status."""

    rows: list[Row]
    exit_status: int

    def of_type(self, name: str) -> list[Row]:
        """Rows of one type, in order."""
        return [row for row in self.rows if row["type"] == name]

    def records(self) -> list[Record]:
        """The data records, in order."""
        return data_records(self.of_type("record"))

    def codes(self) -> set[str]:
        """Codes of the findings."""
        return {str(row["code"]) for row in self.of_type("finding")}


def dump(*arguments: str | Path) -> Dump:
    """Run `kafkalog dump` in a process of its own."""
    command = [*KAFKALOG, "dump", "--output", "ndjson", "--bytes", "base64", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode in {0, 4}, done.stderr.decode()
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[-1]["type"] == "summary"
    assert rows[-1]["exit_status"] == done.returncode
    return Dump(rows, done.returncode)


def data_records(rows: Iterable[Row]) -> list[Record]:
    """Those of `record` rows that a consumer is given."""
    return [_of_row(row) for row in rows if row["control_type"] is None]


def of_consumer(record: ConsumerRecord[bytes, bytes]) -> Record:
    """What a consumer was given."""
    timestamp_type = _TIMESTAMP_TYPES[record.timestamp_type]
    headers = tuple((key, value) for key, value in record.headers)
    return Record(record.partition, record.offset, record.timestamp, timestamp_type, record.key, record.value, headers)


def _of_row(row: Row) -> Record:
    headers = row["headers"]
    assert isinstance(headers, list)
    return Record(
        int(str(row["partition"])),
        int(str(row["offset"])),
        int(str(row["timestamp_ms"])),
        str(row["timestamp_type"]),
        _bytes(row["key_b64"]),
        _bytes(row["value_b64"]),
        tuple((header["key"], _bytes(header["value_b64"])) for header in headers),
    )


def _bytes(text: object) -> bytes | None:
    return None if text is None else base64.b64decode(str(text), validate=True)
