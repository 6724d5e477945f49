"""A catalog holds what dump and verify say, after every run; and nothing is read twice that has not changed."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from kafkalog_cli.main import cli
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import AccessError, RefusedError, SelectionError
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.ops.verify import engine, work
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.spark.catalog import notes, reading, volumes
from kafkalog_core.spark.catalog.catalog import CatalogRequest, catalog
from kafkalog_core.spark.lake.parquet import ParquetFile
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.schema import spark_text
from kafkalog_core.spark.source.sql import open_catalog
from kafkalog_core.storage.changing.writer import Disk, WriteError
from tests.spark.dying import DyingDisk, KilledError
from tests.spark.exporting import NOW_MS
from tests.spark.judging import names_of, version_of, without_times
from tests.support.corpus.snapshots import snapshots
from tests.support.inline import Inline
from tests.support.log_dirs import write_log_dir
from tests.support.partitions import PartitionWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Trust the time of a change at once: the test disks are younger than the age from which a catalog does."""
    monkeypatch.setattr(reading, "SETTLED_NS", 0)


class Catalog:
    """A catalog of some paths, and what is to be in it."""

    def __init__(self, output: Path, *paths: Path) -> None:
        self.output = output
        self._paths = [str(path) for path in paths]
        self._runs = 0

    def run(self, workers=None, *, now_ms=NOW_MS, level="records", disk=None):
        """One run: what was read, what was not, and the codes of what is gone."""
        self._runs += 1
        request = CatalogRequest(
            targets=tuple(resolve(self._paths)), output=Store.of(str(self.output)), now_ms=now_ms, level=level
        )
        chunks = catalog(workers, request, Report(), run_id=f"run-{self._runs}", disk=disk)
        rows = [row for chunk in chunks for row in chunk.rows()]
        parts = [row for row in rows if row["type"] == "catalog"]
        codes = [row["code"] for row in rows if row["type"] == "finding"]
        return sum(row["read_bytes"] for row in parts), sum(row["unchanged_bytes"] for row in parts), codes

    def rows(self, table: str) -> list[str]:
        """All rows of a table of the catalog."""
        files = [self.output / table / name for name in sorted(names_of(self.output / table, self.version_of(table)))]
        return [_text(without_times(row)) for file in files for row in pq.ParquetFile(file).read().to_pylist()]

    def version_of(self, table: str) -> int:
        """The version of a table that belongs to the last run."""
        return self.last_run()[f"{table}_version"]

    def last_run(self) -> dict[str, Any]:
        """The row of the last run."""
        runs, version = self.output / "runs", version_of(self.output / "runs")
        (file,) = names_of(runs, version) - names_of(runs, version - 1)
        return pq.ParquetFile(runs / file).read().to_pylist()[-1]

    def files(self, table: str) -> set[str]:
        """Names of its files."""
        return names_of(self.output / table)

    def assert_right(self, gone: int = 0, level: str = "records") -> None:
        """All tables against dump and verify on the same disk; behind verify's findings are those of what is gone."""
        targets = tuple(resolve(self._paths))
        request = VerifyRequest(targets=targets, now_ms=NOW_MS, level=level)
        findings = [_text(finding.row()) for verdict in verify(request) for finding in verdict.findings]
        found = self.rows("findings")
        assert sorted(row for row in found if '"code": "catalog.' not in row) == sorted(findings)
        assert len(found) == len(findings) + gone
        for level_of_rows, name in (("batches", "batch"), ("segments", "segment")):
            dumped = dump(DumpRequest(targets=targets, level=level_of_rows, resync=True, path=True), Report())
            wanted = [_text(row) for chunk in dumped if chunk.table.name == name for row in chunk.rows()]
            assert sorted(self.rows(level_of_rows)) == sorted(wanted)


def _text(row) -> str:
    values = {name: spark_text(value) if isinstance(value, str) else value for name, value in row.items()}
    values = {name: value for name, value in values.items() if name != "type" and f"{name}_ms" not in values}
    return json.dumps(values, sort_keys=True)


def write(path: Path, segments: int = 4, **options) -> PartitionWriter:
    writer = PartitionWriter(path, **options)
    writer.begin()
    for _ in range(segments):
        writer.segment()
    return writer


def log_bytes(path: Path, pattern: str = "*.log") -> int:
    return sum(log.stat().st_size for log in path.rglob(pattern))


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """A log directory with partitions of producers and transactions, damage, and files that no broker reads."""
    write_log_dir(tmp_path / "kafka", ["s-0", "s-1"])
    write(tmp_path / "kafka" / "a-0")
    damaged = write(tmp_path / "kafka" / "b-0", segments=3, value_bytes=300)
    log = tmp_path / "kafka" / "b-0" / f"{damaged.bases[1]:020d}.log"
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    shutil.copy(log, log.with_name(f"{log.name}.deleted"))
    return tmp_path / "kafka"


@pytest.fixture
def held(tmp_path: Path, kafka: Path) -> Catalog:
    """A catalog of it that was made already."""
    made = Catalog(tmp_path / "catalog", kafka)
    made.run()
    return made


# --- the tables -------------------------------------------------------------------------------------------------------
def test_it_holds_what_dump_and_verify_say(tmp_path: Path, kafka: Path) -> None:
    made = Catalog(tmp_path / "catalog", kafka)
    assert made.run() == (log_bytes(kafka, "*.log*"), 0, [])
    made.assert_right()
    assert any("batch.crc-mismatch" in row for row in made.rows("findings"))
    assert any('"state": "deleted"' in row for row in made.rows("segments"))
    assert len(made.rows("partitions")) == 4


def test_what_has_not_changed_is_not_read_and_nothing_is_written(held: Catalog, kafka: Path) -> None:
    files = {file: file.stat().st_mtime_ns for file in held.output.rglob("*") if file.is_file()}
    assert held.run(now_ms=NOW_MS + 1000) == (0, log_bytes(kafka, "*.log*"), [])
    assert {file: file.stat().st_mtime_ns for file in held.output.rglob("*") if file.is_file()} == files
    assert version_of(held.output / "runs") == 1


def test_large_partitions_are_read_in_pieces(tmp_path: Path, kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SHARED_PARTITION_BYTES", 0)
    monkeypatch.setattr(work, "SHARED_PARTITION_BYTES", 0)
    monkeypatch.setattr(engine, "_ALONE_WORK", 1)
    made = Catalog(tmp_path / "catalog", kafka)
    assert made.run(Inline()) == (log_bytes(kafka, "*.log*"), 0, [])
    made.assert_right()
    assert made.run(Inline()) == (0, log_bytes(kafka, "*.log*"), [])
    made.assert_right()


@pytest.mark.corpus
def test_disks_of_the_corpus_in_one_catalog(tmp_path: Path, corpus: Path) -> None:
    log_dirs = sorted({corpus / snapshot.log_dir for snapshot in snapshots() if snapshot.fault is None})[::4]
    made = Catalog(tmp_path / "catalog", *log_dirs)
    read_bytes, unchanged_bytes, codes = made.run(Inline())
    assert (unchanged_bytes, codes) == (0, [])
    made.assert_right()
    assert made.run(Inline()) == (0, read_bytes, [])


# --- partitions of which nothing has changed ------------------------------------------------------------------------
@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions of which files were opened, by the names of their directories."""
    names: list[str] = []
    check = work._check_listed

    def check_noted(partition, *more):
        names.append(os.path.basename(partition.path))
        return check(partition, *more)

    monkeypatch.setattr(work, "_check_listed", check_noted)
    return names


def test_no_file_of_an_unchanged_partition_is_opened(tmp_path: Path, kafka: Path, read: list[str]) -> None:
    made = Catalog(tmp_path / "catalog", kafka)
    made.run()
    assert read == ["a-0", "b-0", "s-0", "s-1"]
    read.clear()
    assert made.run() == (0, log_bytes(kafka, "*.log*"), [])
    assert read == []
    made.assert_right()


def test_files_that_changed_a_moment_ago_are_compared_again(
    tmp_path: Path, kafka: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their next change may have the same time: of a listing alone nobody can know."""
    monkeypatch.setattr(reading, "SETTLED_NS", 10**15)
    made = Catalog(tmp_path / "catalog", kafka)
    made.run()
    read.clear()
    assert made.run() == (0, log_bytes(kafka, "*.log*"), [])
    assert read == ["a-0", "b-0", "s-0", "s-1"]


def _shorten_index(partition: Path) -> None:
    file = max(partition.glob("*.index"))
    file.write_bytes(file.read_bytes()[:-4] + b"abc")


_CHANGES: dict[str, Callable[[Path], object]] = {
    "a mode": lambda partition: min(partition.glob("*.index")).chmod(0o600),
    "a modification time": lambda partition: os.utime(min(partition.glob("*.timeindex"))),
    "a new file": lambda partition: (partition / "unknown.txt").write_text("?"),
    "an index of another size": _shorten_index,
    "the mode of its directory": lambda partition: partition.chmod(0o700),
    "an epoch file": lambda partition: (partition / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n"),
    "a directory": lambda partition: (partition / "deeper").mkdir(exist_ok=True),
    "a recovery point": lambda partition: (partition.parent / "recovery-point-offset-checkpoint").write_text(
        f"0\n1\n{partition.name.replace('-', ' ')} 1\n"
    ),
    "a start": lambda partition: (partition.parent / ".kafka_cleanshutdown").unlink(missing_ok=True),
}


@pytest.mark.parametrize("what", _CHANGES)
def test_any_other_change_of_a_partition_is_seen(held: Catalog, kafka: Path, read: list[str], what: str) -> None:
    """The partition is checked again, once: after that nothing is new."""
    _CHANGES[what](kafka / "a-0")
    held.run()
    assert "a-0" in read
    held.assert_right()
    read.clear()
    held.run()
    found = [json.loads(row) for row in held.rows("findings")]
    of_files = {row["code"] for row in found if f"{kafka}/a-0/" in row["file"] and row["code"].startswith("file.")}
    may_pass = bool(of_files - reading._STAYING)
    assert read == (["a-0"] if may_pass else [])
    held.assert_right()


def test_a_volume_of_which_only_the_note_of_a_partition_is_kept(tmp_path: Path) -> None:
    write_log_dir(tmp_path / "kafka", [])
    idle, growing = (write(tmp_path / "kafka" / f"{name}-0", segments=2) for name in ("p", "q"))
    made = Catalog(tmp_path / "catalog", tmp_path / "kafka")
    made.run()
    (idle.path / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    for _ in range(3):  # the first run writes the note of `p` into the volume of `q`, the next ones take `q` out of it
        growing.append()
        made.run()
        made.assert_right()
    assert made.run()[0] == 0


def test_a_log_that_no_broker_reads_and_that_cannot_be_read(
    tmp_path: Path, kafka: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no note, so its partition is checked in each run; that is no reason to write anything."""
    made = Catalog(tmp_path / "catalog", kafka)
    made.run()
    min((kafka / "b-0").glob("*.deleted")).touch()

    def measure(file, *_):
        raise AccessError("may not be read", path=file.path)

    monkeypatch.setattr(reading, "measure", measure)
    made.run()
    version = version_of(made.output / "runs")
    made.run()
    made.run()
    assert version_of(made.output / "runs") == version


def test_another_release_reads_everything_again(held: Catalog, kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "version", lambda _: "99.0")
    assert held.run() == (log_bytes(kafka, "*.log*"), 0, [])
    held.assert_right()


@pytest.mark.parametrize("groups_kept", [1, 1000])
def test_a_merge_of_notes_of_which_the_pieces_are_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups_kept: int
) -> None:
    """The note of a segment does not go on without its pieces: its batches would be missing in the next replay."""
    monkeypatch.setattr(notes, "_GROUP_BYTES", 8000)
    monkeypatch.setattr(notes, "_GROUPS_KEPT", groups_kept)
    write_log_dir(tmp_path / "kafka", [])
    writers = [write(tmp_path / "kafka" / f"a-{number}", segments=12) for number in range(8)]
    made = Catalog(tmp_path / "catalog", tmp_path / "kafka")
    made.run()
    _damage_notes(made, "cells")
    shutil.rmtree(writers[0].path)
    made.run()
    made.assert_right(gone=1)
    for writer in writers[1:]:
        writer.append()
    made.run()
    made.assert_right()


def test_notes_of_which_the_pieces_are_damaged_serve_until_a_log_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_GROUP_BYTES", 8000)
    monkeypatch.setattr(notes, "_GROUPS_KEPT", 1)
    write_log_dir(tmp_path / "kafka", [])
    writers = [write(tmp_path / "kafka" / f"a-{number}", segments=12) for number in range(8)]
    made = Catalog(tmp_path / "catalog", tmp_path / "kafka")
    made.run()
    _damage_notes(made, "cells")
    assert made.run() == (0, log_bytes(tmp_path / "kafka"), [])
    made.assert_right()
    for writer in writers:
        writer.append()
    made.run(Inline())
    made.assert_right()


# --- disks that change ------------------------------------------------------------------------------------------------
def test_a_log_grows_and_is_rolled(tmp_path: Path) -> None:
    writer = write(tmp_path / "t-0")
    made = Catalog(tmp_path / "catalog", tmp_path / "t-0")
    made.run()
    for change in (writer.append, writer.segment, lambda: None, writer.append):
        last = tmp_path / "t-0" / f"{writer.bases[-1]:020d}.log"
        before = log_bytes(tmp_path / "t-0") - last.stat().st_size
        change()
        read_bytes, unchanged_bytes, codes = made.run()
        assert unchanged_bytes >= before
        assert read_bytes + unchanged_bytes == log_bytes(tmp_path / "t-0")
        assert codes == []
        made.assert_right()


def test_retention_takes_segments_away(tmp_path: Path) -> None:
    writer = write(tmp_path / "t-0", segments=5)
    made = Catalog(tmp_path / "catalog", tmp_path / "t-0")
    made.run()
    for base in writer.bases[:2]:
        for file in (tmp_path / "t-0").glob(f"{base:020d}.*"):
            file.unlink()
    assert made.run() == (0, log_bytes(tmp_path / "t-0"), ["catalog.segments-deleted"])
    made.assert_right(gone=1)
    assert made.run()[2] == []
    made.assert_right()


def test_what_is_lost_is_told(held: Catalog, kafka: Path) -> None:
    logs = sorted((kafka / "a-0").glob("*.log"))
    logs[2].unlink()
    shutil.rmtree(kafka / "s-1")
    assert sorted(held.run()[2]) == ["catalog.partition-gone", "catalog.segment-lost"]
    held.assert_right(gone=2)
    [lost] = [json.loads(row) for row in held.rows("findings") if "catalog.segment-lost" in row]
    assert (lost["file"], lost["offset"], lost["severity"]) == (str(logs[2]), int(logs[2].stem), "warning")


def test_a_segment_of_the_same_size_that_was_written_anew_is_read(held: Catalog, kafka: Path) -> None:
    log = min((kafka / "a-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    assert held.run()[0] == log.stat().st_size
    held.assert_right()


def test_a_partition_that_is_not_named_leaves_without_a_word(tmp_path: Path, kafka: Path, held: Catalog) -> None:
    fewer = Catalog(held.output, kafka / "a-0")
    fewer._runs = 10
    assert fewer.run()[2] == []
    fewer.assert_right()
    assert len(fewer.rows("partitions")) == 1


def test_another_level_reads_everything_again(held: Catalog, kafka: Path) -> None:
    assert held.run(level="checksums") == (log_bytes(kafka, "*.log*"), 0, [])
    held.assert_right(level="checksums")


def test_notes_that_cannot_be_read_are_made_again(held: Catalog, kafka: Path) -> None:
    for file in (held.output / "_kafkalog/notes").iterdir():
        file.write_bytes(b"PAR1".ljust(file.stat().st_size))
    assert held.run()[0] == log_bytes(kafka, "*.log*")
    held.assert_right()


@pytest.mark.parametrize("table", ["batches", "_kafkalog/notes", "segments", "findings"])
def test_files_that_were_taken_away_are_made_again(held: Catalog, kafka: Path, table: str) -> None:
    for file in (held.output / table).glob("*.parquet"):
        file.unlink()
    held.run()
    held.assert_right()
    assert held.run()[0] == 0


@pytest.mark.parametrize("seed", range(8))
def test_any_course_of_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Logs that grow, are rolled, retained, damaged, deleted and made; the catalog is right after each run."""
    dice = random.Random(seed)
    for name, values in (("MOST_SMALL", [0, 2, 16]), ("_HELD_ROWS", [1, 7, 250]), ("_HELD_BYTES", [0, 5000, 10**6])):
        monkeypatch.setattr(volumes, name, dice.choice(values))
    monkeypatch.setattr(volumes, "_IDLE", [])
    monkeypatch.setattr(notes, "_GROUP_BYTES", dice.choice([0, 2000, 10**6]))
    monkeypatch.setattr(work, "SHARED_PARTITION_BYTES", dice.choice([0, 3000, 10**9]))
    monkeypatch.setattr(engine, "SHARED_PARTITION_BYTES", work.SHARED_PARTITION_BYTES)
    write_log_dir(tmp_path / "kafka", [])
    writers = [write(tmp_path / "kafka" / f"t-{number}", segments=2) for number in range(3)]
    made = Catalog(tmp_path / "catalog", tmp_path / "kafka")
    made.run(Inline())
    for _ in range(5):
        for _ in range(dice.randrange(4)):
            _happen(dice, writers, tmp_path / "kafka")
        workers = dice.choice([None, Inline()])
        gone = len(made.run(workers)[2])
        made.assert_right(gone)
    assert made.run()[0] == 0


def _happen(dice: random.Random, writers: list[PartitionWriter], kafka: Path) -> None:
    writer = dice.choice(writers)
    logs = sorted(writer.path.glob("*.log"))
    match dice.choice(["append", "roll", "retain", "damage", "delete", "new", "other"]):
        case "other":
            dice.choice([*_CHANGES.values()])(writer.path)
        case "append":
            writer.append()
        case "roll":
            writer.segment(rounds=dice.randrange(1, 3))
        case "retain" if len(logs) > 1:
            for file in writer.path.glob(f"{logs[0].stem}.*"):
                file.rename(f"{file}.deleted") if dice.random() < 0.5 else file.unlink()
        case "damage":
            data = bytearray(dice.choice(logs).read_bytes())
            data[dice.randrange(len(data))] ^= 1
            dice.choice(logs).write_bytes(data)
        case "delete" if len(writers) > 2:
            writers.remove(writer)
            shutil.rmtree(writer.path)
        case "new":
            number = dice.randrange(100, 10**6)
            writers.append(write(kafka / f"t-{number}", segments=dice.randrange(1, 4)))


# --- files of the catalog -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("held_bytes", [0, 10**6])
def test_many_small_files_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_bytes: int) -> None:
    """The segments of small partitions are written into one, and so is what later runs write."""
    monkeypatch.setattr(volumes, "MOST_SMALL", 4)
    monkeypatch.setattr(volumes, "_HELD_BYTES", held_bytes)
    write_log_dir(tmp_path / "kafka", [])
    writers = [write(tmp_path / "kafka" / f"t-{number}", segments=2) for number in range(6)]
    made = Catalog(tmp_path / "catalog", tmp_path / "kafka")
    made.run()
    assert len(made.files("batches")) == len(list((made.output / "_kafkalog/notes").iterdir())) == 1
    made.assert_right()
    for writer in writers[:2]:
        last = writer.path / f"{writer.bases[-1]:020d}.log"
        writer.append()
        assert made.run(Inline())[0] == last.stat().st_size
        made.assert_right()
    assert made.run()[:2] == (0, log_bytes(tmp_path / "kafka"))
    assert len(made.files("batches")) <= 4


def _damage_notes(made: Catalog, column: str) -> None:
    """Damage a column in the middle one of the row groups."""
    (file,) = (made.output / "_kafkalog/notes").iterdir()
    footer = pq.ParquetFile(file).metadata
    group = footer.row_group(footer.num_row_groups // 2)
    chunk = group.column([group.column(index).path_in_schema for index in range(group.num_columns)].index(column))
    data = bytearray(file.read_bytes())
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    data[first + 20 : first + 60] = bytes(40)
    file.write_bytes(data)
    for cached in (notes._index_of, notes._group_of):
        cached.cache_clear()


@pytest.mark.parametrize("column", ["note", "cells"])
@pytest.mark.parametrize("groups_kept", [1, 1000])
def test_damage_in_the_notes_of_many_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, groups_kept: int
) -> None:
    """What the damaged row group holds is read again, the rest is not."""
    monkeypatch.setattr(reading, "SETTLED_NS", 10**15)  # so that the pieces are needed
    monkeypatch.setattr(notes, "_GROUP_BYTES", 8000)
    monkeypatch.setattr(notes, "_GROUPS_KEPT", groups_kept)
    write_log_dir(tmp_path / "kafka", [])
    for number in range(8):
        write(tmp_path / "kafka" / f"a-{number}", segments=12)
    made = Catalog(tmp_path / "catalog", tmp_path / "kafka")
    made.run()
    _damage_notes(made, column)
    read_bytes, unchanged_bytes, codes = made.run(Inline())
    assert 0 < read_bytes < unchanged_bytes
    assert codes == []
    made.assert_right()
    made.run(Inline())  # reads a segment whose note was there, and its pieces in the damaged row group, or the reverse
    assert made.run(Inline())[0] == 0
    made.assert_right()


def test_a_partition_whose_notes_fill_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_GROUP_BYTES", 2000)
    write_log_dir(tmp_path / "kafka", ["s-0"])
    writer = write(tmp_path / "kafka" / "t-0", segments=40)
    made = Catalog(tmp_path / "catalog", tmp_path / "kafka")
    assert made.run() == (log_bytes(tmp_path / "kafka"), 0, [])
    (file,) = (made.output / "_kafkalog/notes").iterdir()
    assert pq.ParquetFile(file).num_row_groups > 20
    last = writer.path / f"{writer.bases[-1]:020d}.log"
    writer.append()
    assert made.run()[0] == last.stat().st_size
    made.assert_right()


def test_a_run_that_dies_at_any_step_leaves_it_as_it_was(held: Catalog, kafka: Path, tmp_path: Path) -> None:
    """Who opens the catalog sees one run whole, and so does the next run, which leaves no file of the one that died."""
    before = {table: held.rows(table) for table in ("segments", "batches", "findings", "partitions")}
    (kafka / "s-0" / f"{0:020d}.log").write_bytes(bytes(200))
    at = 0
    while True:
        copied = Catalog(tmp_path / f"catalog-{at}", kafka)
        shutil.copytree(held.output, copied.output)
        copied._runs = 10
        try:
            copied.run(disk=DyingDisk(at))
        except KilledError:
            pass
        else:
            break
        is_new = copied.last_run()["run"] == "run-11"
        assert ({table: copied.rows(table) for table in before} == before) is not is_new
        copied.run()
        copied.assert_right()
        assert copied.run()[0] == 0
        for table in before:
            versions = range(version_of(copied.output / table) + 1)
            known = {file for version in versions for file in names_of(copied.output / table, version)}
            assert {path.name for path in (copied.output / table).glob("*.parquet")} <= known
        assert len(list((copied.output / "_kafkalog/notes").iterdir())) == len(copied.files("batches"))
        at += 1
    assert at > 12


def test_a_first_run_that_dies_at_any_step(kafka: Path, tmp_path: Path) -> None:
    at = 0
    while True:
        made = Catalog(tmp_path / f"catalog-{at}", kafka)
        try:
            made.run(disk=DyingDisk(at))
        except KilledError:
            pass
        else:
            break
        made.run()
        made.assert_right()
        at += 1
    assert at > 12


def test_a_commit_of_another_engine_right_after_ours(held: Catalog, kafka: Path) -> None:
    """The run names its own version of the table."""

    class Meddling(Disk):
        def step(self, what: str, path: str) -> None:
            if what == "committed" and path.endswith("segments/_delta_log"):
                DeltaTable(str(held.output / "segments")).delete()

    (kafka / "s-0" / f"{0:020d}.log").write_bytes(bytes(200))
    held.run(disk=Meddling())
    held.assert_right()
    held.run()
    held.assert_right()


def test_a_disk_that_is_full_in_the_middle_of_a_volume(kafka: Path, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limits[1]))
    try:
        with pytest.raises(WriteError, match="file too large"):
            Catalog(tmp_path / "catalog", kafka).run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("what", ["write", "close"])
def test_a_full_disk_is_a_sentence(held: Catalog, kafka: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    before = held.rows("batches")
    (kafka / "a-0" / f"{0:020d}.timeindex").write_bytes(bytes(12))

    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ParquetFile, what, full)
    with pytest.raises(WriteError, match="no space left on device"):
        held.run(Inline())
    monkeypatch.undo()
    assert held.rows("batches") == before
    held.run()
    held.assert_right()


def test_files_relative_paths_and_other_outputs_are_refused(tmp_path: Path, kafka: Path) -> None:
    def run(path, output=tmp_path / "catalog"):
        request = CatalogRequest(targets=tuple(resolve([str(path)])), output=Store.of(str(output)), now_ms=NOW_MS)
        list(catalog(None, request, Report(), run_id="run"))

    with pytest.raises(SelectionError, match="log directories and partitions, not files"):
        run(kafka / "meta.properties")
    with pytest.raises(RefusedError):
        run(kafka, kafka / "catalog")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(RefusedError):
        run(kafka, tmp_path / "other")
    copied = tmp_path / "copied"  # partitions alone: nothing in it is a broker's own
    shutil.copytree(kafka, copied)
    for file in copied.iterdir():
        if file.is_file():
            file.unlink()
    (copied / "aside").mkdir()
    with pytest.raises(RefusedError, match="which is read"):
        run(copied, copied / "aside/catalog")


# --- through Spark ----------------------------------------------------------------------------------------------------
def test_the_command_and_its_tables_through_spark(tmp_path: Path, kafka: Path, spark: SparkSession) -> None:
    output = tmp_path / "catalog"
    arguments = ["spark", "catalog", "--to", str(output), "--output", "ndjson", str(kafka)]
    first, second = (CliRunner().invoke(cli, arguments, catch_exceptions=False) for _ in range(2))
    assert (first.exit_code, second.exit_code) == (4, 4)
    summaries = [json.loads(result.stdout.splitlines()[-1]) for result in (first, second)]
    assert summaries[0]["unchanged_bytes"] == 0
    assert summaries[1]["unchanged_bytes"] == summaries[1]["bytes"] == log_bytes(kafka, "*.log*")
    frames = open_catalog(spark, str(output))
    made = Catalog(output, kafka)
    for name, frame in frames.items():
        assert sorted(_text(row.asDict()) for row in frame.collect()) == sorted(made.rows(name))
    assert frames["segments"].where("state = 'deleted'").count() == 1


def test_verify_through_spark_says_what_verify_says(kafka: Path, spark: SparkSession) -> None:
    results = [
        CliRunner().invoke(cli, [*command, "--output", "ndjson", str(kafka)], catch_exceptions=False)
        for command in (("spark", "verify"), ("verify",))
    ]
    assert results[0].stdout == results[1].stdout
    assert results[0].exit_code == results[1].exit_code == 4
