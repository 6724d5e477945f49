"""Entries of indexes and producer snapshots agree with the text of Kafka's own dump tool, field by field.

The zero tail of a preallocated index is no row of ours. The tool shows its first entry where it is the first of all,
and the tools of some releases show all of it; where it takes an entry with the relative offset 0 for that tail, our
rows go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.names import FileKind
from kafkalog_core.ops.entries import entries
from tests.corpus import goldens
from tests.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_KINDS = {
    "index": FileKind.OFFSET_INDEX,
    "timeindex": FileKind.TIME_INDEX,
    "txnindex": FileKind.TXN_INDEX,
    "snapshot": FileKind.SNAPSHOT,
}


def _with_goldens() -> list[Snapshot]:
    return [snapshot for snapshot in snapshots() if snapshot.goldens]


def _rows(path: Path) -> list[dict[str, object]]:
    chunks = entries(str(path), _KINDS[path.suffix.removeprefix(".")], base_offset=int(path.stem))
    return [row for chunk in chunks for row in chunk.rows() if row["type"] in {"index_entry", "producer"}]


@pytest.mark.parametrize("snapshot", _with_goldens(), ids=lambda snapshot: snapshot.id)
def test_entries_are_those_of_the_stock_tool(tree: Tree, snapshot: Snapshot) -> None:
    for golden in snapshot.goldens:
        for section in goldens.sections(tree.corpus / golden):
            path = tree.partition_dir(snapshot) / section.file
            if path.suffix.removeprefix(".") in _KINDS:
                _assert_agree(f"{golden}, {section.file}", section, _rows(path))


def _is_zero(entry: dict[str, object], base_offset: int) -> bool:
    return entry in ({"offset": base_offset, "log_position": 0}, {"offset": base_offset, "timestamp_ms": 0})


def _assert_agree(where: str, section: goldens.Section, rows: list[dict[str, object]]) -> None:
    shown = section.entries()
    for number, (entry, row) in enumerate(zip(shown, rows, strict=False)):
        assert {name: row[name] for name in entry} == entry, f"{where}, entry number {number}"
    base_offset = int(section.file.partition(".")[0])
    missing = [entry for entry in shown[len(rows) :] if not _is_zero(entry, base_offset)]
    assert not missing, where
    if section.complete and len(rows) > len(shown):
        assert rows[len(shown)].get("relative_offset") == 0, f"{where}: entries that the tool does not show"
