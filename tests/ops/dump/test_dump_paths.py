"""Rows that name their file, for partitions of which there is more than one directory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve, same_partitions
from kafkalog_core.ops.dump.follow import follow
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.output import tables
from tests.support.build import batch_v2, message_v07
from tests.support.logs import dump_rows, records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

LOG = f"{0:020d}.log"
INDEX_ENTRY = (3).to_bytes(4, "big") + (70).to_bytes(4, "big")


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    """A partition, and the directory of the one of the same name that waits for its deletion."""
    return (
        write_segments(tmp_path / "t-0", {0: batch_v2(records(0, 3)) + b"torn"}),
        write_segments(tmp_path / "t-0.0123-delete", {0: batch_v2(records(0, 2))}),
    )


@pytest.mark.parametrize("level", ["segments", "batches", "records"])
@pytest.mark.parametrize("newest_first", [False, True])
def test_rows_name_their_file(twins: tuple[Path, Path], level: Any, newest_first: bool) -> None:
    rows = dump_rows(*twins, level=level, path=True, newest_first=newest_first)
    kind = level.removesuffix("s").replace("batche", "batch")
    places = {row["path"] for row in rows if row["type"] == kind}
    assert places == {str(home / LOG) for home in twins}
    (damage,) = [row for row in rows if row["type"] == "damage"]
    assert damage["path"] == str(twins[0] / LOG)


def test_without_the_option_rows_are_as_ever(twins: tuple[Path, Path]) -> None:
    for row in dump_rows(*twins, level="records", files=True):
        assert "path" not in row
        assert tuple(row) == tables.TABLES[row["type"]].names


def test_the_path_stands_behind_the_segment(twins: tuple[Path, Path]) -> None:
    for row in dump_rows(twins[0], level="records", path=True):
        assert list(row)[:5] == ["type", "topic", "partition", "segment", "path"]


def test_damage_inside_of_a_batch_names_its_file(tmp_path: Path) -> None:
    home = write_segments(tmp_path / "t-0", {0: batch_v2(records(0, 2), codec=1, records_count=3, last_offset=2)})
    (row,) = [row for row in dump_rows(home, level="records", path=True) if row["type"] == "damage"]
    assert (row["size_bytes"], row["path"]) == (0, str(home / LOG))


def test_figures_name_their_directory_or_file(twins: tuple[Path, Path]) -> None:
    rows = [row for row in dump_rows(*twins, twins[1] / LOG, stats=True, path=True) if row["type"] == "stats"]
    assert [row["path"] for row in rows] == [str(twins[0]), str(twins[1])]
    (row,) = [row for row in dump_rows(twins[1] / LOG, stats=True, path=True) if row["type"] == "stats"]
    assert row["path"] == str(twins[1] / LOG)


def test_entries_name_their_file(twins: tuple[Path, Path]) -> None:
    for home in twins:
        (home / f"{0:020d}.index").write_bytes(INDEX_ENTRY + b"\x01")
    rows = dump_rows(*twins, files=True, path=True)
    for kind in ("index_entry", "damage"):
        places = [row["path"] for row in rows if row["type"] == kind and row["segment"].endswith(".index")]
        assert places == [str(home / f"{0:020d}.index") for home in twins], kind


def test_kafka_07(tmp_path: Path) -> None:
    home = write_segments(tmp_path / "t-0", {0: message_v07(b"x")}, suffix="kafka")
    (row,) = dump_rows(home, level="records", path=True)
    assert row["path"] == str(home / f"{0:020d}.kafka")
    assert row["next_offset"] == (home / f"{0:020d}.kafka").stat().st_size


def test_a_name_that_has_to_be_escaped(tmp_path: Path) -> None:
    home = write_segments(tmp_path / 'a"b\\c\n\udcff' / "t-0", {0: batch_v2(records(0, 1))})
    (row,) = dump_rows(home, level="records", path=True)
    assert row["path"] == str(home / LOG)


def test_what_follows_names_its_file(twins: tuple[Path, Path]) -> None:
    request = DumpRequest(targets=tuple(resolve([str(home) for home in twins])), level="batches", path=True)
    rows = [
        json.loads(line)
        for chunk in follow(request, Report(), lambda: True)
        for line in bytes(chunk.ndjson("auto")).splitlines()
    ]
    assert [row["path"] for row in rows if row["type"] == "batch"] == [str(home / LOG) for home in twins]


# --- where two directories are alike ----------------------------------------------------------------------------------
def _alike(*paths: Path) -> list[str]:
    return same_partitions(resolve([str(path) for path in paths]))


def test_two_directories_of_one_partition(twins: tuple[Path, Path], tmp_path: Path) -> None:
    other = write_segments(tmp_path / "disk2" / "t-0", {0: b""})
    write_segments(tmp_path / "t-1", {0: b""})
    assert _alike(tmp_path) == ["t-0"]
    assert _alike(twins[0], twins[1]) == ["t-0"]
    assert _alike(twins[0], tmp_path / "disk2") == ["t-0"]
    assert _alike(twins[0] / LOG, other / LOG) == ["t-0"]
    assert _alike(twins[0], tmp_path / "t-1") == []


def test_two_files_of_one_directory_are_told_apart_by_their_names(tmp_path: Path) -> None:
    home = write_segments(tmp_path / "t-0", {0: b"", 5: b""})
    assert _alike(home / LOG, home / f"{5:020d}.log") == []


def test_files_of_no_partition_are_alike_by_their_names(tmp_path: Path) -> None:
    homes = [write_segments(tmp_path / name, dict.fromkeys((0, 5), b"")) for name in ("one", "two")]
    assert _alike(homes[0] / LOG, homes[1] / LOG) == [LOG]
    assert _alike(homes[0] / LOG, homes[1] / f"{5:020d}.log") == []


def test_rows_that_name_their_file_anyway_have_no_further_path() -> None:
    for table in (tables.CHECKPOINT, tables.PROPERTY, tables.FINDING, tables.SUMMARY):
        assert tables.with_path(table) is table
    for table in (tables.RECORD, tables.RECORD_V07, tables.BATCH, tables.DAMAGE, tables.SEGMENT, tables.STATS):
        assert set(tables.with_path(table).columns) == {*table.columns, tables.PATH}
