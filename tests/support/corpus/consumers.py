"""What a consumer could see of the rows on a disk, and the comparison with what one did see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.corpus import expectations
from tests.support.corpus.snapshots import BEHIND_LAST

if TYPE_CHECKING:
    from tests.support.corpus.snapshots import Snapshot
    from tests.support.corpus.tree import Tree

Row = dict[str, object]

SERVED_LESS = expectations.read("served_less.txt")
SERVED_MORE = expectations.read("served_more.txt")
SERVED_WITHOUT = expectations.read("served_without.txt")


def is_listed(snapshot: Snapshot, *lists: dict[str, str]) -> bool:
    """Whether a line of the lists is about it."""
    return any(expectations.matching(globs, snapshot.id) for globs in lists)


def left_out(snapshot: Snapshot) -> range:
    """The offsets that a broker served, and we do not, because `verify` calls their batch an error."""
    for glob in expectations.matching(SERVED_WITHOUT, snapshot.id):
        first, last = SERVED_WITHOUT[glob].partition(":")[0].split("-")
        return range(int(first), int(last) + 1)
    return range(0)


def visible(tree: Tree, snapshot: Snapshot, rows: list[Row], seen: list[Row]) -> list[Row]:
    """Rows that a consumer could see; positions of 0.7 files are not subject to a log start offset."""
    start = tree.log_start_offset(snapshot)
    end = snapshot.stopped_at
    if end == BEHIND_LAST:
        end = int(str(seen[-1]["offset"])) + 1 if seen else 0
    return [
        row
        for row in rows
        if row["control_type"] is None
        and int(str(row["offset"])) >= start
        and (end is None or int(str(row["offset"])) < end)
    ]


def as_seen(row: Row, columns: Row) -> Row:
    """The columns that a consumer knows; one that has headers shows none of them for formats without."""
    seen = {name: row[name] for name in columns}
    if "headers" in columns and row.get("format") in {"v0", "v1"}:
        assert row["headers"] is None
        seen["headers"] = []
    return seen


def assert_same(shown: list[Row], seen: list[Row], *, selection: bool) -> None:
    """All columns that a consumer knows are equal, record by record; a selection may have left some out."""
    columns: Row = seen[0] if seen else {"offset": None}
    rows = [as_seen(row, columns) for row in shown]
    if selection:
        left = iter(rows)
        missing = [row for row in seen if row not in left]
        assert not missing, f"not on the disk, or not in this order: {missing[0]}"
        assert len(rows) > len(seen), "both are the same: the line in the list of exceptions is not needed"
        return
    for number, (row, record) in enumerate(zip(rows, seen, strict=False)):
        assert row == record, f"record number {number}"
    assert len(rows) == len(seen), f"first of the surplus: {(rows + seen)[min(len(rows), len(seen)) :][:1]}"
