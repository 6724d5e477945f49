"""Rows of indexes and producer snapshots agree with what Kafka's own dump tool printed; verdicts on text files with real starts."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.names import FileKind, parse_directory_name, parse_file_name
from kafkalog_core.ops.entries import ENTRY_KINDS, entries
from tests.corpus import archives, faults, goldens
from tests.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.corpus.tree import Tree

pytestmark = pytest.mark.corpus

Row = dict[str, object]

_LINES = {
    FileKind.OFFSET_INDEX: re.compile(r"offset: -?\d+ position: -?\d+"),
    FileKind.TIME_INDEX: re.compile(r"timestamp: -?\d+ offset: -?\d+"),
    FileKind.TXN_INDEX: re.compile(r"version: \d+ producerId: -?\d+ firstOffset: .*"),
    FileKind.SNAPSHOT: re.compile(r"producerId: -?\d+ producerEpoch: .*"),
}
_FIELD = re.compile(r"(\w+): (\S+)")
_COLUMNS = {
    FileKind.OFFSET_INDEX: {"offset": "offset", "position": "log_position"},
    FileKind.TIME_INDEX: {"timestamp": "timestamp_ms", "offset": "offset"},
    FileKind.TXN_INDEX: {
        "version": "version",
        "producerId": "producer_id",
        "firstOffset": "first_offset",
        "lastOffset": "last_offset",
        "lastStableOffset": "last_stable_offset",
    },
    FileKind.SNAPSHOT: {
        "producerId": "producer_id",
        "producerEpoch": "producer_epoch",
        "coordinatorEpoch": "coordinator_epoch",
        "currentTxnFirstOffset": "current_txn_first_offset",
        "lastTimestamp": "timestamp_ms",
        "lastSequence": "last_sequence",
        "lastOffset": "last_offset",
        "offsetDelta": "offset_delta",
    },
}
_NO_NUMBER = {"None", "OptionalLong.empty"}


def _with_goldens() -> list[Snapshot]:
    return [snapshot for snapshot in snapshots() if snapshot.goldens]


def _rows(path: Path, kind: FileKind) -> list[Row]:
    base_offset = parse_file_name(path.name).base_offset
    name = parse_directory_name(path.parent.name)
    chunks = entries(str(path), kind, topic=name.topic, partition=name.partition, base_offset=base_offset)
    return [row for chunk in chunks for row in chunk.rows()]


def _number(text: str) -> int:
    return -1 if text in _NO_NUMBER else int(re.sub(r"\D*(-?\d+)\D*", r"\1", text))


def _as_printed(kind: FileKind, section: goldens.Section) -> list[dict[str, int]]:
    found = []
    for line in section.lines:
        if _LINES[kind].fullmatch(line):
            fields = _FIELD.findall(line)
            found.append({_COLUMNS[kind][name]: _number(text) for name, text in fields if name in _COLUMNS[kind]})
    return found


def _as_the_tool_stops(rows: list[Row]) -> list[Row]:
    """Of a preallocated index the tool shows entries up to one whose relative offset is 0, but for the first."""
    shown = [row for row in rows if row["type"] in {"index_entry", "producer"}]
    for number, row in enumerate(shown):
        if number and row.get("relative_offset") == 0:
            return shown[:number]
    return shown


@pytest.mark.parametrize("snapshot", _with_goldens(), ids=lambda snapshot: snapshot.id)
def test_entries_are_those_of_the_stock_tool(tree: Tree, snapshot: Snapshot) -> None:
    directory = tree.partition_dir(snapshot)
    for golden in snapshot.goldens:
        for section in goldens.sections(tree.corpus / golden):
            kind = parse_file_name(section.file).kind
            if kind in _LINES:
                rows = _rows(directory / section.file, kind)
                _assert_agree(f"{golden}, {section.file}", section, kind, rows)


def _assert_agree(where: str, section: goldens.Section, kind: FileKind, rows: list[Row]) -> None:
    printed = _as_printed(kind, section)
    shown = _as_the_tool_stops(rows)
    if not shown and len(printed) == 1 and any(row.get("code") == "index.zero-tail" for row in rows):
        printed = []  # of an index of zeros alone the tool shows the first one
    for number, (entry, row) in enumerate(zip(printed, shown, strict=False)):
        assert {name: row[name] for name in entry} == entry, f"{where}, entry {number}"
    assert len(shown) >= len(printed), f"{where}: entries missing"
    if section.complete:
        assert len(shown) == len(printed), f"{where}: entries that the tool does not show"
