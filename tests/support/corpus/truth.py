"""What consumers read, in the words of the record rows.

Three kinds of lines: of old consumers (headers are objects), of modern ones (headers are pairs, the leader epoch is
known) and of the 0.7 consumer (byte addresses instead of offsets, the checksum next to them). A consumer shows
timestamp -1 and no timestamp type for a record of a format without timestamps: the rows say null for both.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tests.corpus import pairing
from tests.support.corpus import faults

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.corpus.snapshots import Snapshot

Row = dict[str, object]

_TIMESTAMP_TYPES = {None: None, "NoTimestampType": None, "CreateTime": "create", "LogAppendTime": "append"}


def is_records(name: str) -> bool:
    """Whether a file of the corpus is the list of what a consumer read."""
    path = PurePosixPath(name)
    return path.name == pairing.RECORDS or (path.name.startswith("truth") and name.endswith(".jsonl.gz"))


def records(corpus: Path, snapshot: Snapshot) -> list[Row]:
    """Records that were read, as far as record rows have columns for what was seen of them."""
    assert snapshot.records
    return [_row(line) for line in _lines(corpus / snapshot.records) if "end_offset" not in line]


def committed_offsets(corpus: Path, snapshot: Snapshot) -> list[int]:
    """Offsets that a read_committed consumer got."""
    assert snapshot.committed
    path = corpus / snapshot.committed
    if path.name.endswith(".gz"):
        return [line["offset"] for line in _lines(path)]
    sheet = json.loads(path.read_bytes())
    if path.name == faults.SHEET:
        sheet = sheet["truth_after_start"][snapshot.partition.rpartition("-")[0]]
    offsets: list[int] = sheet["read_committed_offsets"]
    return offsets


def committed_records(corpus: Path, snapshot: Snapshot) -> list[Row]:
    """Records that a read_committed consumer got: where only their offsets were kept, those of the other consumer."""
    offsets = committed_offsets(corpus, snapshot)
    assert snapshot.committed
    if snapshot.committed.endswith(".gz"):
        return [_row(line) for line in _lines(corpus / snapshot.committed)]
    wanted = set(offsets)
    found = [row for row in records(corpus, snapshot) if row["offset"] in wanted]
    assert [row["offset"] for row in found] == offsets, "the two readings of one consumer differ"
    return found


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    with gzip.open(path) as stream:
        return [json.loads(line) for line in stream]


def _row(line: dict[str, Any]) -> Row:
    return _v07_row(line) if "fetch_offset" in line else _kafka_row(line)


def _kafka_row(line: dict[str, Any]) -> Row:
    timestamp_type = _TIMESTAMP_TYPES[line["timestamp_type"]]
    row: Row = {
        "offset": line["offset"],
        "timestamp_ms": line["timestamp"] if timestamp_type else None,
        "timestamp_type": timestamp_type,
        "key": _bytes(line["key_b64"]),
        "value": _bytes(line["value_b64"]),
        "headers": [_header(header) for header in line["headers"]],
    }
    if line.get("leader_epoch") is not None:
        row["leader_epoch"] = line["leader_epoch"]
    return row


def _v07_row(line: dict[str, Any]) -> Row:
    return {
        "offset": line["fetch_offset"],
        "next_offset": line["next_offset"],
        "magic": line["magic"],
        "attributes": line["attributes"] if line["magic"] else None,
        "crc_stored": line["crc"],
        "crc_ok": line["crc_ok"],
        "key": _bytes(line["key_b64"]),
        "value": _bytes(line["value_b64"]),
    }


def _header(header: dict[str, str | None] | list[str | None]) -> tuple[str | None, bytes | None]:
    key, value = (header["key"], header["value_b64"]) if isinstance(header, dict) else header
    return key, _bytes(value)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
