"""Rows of indexes and snapshots agree with Kafka's own dump tool, verdicts on files with what brokers did."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.names import FileKind, parse_directory_name, parse_file_name
from kafkalog_core.ops.dump.entries import ENTRY_KINDS, entries
from tests.support.corpus import archives, faults, goldens
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

Row = dict[str, object]
# What a broker reads as a whole when it starts, and may refuse. It replaces a bad snapshot, and trusts an index.
_REFUSABLE_KINDS = ENTRY_KINDS - {FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.SNAPSHOT}

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
_THROWN = re.compile(r"## exception|[\w.]+Exception: ")
_NUMBER = re.compile(r"-?\d+")


def _with_goldens() -> list[Snapshot]:
    return [snapshot for snapshot in snapshots() if snapshot.goldens]


def _rows(path: Path, kind: FileKind) -> list[Row]:
    file, directory = parse_file_name(path.name), parse_directory_name(path.parent.name)
    chunks = entries(
        str(path),
        kind,
        state=file.state,
        topic=directory.topic,
        partition=directory.partition,
        base_offset=file.base_offset,
    )
    return [row for chunk in chunks for row in chunk.rows()]


def _number(text: str) -> int:
    number = _NUMBER.search(text)  # `Some(12)`, `OptionalLong[12]`, `None`, `OptionalLong.empty`
    return int(number[0]) if number else -1


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
    for number, (entry, row) in enumerate(zip(printed, shown, strict=False)):
        assert {name: row[name] for name in entry} == entry, f"{where}, entry {number}"
    assert all(_is_zeros(entry, rows) for entry in printed[len(shown) :]), f"{where}: entries missing"
    if section.complete and not any(_THROWN.match(line) for line in section.lines):
        assert len(shown) <= len(printed), f"{where}: entries that the tool does not show"


def _is_zeros(entry: dict[str, int], rows: list[Row]) -> bool:
    """Whether it is of the zero tail, of which some tools show the first entry and others, in a time index, all."""
    tail = any(row.get("code") == "index.zero-tail" for row in rows)
    return tail and 0 in {entry.get("timestamp_ms"), entry.get("log_position")}


def _faults() -> list[faults.Fault]:
    """Faults in one file alone, each with what a real broker of 4.3.1 did on it."""
    found = []
    for path, text in sorted(archives.contents(archives.source()).texts.items()):
        if PurePosixPath(path).name == faults.SHEET:
            fault = faults.Fault.parse(str(PurePosixPath(path).parent), text)
            changed = list(fault.brought(faults.BEFORE))
            if len(changed) == 1 and parse_file_name(PurePosixPath(changed[0]).name).kind in _REFUSABLE_KINDS:
                found.append(fault)
    return found


@pytest.mark.parametrize("fault", _faults(), ids=lambda fault: fault.path)
def test_files_that_brokers_refused_are_errors(tree: Tree, fault: faults.Fault) -> None:
    (name,) = fault.brought(faults.BEFORE)
    path = tree.corpus / fault.path / faults.BEFORE / name
    rows = _rows(path, parse_file_name(path.name).kind)
    refused = any(row["type"] == "finding" and row["severity"] == "error" for row in rows)
    if parse_file_name(path.name).kind is FileKind.META_PROPERTIES:
        assert not (refused and fault.sheet["started"])  # good by itself, it may contradict another directory's
    else:
        assert refused == _refused_by_broker(fault, path.name)


def _refused_by_broker(fault: faults.Fault, file_name: str) -> bool:
    """Whether the broker did not start, took the directory offline, or said that it could not read the file."""
    complaints = [
        line for line in fault.sheet["warn_error_lines"] if re.search(rf"[Ee]rror.*{re.escape(file_name)}", line)
    ]
    return not fault.sheet["started"] or bool(fault.sheet["offline_lines"]) or bool(complaints)
