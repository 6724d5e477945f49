"""The batch rows of `kafkalog dump --batches` agree with the text of Kafka's own dump tool, field by field."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.corpus import goldens
from tests.corpus.dumping import Row, dump
from tests.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from tests.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_LOGS = (".log", ".kafka", ".checkpoint")


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
    shown = _by_file(dump(directory, "--batches").of_type("batch"))
    for golden in snapshot.goldens:
        for section in goldens.sections(tree.corpus / golden):
            if not section.file.endswith(_LOGS):
                continue
            if section.file not in shown:
                shown[section.file] = dump(directory / section.file, "--batches").of_type("batch")
            _assert_agree(golden, section, shown[section.file])


def _assert_agree(golden: str, section: goldens.Section, rows: list[Row]) -> None:
    batches = section.batches()
    for number, (batch, row) in enumerate(zip(batches, rows, strict=False)):
        ours = {name: row[name] for name in batch}
        assert ours == batch, f"{golden}, {section.file}, batch number {number}"
    assert len(rows) >= len(batches), f"{golden}, {section.file}: {len(batches) - len(rows)} batches missing"
    if section.complete and section.shows_batches:
        assert len(rows) == len(batches), f"{golden}, {section.file}: batches that the tool does not show"
