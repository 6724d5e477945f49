"""`export` of every log dir of the corpus holds the records that real consumers read, and every row of a dump.

The job runs with workers in this process, which pickle all that would travel; `test_corpus_jobs.py` sends the same
through Spark. Faults are exported as they were put together, damage and all.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.spark.export.export import ExportRequest, export
from kafkalog_core.spark.lake.store import Store
from tests.spark.judging import Row, parquet_rows
from tests.support.corpus import archives, consumers, expectations, truth
from tests.support.corpus.dumping import Dump, dump
from tests.support.corpus.snapshots import Snapshot, snapshots
from tests.support.inline import Inline

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.tree import Tree

pytestmark = pytest.mark.corpus

NOW_MS = 1_796_000_000_000
_PLACE = {"topic", "partition", "path", "type"}


def _groups() -> list[list[Snapshot]]:
    """Partitions of one log dir that were read; each one of a fault, whose directory holds nothing else, by itself."""
    known = [snapshot for snapshot in snapshots() if snapshot.records]
    plain = [snapshot for snapshot in known if snapshot.fault is None]
    groups = [list(group) for _, group in groupby(plain, key=attrgetter("log_dir"))]
    return groups + [[snapshot] for snapshot in known if snapshot.fault is not None]


def _exported(
    directory: Path, output: Path, *, committed: bool = False
) -> tuple[dict[tuple[str, int], list[Row]], list[Row]]:
    """Rows in Parquet by partition, and the rows that the job itself gives."""
    targets = tuple(resolve([str(directory)]))
    request = ExportRequest(targets=targets, output=Store.of(str(output)), committed=committed)
    chunks = export(Inline(), request, Report(), run_id="judge", now_ms=NOW_MS)
    told = [{"type": chunk.table.name, **row} for chunk in chunks for row in chunk.rows()]
    return parquet_rows(output), told


@pytest.mark.parametrize("group", _groups(), ids=lambda group: group[0].log_dir if len(group) > 1 else group[0].id)
def test_the_export_is_what_consumers_read(tree: Tree, tmp_path: Path, group: list[Snapshot]) -> None:
    places = {snapshot.id: tree.partition_dir(snapshot) for snapshot in group}
    [log_dir] = {place.parent for place in places.values()}
    exported, told = _exported(log_dir, tmp_path / "out")
    for snapshot in group:
        topic, _, number = snapshot.partition.rpartition("-")
        rows = exported.pop((topic, int(number)), [])
        dumped = dump(places[snapshot.id], "--records", "--resync")
        _assert_dumped(rows, dumped)
        seen = _known(truth.records(tree.corpus, snapshot), rows)
        served = [row for row in rows if not row["resynced"]]  # no broker searches for batches after damage
        shown = consumers.visible(tree, snapshot, served, seen)
        consumers.assert_same(shown, seen, selection=consumers.is_listed(snapshot, consumers.SERVED_LESS))
        if dumped.of_type("damage"):
            assert _findings(told, topic, int(number)), f"damage of {snapshot.id} is not told"
    _assert_same_rest(exported, log_dir)


@pytest.mark.parametrize(
    "snapshot", [snapshot for snapshot in snapshots() if snapshot.committed], ids=lambda snapshot: snapshot.id
)
def test_what_is_committed_is_what_a_read_committed_consumer_read(
    tree: Tree, tmp_path: Path, snapshot: Snapshot
) -> None:
    place = tree.partition_dir(snapshot)
    topic, _, number = snapshot.partition.rpartition("-")
    seen = truth.committed_records(tree.corpus, snapshot)
    exported, _ = _exported(place, tmp_path / "committed", committed=True)
    rows = exported.get((topic, int(number)), [])
    served = [row for row in rows if not row["resynced"]]  # no broker searches for batches after damage
    shown = consumers.visible(tree, snapshot, served, seen)
    known = _known(seen, rows)
    if expectations.matching(consumers.SERVED_MORE, snapshot.id):
        shown, known = known, [consumers.as_seen(row, known[0]) for row in shown]
    consumers.assert_same(
        shown, known, selection=consumers.is_listed(snapshot, consumers.SERVED_LESS, consumers.SERVED_MORE)
    )
    _exported(place, tmp_path / "all")
    every = {row["offset"]: row for row in DeltaTable(str(tmp_path / "all/records")).to_pyarrow_table().to_pylist()}
    end = min((offset for offset, row in every.items() if _is_undecided(row)), default=1 << 63)
    start = tree.log_start_offset(snapshot)
    marked = {offset for offset, row in every.items() if row["is_committed"] and start <= offset < end}
    assert marked == {row["offset"] for row in rows if row["offset"] < end}  # type: ignore[operator]


def _is_undecided(row: Row) -> bool:
    return row["is_committed"] is None and row["control_type"] is None


def _known(seen: list[Row], rows: list[Row]) -> list[Row]:
    """Of what was read, the columns that tables of all formats have: those that 0.7 alone has are left out."""
    return [{name: value for name, value in row.items() if name in rows[0]} for row in seen] if rows else seen


def _assert_dumped(rows: list[Row], dumped: Dump) -> None:
    wanted = dumped.live("record")
    columns = [name for name in (rows or wanted or [{}])[0] if name not in _PLACE]
    assert [[row[name] for name in columns] for row in rows] == [[row[name] for name in columns] for row in wanted]


def _assert_same_rest(exported: dict[tuple[str, int], list[Row]], log_dir: Path) -> None:
    """Partitions that nobody read are as a dump has them too."""
    for (topic, number), rows in exported.items():
        _assert_dumped(rows, dump(log_dir / f"{topic}-{number}", "--records", "--resync"))


def _findings(told: list[Row], topic: str, partition: int) -> list[Row]:
    return [row for row in told if "severity" in row and (row["topic"], row["partition"]) == (topic, partition)]


def test_log_dirs_with_truth_are_found() -> None:
    """An empty list would be green too."""
    assert len(_groups()) >= (600 if archives.is_whole() else 300)
