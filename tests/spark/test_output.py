"""Outputs of several runs: two at once, runs that ended anywhere, runs that were taken for ended, and other writers."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kafkalog_core.errors import (
    LockedError,
    NotFoundError,
    RefusedError,
    SelectionError,
    StorageError,
    UnsupportedError,
)
from kafkalog_core.spark.export.export import EXPORT_KIND
from kafkalog_core.spark.lake import run_signs
from kafkalog_core.spark.lake.clouds import output_path
from kafkalog_core.spark.lake.output import Output, OutputRun, check_place
from kafkalog_core.spark.lake.store import Store, attempt_name, reason_of, run_of, writing
from kafkalog_core.spark.source.sql import open_export
from kafkalog_core.storage.changing.writer import Disk, WriteError
from kafkalog_core.storage.object_paths import ALL_NAMES
from tests.spark.dying import DyingDisk, KilledError
from tests.spark.exporting import Run, batches, damage, offsets_in, write_log
from tests.spark.judging import data_of, files_of, names_of, version_of
from tests.support.inline import Inline, Meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from tests.spark.forking import Forks

ROOT = Path(__file__).parents[2]


# --- two runs at once -------------------------------------------------------------------------------------------------
def test_two_runs_of_different_partitions_both_commit(disk: Path, out: Path) -> None:
    Run(out, disk / "t-0", workers=Meanwhile(lambda: Run(out, disk / "u-0")))
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))
    assert not Run(out, disk).findings
    assert version_of(out / "records") == 2
    assert data_of(out / "records") == names_of(out / "records")


def test_of_two_runs_of_one_partition_the_second_says_so(disk: Path, out: Path) -> None:
    with pytest.raises(LockedError, match=r"another run has exported t-0 since this one began.*run the same command"):
        Run(out, disk, workers=Meanwhile(lambda: Run(out, disk / "t-0")))
    assert (offsets_in(out, "t"), offsets_in(out, "u")) == (list(range(100)), [])
    assert data_of(out / "records") == names_of(out / "records")
    Run(out, disk)
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))


def test_the_next_offset_of_a_partition_is_a_transaction_of_the_table(disk: Path, out: Path) -> None:
    Run(out, disk)
    table = DeltaTable(str(out / "records"))
    assert [table.transaction_version(f"kafkalog/{name}") for name in ("t-0", "u-0", "v-0")] == [100, 100, None]


def test_processes_at_once(disk: Path, out: Path) -> None:
    """Each exports its partition, again and again, while the log grows."""
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.spark.exporting import Run, batches, write_log\n"
        "disk, out, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]\n"
        "Run.number = {'t-0': 1000, 'u-0': 2000}[name]\n"
        "for turn in range(10):\n"
        "    write_log(disk / name, 100 + 10 * turn, batches(100 + 10 * turn, 110 + 10 * turn))\n"
        "    Run(out, disk / name)\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program, disk, out, name], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for name in ("t-0", "u-0")
    ]
    assert [(process.communicate()[1], process.returncode) for process in both] == [("", 0)] * 2
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(200))
    commits = [entry["run"] for entry in DeltaTable(out / "records").history() if "run" in entry]
    assert len(set(commits)) == len(commits) == 20  # beside one or two that create the table


# --- runs that have ended ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(60))
def test_a_process_that_is_killed_at_any_time(disk: Path, out: Path, forks: Forks, seed: int) -> None:
    """Nothing is lost, nothing is there twice, and the next run leaves no file that no commit knows."""
    dice = random.Random(seed)
    if seed % 3:
        Run(out, disk / "t-0")
    with forks.export(str(out), disk, 5000, {}, commit_bytes=dice.choice([1, 1 << 30])) as process:
        time.sleep(dice.random() * 0.3)
        process.kill()
    for name in ("t", "u"):
        there = offsets_in(out, name)
        assert there == list(range(len(there)))
    Run(out, disk)
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))
    assert data_of(out / "records") == names_of(out / "records")
    assert [path.name for path in (out / "_kafkalog/runs").iterdir()] == []
    assert len(list((out / "_kafkalog/states").iterdir())) == 1


def test_findings_are_there_once_wherever_a_run_was_killed(disk: Path, tmp_path: Path) -> None:
    """They are in a table of their own, no commit is of two tables, and the next run does not find them again."""
    damage(disk / "t-0" / f"{0:020}.log")
    counts = []
    for at in count():
        out = tmp_path / f"out-{at}"
        with suppress(KilledError):
            Run(out, disk, disk=DyingDisk(at))
            break
        Run(out, disk)
        counts.append(DeltaTable(str(out / "findings")).to_pyarrow_table().num_rows)
    assert set(counts) == {1}
    assert len(counts) > 30


def test_a_run_that_goes_on_keeps_its_files(disk: Path, out: Path) -> None:
    """While it runs, no other run deletes what it has not committed."""
    files: list[set[str]] = []

    def other() -> None:
        before = data_of(out / "records")
        Run(out, disk / "u-0")
        files.extend([before, data_of(out / "records")])

    Run(out, disk / "t-0", workers=Meanwhile(other))
    assert files[0]
    assert files[0] <= files[1]


def test_a_run_that_was_taken_for_ended_commits_no_more(disk: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sign is old: its files are deleted, but only after a commit by which its own fails."""
    with monkeypatch.context() as patched:
        patched.setattr(run_signs, "is_silent", lambda *_: True)
        with pytest.raises(LockedError, match="another run took this one for ended"):
            Run(out, disk / "t-0", workers=Meanwhile(lambda: Run(out, disk / "u-0")))
    assert (offsets_in(out, "t"), offsets_in(out, "u")) == ([], list(range(100)))
    assert data_of(out / "records") == names_of(out / "records")
    Run(out, disk)
    assert offsets_in(out, "t") == list(range(100))


@pytest.mark.parametrize("hours", [23, 25])
def test_a_run_of_another_machine_is_taken_for_ended_a_day_after_its_last_commit(
    disk: Path, out: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Nobody can see whether it runs. Until then its files stay, and after a commit it has another day."""
    monkeypatch.setattr(run_signs, "is_dead", lambda *_: False)

    def age() -> None:
        then = time.time() - hours * 3600
        for sign in (out / "_kafkalog/runs").iterdir():
            os.utime(sign, (then, then))

    def other() -> None:
        age()
        Run(out, disk / "u-0")

    class Committed(Disk):
        def step(self, what: str, path: str) -> None:
            if what == "committed" and path.endswith("records/_delta_log"):
                Run(out, disk / "u-0")

    Run(out, disk / "t-0", workers=Meanwhile(age), disk=Committed(), commit_bytes=1)
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))
    write_log(disk / "t-0", 100, batches(100, 110))
    if hours < 24:
        Run(out, disk / "t-0", workers=Meanwhile(other))
    else:
        with pytest.raises(LockedError, match="another run took this one for ended"):
            Run(out, disk / "t-0", workers=Meanwhile(other))
        assert data_of(out / "records") == names_of(out / "records")
        Run(out, disk / "t-0")
    assert offsets_in(out, "t") == list(range(110))


def test_signs_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    with run_signs.LiveRun(store, "a"):
        name = run_signs.sign_name("a")
        sign = json.loads(store.read(name))
        assert not run_signs.is_dead(store, "a")
        assert not run_signs.is_silent(store, "a", store.written_s(name) or 0)
        assert run_signs.is_silent(store, "a", (store.written_s(name) or 0) + 86_401)
    assert run_signs.is_dead(store, "a")
    assert not run_signs.is_silent(store, "a", (1 << 40) + 0.0)  # it has ended: nobody has to fence it
    for changed, is_dead in (
        ({}, True),  # of this process, which does not know it
        ({"pid": os.getppid(), "started": "1"}, True),  # another process has the number now
        ({"pid": 2**22 + 1}, True),
        ({"host": "other"}, False),
        ({"boot": "other"}, False),
        ({"processes": "of another container"}, False),
        ({"pid": None}, False),  # not what this release writes
    ):
        store.write(name, json.dumps({**sign, **changed}).encode())
        assert run_signs.is_dead(store, "a") is is_dead, changed
    for unreadable in (b"{", b""):  # or being written now
        store.write(name, unreadable)
        assert not run_signs.is_dead(store, "a")


def test_a_run_begins_although_others_delete_its_unfinished_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They can not know whose it is before it has its name."""
    store, finish, deleted = Store(str(tmp_path)), Store.finish, []

    def delete(self: Store, name: str) -> None:
        finish(self, name)
        if len(deleted) < 3:
            deleted.append(name)
            self.delete([name])

    monkeypatch.setattr(Store, "finish", delete)
    with run_signs.LiveRun(store, "a"):
        assert deleted == [f"{run_signs.sign_name('a')}.new"] * 3
        assert not run_signs.is_dead(store, "a")


def test_a_sign_is_never_seen_half_written(tmp_path: Path) -> None:
    store = Store(str(tmp_path), syncs=False)
    with run_signs.LiveRun(store, "a"):
        sign = store.read(run_signs.sign_name("a"))
        ended = threading.Event()

        def write() -> None:
            while not ended.is_set():
                store.replace(run_signs.sign_name("a"), sign)

        writing = threading.Thread(target=write)
        writing.start()
        seen = {store.read(run_signs.sign_name("a")) for _ in range(2000)}
        ended.set()
        writing.join()
    assert seen == {sign}


def test_a_run_that_commits_while_another_begins(disk: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone before the other looks who has ended, and its files are in the table by then."""
    Run(out, disk / "u-0")
    entered, others = run_signs.LiveRun.__enter__, iter([disk / "t-0"])

    def enter(self: run_signs.LiveRun) -> run_signs.LiveRun:
        result = entered(self)
        for other in others:
            Run(out, other)
        return result

    monkeypatch.setattr(run_signs.LiveRun, "__enter__", enter)
    Run(out, disk / "u-0")
    assert names_of(out / "records") == data_of(out / "records")
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))
    assert not Run(out, disk).findings


def test_a_run_that_is_taken_for_ended_right_after_a_commit(
    disk: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state that it reads after its own commit says so, before it commits again."""

    class Fencing(Disk):
        fenced = False

        def step(self, what: str, path: str) -> None:
            if what == "committed" and path.endswith("records/_delta_log") and not self.fenced:
                self.fenced = True
                with monkeypatch.context() as patched:
                    patched.setattr(run_signs, "is_silent", lambda *_: True)
                    Run(out, disk / "u-0")

    class Ahead(Inline):
        """As Spark's tasks do, before their results are taken."""

        def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            yield from list(super().map(work_of, pieces))

    with pytest.raises(LockedError, match="another run took this one for ended"):
        Run(out, disk / "t-0", workers=Ahead(), disk=Fencing(), commit_bytes=1)
    assert names_of(out / "records") == data_of(out / "records")
    Run(out, disk)
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))


def test_the_same_directory_by_two_names(disk: Path, out: Path) -> None:
    Run(out, disk / "u-0")
    (out.parent / "link").symlink_to(out)
    Run(out, disk / "t-0", workers=Meanwhile(lambda: Run(out.parent / "link", disk / "u-0")))
    assert names_of(out / "records") == data_of(out / "records")
    assert not Run(out, disk).findings


# --- other writers ----------------------------------------------------------------------------------------------------
def test_what_others_do_to_the_table(disk: Path, out: Path) -> None:
    """Files are made larger and old ones deleted, checkpoints are written, the log is cleaned up: it goes on."""
    for end in range(100, 200, 10):
        write_log(disk / "t-0", end, batches(end, end + 10))
        Run(out, disk)
    table = DeltaTable(str(out / "records"))
    table.optimize.compact()
    table.create_checkpoint()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.cleanup_metadata()
    assert offsets_in(out, "t") == list(range(200))
    write_log(disk / "t-0", 200, batches(200, 210))
    assert not Run(out, disk).findings
    assert offsets_in(out, "t") == list(range(210))
    Run(out, disk, reload=True, from_offset=55)
    assert offsets_in(out, "t") == list(range(210))
    assert DeltaTable(str(out / "records")).to_pyarrow_table(columns=["offset"]).num_rows == 310


def test_what_others_do_to_the_findings(disk: Path, out: Path) -> None:
    """They are there once, whatever files hold them."""

    def rows() -> int:
        return DeltaTable(str(out / "findings")).to_pyarrow_table().num_rows

    damage(disk / "t-0" / f"{0:020}.log")
    Run(out, disk)
    write_log(disk / "t-0", 100, batches(100, 150))
    damage(disk / "t-0" / f"{100:020}.log")
    Run(out, disk)
    assert rows() == 2
    table = DeltaTable(str(out / "findings"))
    table.optimize.compact()
    Run(out, disk)
    assert (rows(), version_of(out / "findings")) == (2, 3)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    Run(out, disk)
    write_log(disk / "t-0", 150, batches(150, 160))
    damage(disk / "t-0" / f"{150:020}.log")
    Run(out, disk)
    assert rows() == 3


def test_the_commits_are_on_the_disk(disk: Path, out: Path) -> None:
    synced: list[str] = []

    class Watching(Disk):
        def sync_file(self, path: str) -> None:
            synced.append(path)

        def sync_directory(self, path: str) -> None:
            synced.append(path)

    Run(out, disk, disk=Watching())
    log = out / "records/_delta_log"
    wanted = {log / f"{version:020}.json" for version in range(2)} | {log, out / "records", out, out.parent}
    assert {str(path) for path in wanted} <= set(synced)


def test_a_file_of_an_earlier_run_that_is_damaged(disk: Path, out: Path) -> None:
    Run(out, disk)
    for file in data_of(out / "records"):
        (out / "records" / file).write_bytes(b"PAR1".ljust((out / "records" / file).stat().st_size))
    with pytest.raises(StorageError, match=r"it cannot be read.*restore it from a backup, or reload") as caught:
        Run(out, disk, reload=True, from_offset=33)
    assert caught.value.path is not None
    Run(out, disk, reload=True)
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))


def test_files_that_others_are_writing_stay(disk: Path, out: Path) -> None:
    Run(out, disk)
    theirs = out / "records/part-00001-6ab1d1b4-c000.snappy.parquet"
    theirs.write_bytes(b"another engine's")
    Run(out, disk)
    assert theirs.exists()


def test_files_that_a_reload_replaced_are_there_for_earlier_versions(disk: Path, out: Path) -> None:
    Run(out, disk)
    before = names_of(out / "records")
    Run(out, disk, reload=True)
    Run(out, disk)
    assert not before & names_of(out / "records")
    assert before <= data_of(out / "records")
    assert DeltaTable(str(out / "records"), version=1).to_pyarrow_table(columns=["offset"]).num_rows == 200


def test_a_run_that_replaces_what_somebody_else_has_replaced(disk: Path, out: Path) -> None:
    Run(out, disk)

    def compact() -> None:
        DeltaTable(str(out / "records")).optimize.compact()

    with pytest.raises(LockedError, match="were replaced by somebody else meanwhile"):
        Run(out, disk, workers=Meanwhile(compact), reload=True)
    Run(out, disk, reload=True)
    assert offsets_in(out, "t") == list(range(100))


def test_a_topic_whose_name_is_odd(tmp_path: Path, out: Path) -> None:
    """Kafka has no such names, and a damaged disk may."""
    for name in ("a b", "50%", "é=ü", "x[1]", "q?#"):
        write_log(tmp_path / "disk" / f"{name}-0", 0, batches(0, 10))
    Run(out, tmp_path / "disk")
    assert not Run(out, tmp_path / "disk").findings
    table = DeltaTable(str(out / "records")).to_pyarrow_table(columns=["topic", "offset"])
    counts = {
        row["topic"]: row["offset_count"]
        for row in table.group_by("topic").aggregate([("offset", "count")]).to_pylist()
    }
    assert counts == dict.fromkeys(("a b", "50%", "é=ü", "x[1]", "q?#"), 10)


def test_spark_reads_a_topic_whose_name_is_odd(tmp_path: Path, out: Path, spark: SparkSession) -> None:
    for name in ("a b", "50%", "é=ü", "x[1]"):
        write_log(tmp_path / "disk" / f"{name}-0", 0, batches(0, 10))
    Run(out, tmp_path / "disk")
    for name in ("records.parquet", "not-in-the-table.parquet"):
        rows = open_export(spark, str(out)).groupBy("topic").count().collect()
        assert {row["topic"]: row["count"] for row in rows} == dict.fromkeys(("a b", "50%", "é=ü", "x[1]"), 10)
        shutil.copy(next((out / "records").rglob("*.parquet")), out / "records" / name)


# --- what is refused --------------------------------------------------------------------------------------------------
def test_where_no_output_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/other.parquet").touch()
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka/meta.properties").touch()
    (tmp_path / "old/_kafkalog/commits").mkdir(parents=True)
    (tmp_path / "old/_kafkalog/commits/00000001.json").touch()
    for name, said in (
        ("file", "a file, not a directory"),
        ("full", "holds 'other.parquet'"),
        ("kafka/out", "within Kafka's own directory"),
        ("old", r"a format of its own\. Write the output again into a new directory"),
        ("50%", "may have no %, no backslash"),
    ):
        with pytest.raises(RefusedError, match=said):
            check_place(Store.of(str(tmp_path / name)), EXPORT_KIND)
    with pytest.raises(NotFoundError, match="does not exist; create it"):
        OutputRun(Store.of(str(tmp_path / "no/where")), EXPORT_KIND, "a").__enter__()
    (tmp_path / "a b é").mkdir()
    with OutputRun(Store.of(str(tmp_path / "a b é")), EXPORT_KIND, "a") as lake:
        lake.commit(lambda _: {"a": 1}, [], now_ms=1)
    assert Output.read(Store.of(str(tmp_path / "a b é")), EXPORT_KIND).state == {"a": 1}


@pytest.mark.parametrize("partitioned_by", [[], ["topic", "partition"]])
def test_a_table_of_somebody_else(disk: Path, out: Path, partitioned_by: list[str]) -> None:
    rows = pa.table({"topic": ["a"], "partition": pa.array([0], pa.int32()), "offset": [1]})
    write_deltalake(str(out / "records"), rows, partition_by=partitioned_by)
    with pytest.raises(RefusedError, match="a Delta table that kafkalog did not write"):
        Run(out, disk)
    assert DeltaTable(str(out / "records")).to_pyarrow_table().num_rows == 1
    shutil.rmtree(out)
    DeltaTable.create(str(out / "records"), schema=rows.schema, partition_by=partitioned_by)
    with pytest.raises(RefusedError, match="a Delta table that kafkalog did not write"):
        Run(out, disk)


def test_two_runs_that_have_both_created_the_table(disk: Path, out: Path) -> None:
    """One after the other, as in an object store: a commit without files is not that of somebody else."""
    output = Output(Store.of(str(out)), EXPORT_KIND)
    output.head.create()
    DeltaTable(str(out / "records")).alter.set_table_description("created again")
    assert version_of(out / "records") == 1
    Run(out, disk)
    assert offsets_in(out, "t") == list(range(100))


def test_a_file_that_is_deleted_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise OSError("AWS Error RESOURCE_NOT_FOUND during GetObject operation: none")

    monkeypatch.setattr(Store, "open", gone)
    with pytest.raises(NotFoundError):
        Store(str(tmp_path)).read("a")


def test_places_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for uri in ("s3://", "s3:///a", "s3://b//a", "s3://b/a//c", "s3://b/../a", "s3://b/a#b", "s3://b/a?b"):
        with pytest.raises(UnsupportedError, match="not s3://BUCKET/PREFIX"):
            output_path(uri)
    assert output_path("s3://bucket/a b/") == "s3://bucket/a b"
    assert output_path("s3://bucket") == "s3://bucket"
    azure = "abfss://lake@account.dfs.core.windows.net"
    assert output_path(f"{azure}/a/b/") == f"{azure}/a/b"
    for uri in ("abfss://lake/a", "abfss://lake@account/a", f"{azure}//a", f"{azure}/a%b", f"{azure}.example/a"):
        with pytest.raises(UnsupportedError, match="not abfss://CONTAINER@ACCOUNT"):
            output_path(uri)
    assert output_path("gs://bucket/a") == "gs://bucket/a"
    with pytest.raises(UnsupportedError, match="not gs://BUCKET/PREFIX"):
        output_path("gs:///a")
    with pytest.raises(UnsupportedError, match=r"not write to hdfs: URLs; .* s3://BUCKET/PREFIX, abfss://.*, gs://"):
        output_path("hdfs://host/a")
    for name in ("a\\b", "a\nb", "a\udcff"):
        with pytest.raises(RefusedError, match="may have no %, no backslash"):
            check_place(Store.of(str(tmp_path / name)), EXPORT_KIND)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for options, said in (
        ({"AWS_ACCESS_KEY_ID": "only-this"}, "belong together"),
        ({"AWS_SECRET_ACCESS_KEY": "only-this"}, "belong together"),
        ({"AWS_SESSION_TOKEN": "only-this"}, "AWS_SESSION_TOKEN needs"),
        ({"aws_region": "x"}, "no storage option 'aws_region'"),
    ):
        with pytest.raises(SelectionError, match=said) as caught:
            Store.of("s3://b/a", options)
        assert "only-this" not in str(caught.value)


def test_directories_with_characters_of_globs(disk: Path, tmp_path: Path, spark: SparkSession) -> None:
    for name in ("a[1]", "a{b,c}", "a*b"):
        Run(tmp_path / name, disk)
        assert open_export(spark, str(tmp_path / name)).count() == 200


def test_a_directory_of_a_run_that_ended_before_its_first_commit(disk: Path, out: Path) -> None:
    store = Store(str(out))
    store.write("records/run-1.kafkalog.part-000001-local1-0.parquet", b"PAR1")
    store.write("_kafkalog/states/run-1.kafkalog.000001.json", b"{}")
    Run(out, disk)
    assert offsets_in(out) == list(range(100))
    assert data_of(out / "records") == names_of(out / "records")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: b"{}", "not a state of kafkalog, it was changed"),
        (lambda data: data[:-1], "not a state of kafkalog, it was changed"),
        (lambda data: data.replace(b'"version": 1', b'"version": 9'), "another release of kafkalog wrote this state"),
        (None, "the file with the state of the last commit is missing"),
    ],
)
def test_states_that_were_changed(disk: Path, out: Path, change: Callable[[bytes], bytes] | None, said: str) -> None:
    Run(out, disk)
    (state,) = (out / "_kafkalog/states").iterdir()
    if change is None:
        state.unlink()
    else:
        state.write_bytes(change(state.read_bytes()))
    with pytest.raises(RefusedError, match=f"{said}.*Write the output again into a new directory"):
        Run(out, disk)
    assert offsets_in(out) == list(range(100))


def test_a_table_whose_log_is_damaged_is_a_sentence(disk: Path, out: Path) -> None:
    Run(out, disk)
    for file in (out / "records/_delta_log").glob("*.json"):
        file.write_bytes(b"{")
    with pytest.raises(StorageError, match="the Delta table cannot be read"):
        Run(out, disk)


# --- small things -----------------------------------------------------------------------------------------------------
def test_names() -> None:
    names = {attempt_name("run-1", "part") for _ in range(10)}
    assert len(names) == 10
    assert {run_of(f"records/{name}") for name in names} == {"run-1"}
    assert run_of("part-00001-6ab1d1b4-c000.snappy.parquet") is None


def test_names_of_tasks(spark: SparkSession) -> None:
    made = spark.sparkContext.parallelize(range(4), 4).map(lambda _: attempt_name("run-1", "part")).collect()
    assert len(set(made)) == 4
    assert all("-a0-" in name for name in made)


def test_bounds_and_counts_are_in_the_table(disk: Path, out: Path) -> None:
    Run(out, disk)
    files = [file for file in files_of(out / "records") if file["min.topic"] == "t"]
    assert all(file["max.topic"] == "t" for file in files)
    assert sum(file["num_records"] for file in files) == 100
    assert (min(file["min.offset"] for file in files), max(file["max.offset"] for file in files)) == (0, 99)
    assert all(file["min.timestamp_ms"] <= file["max.timestamp_ms"] for file in files)


def test_how_azure_and_google_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALL_NAMES:
        monkeypatch.delenv(name, raising=False)
    azure = "abfss://lake@account.dfs.core.windows.net/a"
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_CLIENT_ID", "")
    store = Store.of(azure, {"AWS_REGION": "eu-west-1", "AZURE_STORAGE_ACCOUNT_KEY": "b25seQ=="})
    assert dict(store.options) == {"AZURE_STORAGE_ACCOUNT_KEY": "b25seQ=="}
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "b2ZFbnY=")
    assert dict(Store.of(azure).options) == {
        "AZURE_STORAGE_ACCOUNT_KEY": "b2ZFbnY=",
        "AZURE_TENANT_ID": "tenant",
    }
    given = {"AZURE_STORAGE_SAS_TOKEN": "only-for-tests", "AZURITE_BLOB_STORAGE_URL": "http://127.0.0.1:1"}
    store = Store.of(azure, given)
    assert dict(store.options) == given
    with store.delta_options() as options:
        assert options == {"AZURE_STORAGE_SAS_TOKEN": "only-for-tests", "AZURE_STORAGE_ACCOUNT_NAME": "account"}
        assert os.environ["AZURITE_BLOB_STORAGE_URL"] == "http://127.0.0.1:1"
        assert "AZURE_STORAGE_ACCOUNT_KEY" not in os.environ
    assert "AZURITE_BLOB_STORAGE_URL" not in os.environ
    assert os.environ["AZURE_STORAGE_ACCOUNT_KEY"] == "b2ZFbnY="
    assert dict(Store.of(azure, {"AZURE_CLIENT_SECRET": "s", "AZURE_CLIENT_ID": "c"}).options) == {
        "AZURE_CLIENT_ID": "c",
        "AZURE_CLIENT_SECRET": "s",
        "AZURE_TENANT_ID": "tenant",
    }
    for given, problem in (
        ({"AZURE_CLIENT_SECRET": "only-for-tests"}, "belong together"),
        ({"AZURE_STORAGE_SAS_TOKEN": "only-for-tests", "AZURE_STORAGE_ACCOUNT_KEY": "only-for-tests"}, "both set"),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "only-for-tests!"}, "is not the key of an account"),
        ({"AZURE_STORAGE_KEY": "only-for-tests"}, "no storage option 'AZURE_STORAGE_KEY'"),
    ):
        with pytest.raises(SelectionError, match=problem) as caught:
            Store.of(azure, given)
        assert "only-for-tests" not in str(caught.value)
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:2")
    for uri in ("s3://bucket/a", "gs://bucket/a"):
        with Store.of(uri, {"AWS_REGION": "eu-west-1"}).delta_options():
            pass
    assert os.environ["AZURITE_BLOB_STORAGE_URL"] == "http://127.0.0.1:2"
    google = Store.of("gs://bucket/a", {"GOOGLE_APPLICATION_CREDENTIALS": "/etc/google.json"})
    with google.delta_options() as options:
        assert options == {"GOOGLE_APPLICATION_CREDENTIALS": "/etc/google.json"}


def test_what_a_store_says_is_one_line_without_secrets() -> None:
    said = (
        "Kernel error -> Generic MicrosoftAzure error\n \x1b[31m\u21b3\x1b[0m Error performing GET "
        "https://account.blob.core.windows.net/lake/a?sv=2025&sig=only-for-tests in 12.5ms, after 2 retries - Server "
        "returned non-2xx status code\n \u21b3 <?xml version='1.0'?>\n<Error><Code>AuthenticationFailed</Code>\n"
        "<Message>Server failed &amp; said so.\nRequestId:1</Message></Error>"
    )
    assert reason_of(OSError(said)) == "Generic MicrosoftAzure error: AuthenticationFailed: Server failed & said so"
    said = "Generic GCS error: Error performing PUT http://a/b?sig=only-for-tests in 1s - HTTP error: not sent\nmore"
    assert reason_of(OSError(said)) == "Generic GCS error: HTTP error: not sent"
    error = OSError("Generic error: <html>GET /a?sv=1&sig=only-for-tests</html>")
    assert "only-for-tests" not in reason_of(error)
    with pytest.raises(WriteError) as caught, writing("a"):
        raise error
    assert "only-for-tests" not in "".join(traceback.format_exception(caught.value))
    for uri in ("abfss://lake@account.dfs.core.windows.net/a?sig=only-for-tests", "https://a/b?sig=only-for-tests"):
        with pytest.raises(UnsupportedError) as refused:
            output_path(uri)
        assert "only-for-tests" not in str(refused.value)
