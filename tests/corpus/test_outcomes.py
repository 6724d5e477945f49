"""What a table calls aborted or open is what a real read_committed consumer did not get."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.corpus import consumers, expectations, truth
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_ROW = re.compile(r" *(\d+)  ")
_NOT_SERVED = re.compile(r"  (ABORTED|OPEN|UNDECIDED) *  ")


def _compared() -> list[Snapshot]:
    """Those with transactions, of which a read_committed consumer got what the broker had been given."""
    return [
        snapshot
        for snapshot in snapshots()
        if snapshot.committed
        and snapshot.records
        and "/03-transactions" in f"/{snapshot.label}"
        and not expectations.matching(consumers.SERVED_MORE, snapshot.id)
        and not expectations.matching(consumers.SERVED_LESS, snapshot.id)
    ]


@pytest.mark.parametrize("snapshot", _compared(), ids=lambda snapshot: snapshot.id)
def test_what_is_marked_was_not_delivered(tree: Tree, snapshot: Snapshot) -> None:
    read = {int(str(row["offset"])) for row in truth.records(tree.corpus, snapshot)}
    delivered = set(truth.committed_offsets(tree.corpus, snapshot))
    path = str(tree.partition_dir(snapshot))
    text = CliRunner(env={"COLUMNS": "400"}).invoke(cli, ["dump", "--records", "--output", "table", path]).stdout
    marked = {
        int(row[1]) for line in text.splitlines() if (row := _ROW.match(line)) is not None and _NOT_SERVED.search(line)
    }
    stable = max(delivered, default=-1)
    assert {offset for offset in read - delivered if offset <= stable} == {
        offset for offset in marked if offset <= stable
    }
    assert not marked & delivered


def test_there_is_something_to_mark() -> None:
    names = {snapshot.partition for snapshot in _compared()}
    assert {"tx.aborts-0", "tx.interleaved-0", "tx.hanging-0"} <= names
