"""The data source's rows are those of `kafkalog dump`, for every file of the corpus, whatever the size of a split.

The reader is asked here as Spark asks it, without a JVM: what is shown through Spark is in `test_source.py`.
"""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.spark.source.reader import KafkaLog
from tests.support.corpus import archives, faults
from tests.support.corpus.dumping import dump
from tests.support.corpus.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

_LEVELS = {"records": "--records", "batches": "--batches", "segments": "--segments"}


OF_V07 = ("next_offset", "magic", "attributes", "crc_stored", "crc_ok")
"""Columns that a dump has for records of 0.7 alone; a table has those of all formats."""


def _groups() -> list[list[Snapshot]]:
    """Partitions by log dir; of a fault those that it has changed, since the other ones are links to its base's."""
    groups: dict[str, list[Snapshot]] = {}
    for snapshot in snapshots():
        if snapshot.fault is None or (snapshot.state == faults.BEFORE and snapshot.same_as is None):
            groups.setdefault(snapshot.log_dir, []).append(snapshot)
    return list(groups.values())


def _read(paths: list[str], table: str, split_bytes: int) -> list[dict[str, object]]:
    """All rows, as Spark would get them."""
    options = {"table": table, "paths": json.dumps(paths), "splitbytes": str(split_bytes)}
    source = KafkaLog(options)
    schema = source.schema()
    reader = source.reader(schema)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    for row in rows:
        if row.get("headers") is not None:
            row["headers"] = [(header["key"], header["value"]) for header in row["headers"]]
    return rows


def _dumped(place: Path, table: str) -> list[dict[str, object]]:
    rows = dump(place, _LEVELS[table]).of_type(table.removesuffix("s").replace("batche", "batch"))
    left_out = {"type"} if table != "records" else {"type", *OF_V07}
    return [{name: value for name, value in row.items() if name not in left_out} for row in rows]


def _cases() -> list[object]:
    """Every table of every log dir; rows of segments are not cut into splits, so that faults have nothing to add."""
    return [
        pytest.param(group, table, id=f"{group[0].log_dir}-{table}")
        for group in _groups()
        for table in _LEVELS
        if table != "segments" or group[0].fault is None
    ]


@pytest.mark.parametrize(("group", "table"), _cases())
def test_rows_are_those_of_a_dump(tree: Tree, group: list[Snapshot], table: str) -> None:
    places = sorted(tree.partition_dir(snapshot) for snapshot in group)
    found = _read([str(place) for place in places], table, split_bytes=1000)
    for row in found:
        row.pop("path")
    wanted = [row for place in places for row in _dumped(place, table)]
    for one, other in zip_longest(found, wanted):
        assert one == other


def test_log_dirs_are_found() -> None:
    """An empty list would be green too. What is left out of a fault is there as a directory of its base."""
    groups = _groups()
    assert len(groups) >= (350 if archives.is_whole() else 150)
    read = {snapshot.id for group in groups for snapshot in group}
    left_out = [each for each in snapshots() if each.state == faults.BEFORE and each.id not in read]
    assert {snapshot.same_as for snapshot in left_out} <= read


def test_what_is_left_out_is_the_same(tree: Tree) -> None:
    """Every file of it, and every file next to it, is a link to the base's: of each the first fault and the last."""
    left_out: dict[str, list[Snapshot]] = {}
    for snapshot in snapshots():
        if snapshot.state == faults.BEFORE and snapshot.same_as is not None:
            left_out.setdefault(snapshot.same_as, []).append(snapshot)
    assert left_out
    for same_as, copies in left_out.items():
        base = tree.corpus / same_as
        for snapshot in (copies[0], copies[-1]):
            place = tree.partition_dir(snapshot)
            assert _files(place) == _files(base), snapshot.id
            assert _files(place.parent) == _files(base.parent), snapshot.id


def _files(directory: Path) -> dict[str, int]:
    """Names and inodes."""
    return {path.name: path.stat().st_ino for path in directory.iterdir() if path.is_file()}
