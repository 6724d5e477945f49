"""`spark export --format parquet`: the same rows as in the table, once, and complete when `_SUCCESS` is there."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.errors import KafkalogError, LockedError, NotFoundError, RefusedError, StorageError
from kafkalog_core.spark.lake import parquet, run_signs
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.notebook import Disks
from kafkalog_core.spark.source.sql import open_export, open_export_findings
from kafkalog_core.storage.changing.writer import Disk, WriteError
from tests.spark.dying import DyingDisk, KilledError
from tests.spark.exporting import Run, batches, damage, write_log
from tests.spark.judging import data_of, parquet_rows
from tests.support.inline import Inline, Meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from tests.spark.forking import Forks


def run(out: Path | Store, *paths: Path, **given: Any) -> Run:
    return Run(out, *paths, format="parquet", **given)


def files(out: Path) -> set[str]:
    """All files below a directory, but for those of records."""
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    return {name for name in names if not name.startswith("records/")}


def offsets(out: Path) -> dict[tuple[str, int], list[int]]:
    """The offsets by topic and partition, as a reader finds them that takes every file in the directory."""
    found: dict[tuple[str, int], list[int]] = {}
    for name in sorted(data_of(out / "records")):
        for row in pq.ParquetFile(out / "records" / name).read(["topic", "partition", "offset"]).to_pylist():
            found.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    return {place: sorted(rows) for place, rows in found.items()}


ALL = {("t", 0): [*range(100)], ("u", 0): [*range(100)]}


# --- what is written --------------------------------------------------------------------------------------------------
def test_the_rows_are_those_of_the_table(disk: Path, out: Path, tmp_path: Path) -> None:
    said = run(out, disk, commit_bytes=1)
    Run(tmp_path / "table", disk)
    assert {name: row["records"] for name, row in said.exported.items()} == {"t-0": 100, "u-0": 100}
    assert offsets(out) == ALL
    assert files(out) == {"_SUCCESS"}
    assert {path.name for path in out.iterdir()} == {"records", "_SUCCESS"}
    schemas = [{pq.read_schema(path) for path in each.glob("records/*.parquet")} for each in (out, tmp_path / "table")]
    assert schemas[0] == schemas[1]
    mine = ds.dataset(out / "records").to_table().to_pylist()
    for place, rows in parquet_rows(tmp_path / "table").items():
        assert [
            (row["offset"], row["key"], row["value"]) for row in mine if (row["topic"], row["partition"]) == place
        ] == [(row["offset"], row["key"], row["value"]) for row in rows]
    assert len(mine) == 200


def test_findings_are_next_to_the_records(disk: Path, out: Path, spark: SparkSession) -> None:
    damage(disk / "t-0" / f"{0:020}.log")
    assert run(out, disk).codes == ["batch.crc-mismatch"]
    (finding,) = ds.dataset(out / "findings").to_table().to_pylist()
    assert (finding["code"], finding["topic"]) == ("batch.crc-mismatch", "t")
    assert [row.code for row in open_export_findings(spark, str(out)).collect()] == ["batch.crc-mismatch"]
    assert open_export(spark, str(out)).count() == 195


def test_an_empty_log_is_a_finished_export(tmp_path: Path, out: Path, spark: SparkSession) -> None:
    write_log(tmp_path / "disk/t-0", 0, b"")
    run(out, tmp_path / "disk/t-0")
    assert files(out) == {"_SUCCESS"}
    assert open_export(spark, str(out)).count() == 0


def test_files_of_repeated_tasks_are_deleted(disk: Path, out: Path) -> None:
    """Other programs read all files in a directory: a second one, and one that a killed task has left."""

    class Twice(Inline):
        def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            def both() -> Iterator[tuple[Any, ...]]:
                for piece in pieces:
                    torn = work_of(*piece, lambda _: None).file
                    (out / "records" / torn.name).write_bytes(b"PAR1")
                    work_of(*piece, lambda _: None)
                    yield piece

            return super().map(work_of, both())

    run(out, disk, workers=Twice())
    assert offsets(out) == ALL


def test_everything_is_on_the_disk_before_success_is(disk: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(Disk, "sync_file", lambda _, path: steps.append(path))
    monkeypatch.setattr(Disk, "sync_directory", lambda _, path: steps.append(path))
    renamed = Disk.rename

    def rename(self: Disk, path: str, new_path: str) -> None:
        renamed(self, path, new_path)
        steps.append(f"renamed {new_path}")

    monkeypatch.setattr(Disk, "rename", rename)
    run(out, disk)
    last = steps.index(f"renamed {out / '_SUCCESS'}")
    wanted = {str(out / "records" / name) for name in data_of(out / "records")}
    wanted |= {str(above) for name in wanted for above in Path(name).parents if above.is_relative_to(out)}
    assert wanted <= set(steps[:last])
    assert steps[last + 1] == str(out)
    steps.clear()
    run(Store.of(str(out.parent / "fast"), syncs=False), disk)
    assert [step for step in steps if not step.startswith("renamed")] == []


# --- what is refused --------------------------------------------------------------------------------------------------
def test_what_is_there_is_kept(disk: Path, out: Path, tmp_path: Path) -> None:
    run(out, disk)
    Run(tmp_path / "table", disk)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.parquet").touch()
    (tmp_path / "file").touch()
    (tmp_path / "empty/records/more").mkdir(parents=True)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for name, said in (
        ("out", r"it holds a finished export, .* written once\. Name a new or empty directory: --to DIR"),
        ("table", "it holds a Delta table, which a run without --format parquet continues"),
        ("full", "it is not empty: it holds 'mine.parquet'"),
        ("file", "a file, not a directory"),
    ):
        with pytest.raises(RefusedError, match=said):
            run(tmp_path / name, disk)
    with pytest.raises(RefusedError, match="it holds '_SUCCESS'"):
        Run(out, disk)
    with pytest.raises(NotFoundError, match="does not exist; create it"):
        run(tmp_path / "no/where", disk)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    run(tmp_path / "empty", disk)
    assert offsets(tmp_path / "empty") == ALL


def test_two_at_once(disk: Path, out: Path) -> None:
    def other() -> None:
        with pytest.raises(LockedError, match=r"another run is writing into this directory.*--to"):
            run(out, disk)

    run(out, disk, workers=Meanwhile(other))
    assert offsets(out) == ALL
    assert files(out) == {"_SUCCESS"}


def test_two_that_begin_at_the_same_time(disk: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sees the sign of the other: at most one goes on."""
    entered = run_signs.LiveRun.__enter__
    said: list[str] = []

    def enter(self: run_signs.LiveRun) -> run_signs.LiveRun:
        result = entered(self)
        monkeypatch.setattr(run_signs.LiveRun, "__enter__", entered)
        try:
            run(out, disk)
        except LockedError as error:
            said.append(str(error))
        return result

    monkeypatch.setattr(run_signs.LiveRun, "__enter__", enter)
    run(out, disk)
    assert len(said) == 1
    assert offsets(out) == ALL


def test_a_table_that_is_begun_in_the_same_directory(disk: Path, out: Path, spark: SparkSession) -> None:
    """The run of plain files does not finish in it, and deletes its own."""
    with pytest.raises(RefusedError, match="it holds a Delta table"):
        run(out, disk, workers=Meanwhile(lambda: Run(out, disk)))
    assert open_export(spark, str(out)).count() == 200
    assert offsets(out) == ALL
    assert not (out / "_SUCCESS").exists()


def test_a_file_that_somebody_deletes_meanwhile(disk: Path, out: Path) -> None:
    with pytest.raises(StorageError, match="was deleted or changed while the export ran; run the same command again"):
        run(out, disk, workers=Meanwhile(lambda: next(out.rglob("*.parquet")).unlink()))
    assert not data_of(out / "records")
    run(out, disk)


# --- runs that end early ----------------------------------------------------------------------------------------------
def test_killed_at_any_step(disk: Path, tmp_path: Path, spark: SparkSession) -> None:
    for at in range(100):
        out = tmp_path / f"out-{at}"
        try:
            run(out, disk, disk=DyingDisk(at))
        except KilledError:
            pass
        else:
            break
        if (out / "_SUCCESS").exists():
            assert offsets(out) == ALL
        elif files(out) or offsets(out):
            with pytest.raises(NotFoundError, match="no run of kafkalog spark export has finished in this directory"):
                open_export(spark, str(out))
            with pytest.raises(RefusedError, match="an unfinished export, whose run was killed, and can be deleted"):
                run(out, disk)
            shutil.rmtree(out)
        if not (out / "_SUCCESS").exists():
            run(out, disk)
        assert open_export(spark, str(out)).count() == 200
    assert at > 2


@pytest.mark.parametrize("seed", range(20))
def test_a_process_that_is_killed_at_any_time(disk: Path, out: Path, forks: Forks, seed: int) -> None:
    """What it leaves is complete, or refused by the next run, or nothing."""
    with forks.export(str(out), disk, 5000, {}, format="parquet") as process:
        time.sleep(random.Random(seed).random() * 0.15)
        process.kill()
    if (out / "_SUCCESS").exists():
        assert offsets(out) == ALL
        return
    if any(path.is_file() for path in out.rglob("*")):
        with pytest.raises(RefusedError, match="an unfinished export, whose run was killed, and can be deleted"):
            run(out, disk)
        shutil.rmtree(out)
    run(out, disk)
    assert offsets(out) == ALL


def test_a_disk_that_is_full_in_a_task(disk: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:

        def close(_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patched.setattr(parquet.ParquetFile, "close", close)
        with pytest.raises(WriteError, match="no space left on device"):
            run(out, disk)
    assert not [path for path in out.rglob("*") if path.is_file()]
    run(out, disk)
    assert offsets(out) == ALL


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_is_full_or_read_only(disk: Path, out: Path, at: int, number: int) -> None:
    try:
        run(out, disk, disk=DyingDisk(at, number))
    except KafkalogError as error:
        assert os.strerror(number).lower() in str(error).lower()  # noqa: PT017 -- at some steps nothing fails
        assert not [path for path in out.rglob("*") if path.is_file()]
        run(out, disk)
    assert offsets(out) == ALL


def test_a_run_whose_success_cannot_be_written(disk: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not known whether the file is there, as after a lost answer of an object store: it is deleted first."""
    replace = Store.replace

    def late(self: Store, name: str, *rest: Any) -> None:
        replace(self, name, *rest)
        if name == "_SUCCESS":
            raise WriteError("no answer", path=self.path(name), number=None)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "replace", late)
        with pytest.raises(WriteError, match="no answer"):
            run(out, disk)
    assert not [path for path in out.rglob("*") if path.is_file()]
    run(out, disk)


# --- reading it back, and the command ---------------------------------------------------------------------------------
def test_a_file_that_is_missing_is_named(disk: Path, out: Path, spark: SparkSession) -> None:
    run(out, disk)
    next((out / "records").rglob("*.parquet")).unlink()
    problem = r"files of the export are missing or changed since they were committed \(1, this one among them\)\. "
    cure = "Export into a new directory: kafkalog spark export --format parquet --to DIR PATH$"
    with pytest.raises(RefusedError, match=problem + cure):
        open_export(spark, str(out))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"format": "kafkalog-files", "version": 2}'])
def test_a_success_of_somebody_else(out: Path, spark: SparkSession, data: bytes) -> None:
    out.mkdir()
    (out / "_SUCCESS").write_bytes(data)
    with pytest.raises(RefusedError, match="did not write this file"):
        open_export(spark, str(out))


def command(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "400"}).invoke(cli, ["spark", *map(str, arguments)])


def test_the_command(disk: Path, out: Path, spark: SparkSession) -> None:
    write_log(disk / "007-0", 0, batches(0, 10))
    result = command("export", "--format", "parquet", "--output", "table", "--to", out, disk)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == f"210 records of 3 partitions exported to {out}/records"
    query = "select topic, count(*) c from records group by topic order by topic"
    result = command("sql", "--output", "ndjson", "--export", out, query)
    rows = [(row["topic"], row["c"]) for row in map(json.loads, result.stdout.splitlines()) if row["type"] == "row"]
    assert rows == [("007", 10), ("t", 100), ("u", 100)]
    result = command("export", "--format", "parquet", "--to", out, disk)
    assert (result.exit_code, "finished export" in result.output) == (3, True)
    frame = open_export(spark, str(out)).where("topic = '007' and offset < 5")
    assert frame.count() == 5


@pytest.mark.parametrize("options", [("--reload",), ("--on-change", "stop"), ("--commit-bytes", "1GiB")])
def test_options_that_mean_nothing(disk: Path, out: Path, options: tuple[str, ...]) -> None:
    result = command("export", "--format", "parquet", *options, "--to", out, disk)
    assert result.exit_code == 2
    assert f"{options[0]} is for tables, which later runs continue; omit it or --format parquet" in result.output
    assert not out.exists()


def test_it_needs_no_library_for_tables(disk: Path, out: Path) -> None:
    program = "import sys; sys.modules['deltalake'] = None; from kafkalog_cli.main import cli; cli(sys.argv[1:])"
    for arguments in (
        ("export", "--format", "parquet", "--to", out, disk),
        ("sql", "--export", out, "select count(*) c from records"),
    ):
        said = subprocess.run(
            [sys.executable, "-c", program, "spark", *arguments, "--master", "local[1]", "--output", "ndjson"],
            check=True,
            capture_output=True,
            text=True,
        )
    assert json.loads(said.stdout.splitlines()[0])["c"] == 200


def test_on_executors(disk: Path, out: Path, spark: SparkSession) -> None:
    Disks(spark, str(disk)).export(str(out), format="parquet", from_offset=40)
    assert offsets(out) == {("t", 0): [*range(40, 100)], ("u", 0): [*range(40, 100)]}
