"""The batch rows of `kafkalog dump --batches` agree with the text of Kafka's own dump tool, field by field.

The tool shows a batch with a wrong checksum or an unknown magic, and goes on behind it; to us it is damage, and what
follows an unknown magic is there for those who ask for it (`--resync`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.support.corpus import goldens
from tests.support.corpus.dumping import Row, dump
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_LOGS = (".log", ".kafka", ".checkpoint")
_FORMATS = {"v0", "v1", "v2"}


def _with_goldens() -> list[Snapshot]:
    return [snapshot for snapshot in snapshots() if snapshot.goldens]


def _by_file(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[str(row["segment"])].append(row)
    return found


@pytest.mark.parametrize("snapshot", _with_goldens(), ids=lambda snapshot: snapshot.id)
def test_batches_are_those_of_the_stock_tool(tree: Tree, snapshot: Snapshot) -> None:
    directory = tree.partition_dir(snapshot)
    shown = _by_file(_rows(directory))
    for golden in snapshot.goldens:
        for section in goldens.sections(tree.corpus / golden):
            if not section.file.endswith(_LOGS):
                continue
            if section.file not in shown:
                shown[section.file] = _rows(directory / section.file)
            _assert_agree(f"{golden}, {section.file}", section, shown[section.file])


def _rows(path: Path) -> list[Row]:
    result = dump(path, "--batches", "--resync")
    return [row for row in result.rows if row["type"] in {"batch", "damage"}]


def _assert_agree(where: str, section: goldens.Section, rows: list[Row]) -> None:
    damaged = [_range(row) for row in rows if row["type"] == "damage"]
    rows = [row for row in rows if row["type"] == "batch"]
    batches = []
    for batch in section.batches():
        if any(batch["position"] in places for places in damaged):
            assert not batch["crc_ok"] or batch["format"] not in _FORMATS, f"{where}: taken for damage: {batch}"
        else:
            batches.append(batch)
    for number, (batch, row) in enumerate(zip(batches, rows, strict=False)):
        ours = {name: row[name] for name in batch}
        assert ours == batch, f"{where}, batch number {number}"
    assert len(rows) >= len(batches), f"{where}: {len(batches) - len(rows)} batches missing"
    if section.complete and section.shows_batches:
        surplus = [row for row in rows[len(batches) :] if not row["resynced"]]
        assert not surplus, f"{where}: batches that the tool does not show"


def _range(damage: Row) -> range:
    position, size_bytes = damage["position"], damage["size_bytes"]
    assert isinstance(position, int)
    assert isinstance(size_bytes, int)
    return range(position, position + size_bytes)
