"""The export without Spark: what it does with logs that are not as they were, and when it dies or is refused."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kafkalog_core.errors import AccessError, KafkalogError, NotFoundError, RefusedError, SelectionError, StorageError
from kafkalog_core.spark.export.export import EXPORT_KIND
from kafkalog_core.spark.lake import parquet
from kafkalog_core.spark.lake.output import OutputRun
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.storage.changing.writer import Disk, WriteError
from kafkalog_core.storage.source import Source
from tests.spark.dying import DyingDisk, KilledError
from tests.spark.exporting import START_MS, Run, batches, offsets_in, records, values_in, write_log
from tests.spark.judging import data_of, files_of, names_of, version_of
from tests.support.build import message_v07
from tests.support.build_files import partition_metadata
from tests.support.inline import Inline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

UUID = "AAAAAAAAAAAAAAAAAAAAAQ"
OTHER_UUID = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture(autouse=True)
def _fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of the disk is in the order of its steps, and no power is lost here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """`t-0`, with offsets 0 to 99 in two segments."""
    write_log(tmp_path / "t-0", 0, batches(0, 50))
    write_log(tmp_path / "t-0", 50, batches(50, 100))
    return tmp_path / "t-0"


# --- what is exported -------------------------------------------------------------------------------------------------
def test_rows_and_state(log: Path, out: Path) -> None:
    run = Run(out, log)
    assert offsets_in(out) == list(range(100))
    row = run.exported["t-0"]
    assert (row["state"], row["records"], row["from_offset"], row["next_offset"]) == ("exported", 100, 0, 100)
    assert row["files"] == len(data_of(out / "records")) > 2
    assert row["file_bytes"] == sum(path.stat().st_size for path in out.glob("records/*.parquet"))
    summary = run.report.summary_row()
    assert (summary["records"], summary["batches"], summary["files"], summary["partitions"]) == (100, 20, 2, 1)
    assert (summary["bytes"], summary["bytes_total"], summary["rows"]) == (row["log_bytes"], row["log_bytes"], 1)
    run = Run(out, log)
    assert (run.exported["t-0"]["state"], run.report.summary_row()["files_total"]) == ("unchanged", 0)
    assert version_of(out / "records") == 1


def test_columns_of_the_files(log: Path, out: Path) -> None:
    Run(out, log)
    schema = pq.read_schema(next(out.glob("records/*.parquet")))
    assert "type" not in schema.names
    assert schema.names[:7] == ["topic", "partition", "segment", "position", "offset", "timestamp_ms", "timestamp"]
    assert schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_a_task_that_is_done_twice_counts_once(log: Path, out: Path) -> None:
    class Twice(Inline):
        def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            def both() -> Iterator[tuple[Any, ...]]:
                for piece in pieces:
                    work_of(*piece, lambda _: None)
                    yield piece

            return super().map(work_of, both())

    Run(out, log, workers=Twice())
    assert offsets_in(out) == list(range(100))
    assert nothing_is_left(out)


@pytest.mark.parametrize(("asked", "first"), [({"from_offset": 33}, 33), ({"from_time_ms": START_MS + 40_500}, 41)])
def test_where_a_first_export_begins(log: Path, out: Path, asked: dict[str, int], first: int) -> None:
    Run(out, log, **asked)
    assert offsets_in(out) == list(range(first, 100))
    with (log / f"{50:020}.log").open("ab") as file:
        file.write(batches(100, 110))
    Run(out, log, from_offset=5)
    assert offsets_in(out) == list(range(first, 110)), "what is exported already goes on where it was"


def test_from_a_time_that_has_not_come(log: Path, out: Path) -> None:
    Run(out, log, from_time_ms=START_MS * 2)
    assert not offsets_in(out)
    with (log / f"{50:020}.log").open("ab") as file:
        file.write(batches(100, 110))
    Run(out, log)
    assert offsets_in(out) == list(range(100, 110))


def test_a_log_of_0_7_goes_on_at_its_address(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "t-0" / f"{0:020}.kafka"
    path.parent.mkdir()
    path.write_bytes(b"".join(message_v07(b"m%d" % number) for number in range(5)))
    Run(out, path.parent)
    Run(out, path.parent)
    with path.open("ab") as file:
        file.write(b"".join(message_v07(b"m%d" % number) for number in range(5, 8)))
    Run(out, path.parent)
    assert values_in(out) == [b"m%d" % number for number in range(8)]


# --- logs that are not what they were ---------------------------------------------------------------------------------
def rewrite(log: Path, first: int, end: int, word: str = "w") -> None:
    """From an offset on another leader's records."""
    write_log(log, 50, batches(50, first) + batches(first, end, word=word, leader_epoch=3))


@pytest.mark.parametrize(
    ("first", "end", "code"),
    [(80, 120, "export.log-changed"), (80, 100, "export.log-changed"), (80, 90, "export.log-shorter")],
)
def test_a_log_that_was_written_anew(log: Path, out: Path, first: int, end: int, code: str) -> None:
    Run(out, log)
    rewrite(log, first, end)
    run = Run(out, log)
    assert run.codes == [code]
    assert run.exported["t-0"]["state"] == "stopped"
    assert run.report.exit_status == 4
    assert "--on-change reload" in str(run.findings[0]["cure"])
    assert values_in(out) == [record.value for record in records(range(100))], "nothing is done until somebody chooses"
    run = Run(out, log, on_change="reload")
    assert run.codes == ["export.changed-by-choice"]
    assert values_in(out) == [record.value for record in (*records(range(first)), *records(range(first, end), "w"))]
    assert run.exported["t-0"]["removed_records"] == 100
    assert not Run(out, log).findings


def test_going_on_in_a_log_that_was_cut(log: Path, out: Path) -> None:
    Run(out, log)
    rewrite(log, 80, 90)
    run = Run(out, log, on_change="continue")
    assert (run.codes, run.exported["t-0"]["next_offset"]) == (["export.changed-by-choice"], 90)
    rewrite(log, 80, 95)
    assert not Run(out, log).findings
    assert offsets_in(out) == sorted([*range(100), *range(90, 95)])
    rewrite(log, 70, 110, word="x")
    assert Run(out, log).codes == ["export.log-changed"]
    Run(out, log, on_change="continue")
    assert offsets_in(out) == sorted([*range(100), *range(90, 110)])


def test_a_topic_that_was_made_anew(log: Path, out: Path) -> None:
    (log / "partition.metadata").write_bytes(partition_metadata(UUID))
    Run(out, log)
    (log / "partition.metadata").write_bytes(partition_metadata(OTHER_UUID))
    run = Run(out, log)
    assert run.codes == ["export.other-topic"]
    assert UUID in str(run.findings[0]["message"])
    assert Run(out, log, on_change="reload").codes == ["export.changed-by-choice"]
    assert not Run(out, log).findings
    assert offsets_in(out) == list(range(100))


def test_segments_that_were_put_together(log: Path, out: Path) -> None:
    """As a cleaner does: the same batches elsewhere. What is new behind them is read, and nothing twice."""
    Run(out, log)
    (log / f"{50:020}.log").unlink()
    write_log(log, 0, batches(0, 110))
    assert not Run(out, log).findings
    assert offsets_in(out) == list(range(110))


def test_a_log_that_was_cleaned(tmp_path: Path, out: Path) -> None:
    """The batch that was exported last is gone, or shorter: of a log that is known to be compacted that is no news."""
    log = tmp_path / "__consumer_offsets-0"
    write_log(log, 0, batches(0, 100))
    Run(out, log)
    write_log(log, 0, batches(0, 40) + batches(100, 110))
    assert {*Run(out, log).codes} == {"record.not-decoded"}  # records of the test are none of a coordinator
    assert offsets_in(out, "__consumer_offsets") == list(range(110))


def test_a_log_that_is_empty_now(log: Path, out: Path) -> None:
    Run(out, log)
    for path in log.iterdir():
        path.unlink()
    write_log(log, 100, b"")
    assert not Run(out, log).findings, "all was deleted by retention"
    (log / f"{100:020}.log").rename(log / f"{0:020}.log")
    assert Run(out, log).codes == ["export.log-shorter"]


def test_a_gap_behind_what_was_exported(log: Path, out: Path) -> None:
    Run(out, log)
    write_log(log, 120, batches(120, 130))
    run = Run(out, log)
    assert run.codes == ["segment.gap"]
    assert run.findings[0]["offset"] == 100
    assert offsets_in(out) == [*range(100), *range(120, 130)]
    assert not Run(out, log).findings


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_gap_between_two_batches(tmp_path: Path, out: Path, is_compacted: bool) -> None:
    """It is told once, by the run that meets it, and is normal in a compacted log."""
    name = "__consumer_offsets" if is_compacted else "t"
    log = tmp_path / f"{name}-0"
    log.mkdir()
    write_log(log, 0, batches(0, 50) + batches(60, 100))
    run = Run(out, log)
    told = [
        (row["code"], row["severity"], row["offset"]) for row in run.findings if row["code"] != "record.not-decoded"
    ]
    assert told == ([] if is_compacted else [("batch.gap", "warning", 50)])
    assert offsets_in(out, name) == [*range(50), *range(60, 100)]
    assert not Run(out, log).findings


# --- reloading --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("low", [0, 7, 10, 50, 73, 99, 100, 5000])
def test_reload_from_an_offset(log: Path, out: Path, low: int) -> None:
    Run(out, log)
    write_log(log, 0, batches(0, 50, word="w"))
    rewrite(log, 50, 100)
    run = Run(out, log, reload=True, from_offset=low)
    assert values_in(out) == [record.value for record in (*records(range(low))[:100], *records(range(low, 100), "w"))]
    row = run.exported["t-0"]
    assert row["removed_records"] == row["records"] == max(0, 100 - low)
    assert nothing_is_left(out)


def nothing_is_left(out: Path) -> bool:
    """Whether the directory has no file that no commit knows: but for the one state, nothing of a run."""
    for name in ("records", "findings"):
        table = out / name
        versions = range(version_of(table) + 1)
        assert data_of(table) <= {file for version in versions for file in names_of(table, version)}
    assert not list((out / "_kafkalog/runs").iterdir())
    return len(list((out / "_kafkalog/states").iterdir())) <= 1


def test_reload_from_a_time_and_from_the_start(log: Path, out: Path) -> None:
    Run(out, log)
    write_log(log, 0, batches(0, 50, word="w"))
    rewrite(log, 50, 100)
    Run(out, log, reload=True, from_time_ms=START_MS + 60_000)
    assert values_in(out) == [record.value for record in (*records(range(60)), *records(range(60, 100), "w"))]
    Run(out, log, reload=True)
    assert values_in(out) == [record.value for record in records(range(100), "w")]


def test_reloading_several_partitions_never_doubles_a_row(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "u-0"
    shutil.copytree(log, other)
    Run(tmp_path / "first", log, other)
    at = 0
    while True:
        out = tmp_path / f"out-{at}"
        shutil.copytree(tmp_path / "first", out)
        try:
            Run(out, log, other, disk=DyingDisk(at), commit_bytes=1, reload=True, from_offset=48)
        except KilledError:
            pass
        else:
            break
        assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))
        at += 17
    assert offsets_in(out, "t") == offsets_in(out, "u") == list(range(100))


@pytest.mark.parametrize("asked", [{}, {"from_offset": 0}, {"from_time_ms": START_MS}])
def test_reloading_keeps_what_retention_took_since(log: Path, out: Path, asked: dict[str, int]) -> None:
    Run(out, log)
    (log / f"{0:020}.log").unlink()
    rewrite(log, 50, 100)
    Run(out, log, reload=True, **asked)
    assert values_in(out) == [record.value for record in (*records(range(50)), *records(range(50, 100), "w"))]


def test_reloading_behind_what_retention_took(log: Path, out: Path) -> None:
    Run(out, log)
    for path in log.iterdir():
        path.unlink()
    write_log(log, 120, batches(120, 130))
    assert Run(out, log, reload=True).codes == ["export.gone-before"]
    assert offsets_in(out) == [*range(100), *range(120, 130)]


def test_reloading_a_directory_without_segments_takes_nothing_away(log: Path, out: Path) -> None:
    Run(out, log)
    for path in log.iterdir():
        path.unlink()
    (log / "partition.metadata").write_text(f"version: 0\ntopic_id: {UUID}\n")
    assert Run(out, log, reload=True).codes == ["export.log-shorter"]
    assert offsets_in(out) == list(range(100))


def test_reloading_from_the_middle_of_a_file_that_somebody_removed(log: Path, out: Path) -> None:
    Run(out, log)
    name = next(file["path"] for file in files_of(out / "records") if file["min.offset"] == 0)
    (out / "records" / name).unlink()
    with pytest.raises(NotFoundError, match=r"an earlier run wrote this file, but it is missing.*--reload"):
        Run(out, log, reload=True, from_offset=1)
    Run(out, log, reload=True)
    assert offsets_in(out) == list(range(100))


def test_a_file_that_somebody_removed_or_changed_is_named_until_it_is_made_again(log: Path, out: Path) -> None:
    Run(out, log)
    gone, *others = sorted(out.glob("records/*.parquet"))
    gone.unlink()
    others[0].write_bytes(b"")
    for _ in range(2):
        run = Run(out, log)
        lost = [row for row in run.findings if row["code"] == "export.file-lost"]
        assert {row["file"] for row in lost} == {str(gone), str(others[0])}
        assert run.report.exit_status == 4
    assert not Run(out, log, reload=True).findings
    assert offsets_in(out) == list(range(100))
    assert not Run(out, log).findings


def test_a_log_that_was_made_anew_before_anything_of_it_was_exported(tmp_path: Path, out: Path) -> None:
    log = tmp_path / "t-0"
    write_log(log, 50, b"")
    Run(out, log)
    (log / f"{50:020}.log").unlink()
    write_log(log, 0, batches(0, 20))
    assert Run(out, log).codes == ["export.log-shorter"]
    Run(out, log, on_change="reload")
    assert offsets_in(out) == list(range(20))


def test_an_offset_that_the_log_has_not_reached_is_waited_for(log: Path, out: Path) -> None:
    Run(out, log, from_offset=120)
    write_log(log, 100, batches(100, 110))
    assert not Run(out, log).findings
    write_log(log, 110, batches(110, 130))
    assert not Run(out, log).findings
    assert offsets_in(out) == list(range(120, 130))


# --- what is refused --------------------------------------------------------------------------------------------------
def test_two_copies_of_a_partition(log: Path, out: Path, tmp_path: Path) -> None:
    copy = tmp_path / "disk2" / "t-0"
    shutil.copytree(log, copy)
    with pytest.raises(RefusedError, match=f"t-0 is also in {log}.*kafkalog replicas"):
        Run(out, log, copy)
    assert not out.exists()


def test_directories_that_are_not_served(log: Path, out: Path) -> None:
    log_dir = log.parent
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\n")
    moving = log_dir / f"t-0.{'0123456789abcdef' * 2}-future"
    shutil.copytree(log, moving)
    out = log_dir.with_name(f"{log_dir.name}-out")
    run = Run(out, log_dir)
    assert (run.codes.count("export.left-out"), len(offsets_in(out))) == (1, 100)
    other = log_dir.with_name(f"{log_dir.name}-out2")
    Run(other, moving)
    assert offsets_in(other) == list(range(100)), "one that is named is read"


def test_a_file_by_itself(log: Path, out: Path) -> None:
    with pytest.raises(SelectionError, match="not single files"):
        Run(out, log / f"{0:020}.log")


# --- damage -----------------------------------------------------------------------------------------------------------
def test_damage_is_told_and_kept_and_the_rest_is_exported(log: Path, out: Path) -> None:
    data = bytearray((log / f"{0:020}.log").read_bytes())
    size = len(batches(0, 5))
    data[2 * size + 16] ^= 0xFF  # the third batch's magic
    (log / f"{0:020}.log").write_bytes(data)
    run = Run(out, log)
    assert offsets_in(out) == [*range(10), *range(15, 100)]
    assert run.codes == ["log.unknown-magic"]
    assert run.report.exit_status == 4
    assert run.report.summary_row()["damage_count"] == 1
    kept = DeltaTable(str(out / "findings")).to_pyarrow_table().to_pylist()
    assert [row["code"] for row in kept] == run.codes
    assert not Run(out, log).findings, "it is told once"


def test_what_a_broker_is_writing_is_held_back(log: Path, out: Path) -> None:
    whole = batches(100, 105)
    tail = log / f"{50:020}.log"
    before = tail.read_bytes()
    tail.write_bytes(before + whole[:30])
    run = Run(out, log)
    assert (run.codes, run.report.exit_status) == (["export.held-back"], 0)
    tail.write_bytes(before + whole)
    assert not Run(out, log).findings
    assert offsets_in(out) == list(range(105))
    tail.write_bytes(before + whole + whole[:30])
    (log.parent / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (log.parent / ".kafka_cleanshutdown").touch()
    other = log.parent.with_name(f"{log.parent.name}-out")
    assert Run(other, log).codes == ["log.torn-tail"], "a broker that stopped cleanly leaves none"


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files that the system refuses to open."""
    names: set[str] = set()
    opened = Source.open.__func__  # type: ignore[attr-defined]

    def open_(cls: type[Source], path: str) -> Source:
        if os.path.basename(path) in names:
            raise AccessError("no permission to read it", path=str(path))
        return opened(cls, path)

    monkeypatch.setattr(Source, "open", classmethod(open_))
    return names


def test_a_segment_that_cannot_be_opened_is_tried_again(log: Path, out: Path, unreadable: set[str]) -> None:
    unreadable.add(f"{0:020}.log")
    run = Run(out, log)
    assert (run.codes, run.exported["t-0"]["unread_segments"]) == (["file.not-readable"], 1)
    assert offsets_in(out) == list(range(50, 100))
    run = Run(out, log)
    assert (run.codes, version_of(out / "records")) == (["file.not-readable"], 1)
    unreadable.clear()
    run = Run(out, log)
    assert (run.codes, run.exported["t-0"]["unread_segments"]) == (["export.read-later"], 0)
    assert offsets_in(out) == list(range(100))
    assert not Run(out, log).findings


def test_a_segment_that_could_not_be_opened_and_is_gone(log: Path, out: Path, unreadable: set[str]) -> None:
    unreadable.add(f"{0:020}.log")
    Run(out, log)
    (log / f"{0:020}.log").unlink()
    run = Run(out, log)
    assert run.codes == ["export.gone-before"]
    assert "Offsets 0 to 49 were deleted" in str(run.findings[0]["message"])
    assert not Run(out, log).findings


def test_the_last_segment_cannot_be_opened(log: Path, out: Path, unreadable: set[str]) -> None:
    unreadable.add(f"{50:020}.log")
    run = Run(out, log)
    assert (run.codes, run.exported["t-0"]["next_offset"]) == (["file.not-readable"], 50)
    unreadable.clear()
    assert not Run(out, log).findings
    assert offsets_in(out) == list(range(100))


def test_a_file_that_some_tasks_can_open_and_others_not(
    log: Path, out: Path, unreadable: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkalog_core.spark.export import export as module  # noqa: PLC0415 -- whose function is replaced

    done = []

    def flaky(piece: object, advance: Callable[[int], None]) -> object:
        unreadable.clear()
        if len(done) == 1:
            unreadable.add(f"{0:020}.log")
        done.append(piece)
        return work(piece, advance)  # type: ignore[arg-type]

    class Here:
        jobs, scratch = 1, None

        def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            return (work_of(*piece, lambda _: None) for piece in pieces)

    work = module.run_export_task
    monkeypatch.setattr(module, "run_export_task", flaky)
    with pytest.raises(StorageError, match="one task could read this file and another could not"):
        Run(out, log, workers=Here())
    assert not offsets_in(out)


# --- dying ------------------------------------------------------------------------------------------------------------
def grow(log: Path) -> None:
    with (log / f"{50:020}.log").open("ab") as file:
        file.write(batches(100, 130))
    write_log(log, 130, batches(130, 150))


@pytest.mark.parametrize("commit_bytes", [1, 1 << 30])
def test_killed_at_any_step(log: Path, tmp_path: Path, commit_bytes: int) -> None:
    Run(tmp_path / "first", log)
    grow(log)
    at = 0
    while True:
        out = tmp_path / f"out-{at}"
        shutil.copytree(tmp_path / "first", out)
        disk = DyingDisk(at)
        try:
            Run(out, log, disk=disk, commit_bytes=commit_bytes)
        except KilledError:
            pass
        else:
            break
        there = offsets_in(out)
        assert there == list(range(len(there)))
        assert commit_bytes == 1 or len(there) == (100 if version_of(out / "records") == 1 else 150)
        Run(out, log)
        assert offsets_in(out) == list(range(150))
        assert nothing_is_left(out)
        at += 1
    assert at > (5 if commit_bytes > 1 else 20)
    assert offsets_in(out) == list(range(150))


@pytest.mark.parametrize("low", [48, 100])
def test_killed_before_the_first_offset_that_is_wanted(log: Path, out: Path, low: int) -> None:
    """What is read before it is committed too, and is no place to go on from."""

    class Dying(Inline):
        def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            results = super().map(work_of, pieces)
            yield next(results)
            raise KilledError

    if low == 100:
        Run(out, log)
    with pytest.raises(KilledError):
        Run(out, log, workers=Dying(), commit_bytes=1, reload=low == 100, from_offset=low)
    Run(out, log)
    assert offsets_in(out) == list(range(0 if low == 100 else low, 100))


def test_killed_while_reloading(log: Path, tmp_path: Path) -> None:
    Run(tmp_path / "first", log)
    rewrite(log, 50, 100)
    old = [record.value for record in records(range(100))]
    new = [record.value for record in (*records(range(50)), *records(range(50, 100), "w"))]
    at = 0
    while True:
        out = tmp_path / f"out-{at}"
        shutil.copytree(tmp_path / "first", out)
        try:
            Run(out, log, disk=DyingDisk(at), commit_bytes=1, reload=True, from_offset=48)
        except KilledError:
            pass
        else:
            break
        assert values_in(out) == (old if version_of(out / "records") == 1 else new)
        at += 1
    assert values_in(out) == new


def test_a_disk_that_is_full_in_a_task(log: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Run(out, log)
    grow(log)
    with monkeypatch.context() as patched:

        def close(_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patched.setattr(parquet.ParquetFile, "close", close)
        with pytest.raises(WriteError, match="no space left on device"):
            Run(out, log)
    assert offsets_in(out) == list(range(100))
    assert nothing_is_left(out)
    Run(out, log)
    assert offsets_in(out) == list(range(150))


@pytest.mark.parametrize("at", range(12))
def test_a_disk_that_is_full_at_a_step(log: Path, out: Path, at: int) -> None:
    Run(out, log)
    grow(log)
    try:
        Run(out, log, disk=DyingDisk(at, errno.ENOSPC))
    except KafkalogError as error:
        assert "no space left" in str(error)  # noqa: PT017 -- at some steps nothing fails
    Run(out, log, disk=Disk())
    assert offsets_in(out) == list(range(150))


def test_a_state_that_is_none(log: Path, out: Path) -> None:
    with OutputRun(Store.of(str(out)), EXPORT_KIND, "x") as lake:
        lake.commit(lambda _: {"partitions": {"t": {"0": {}}}}, [], now_ms=1)
    with pytest.raises(RefusedError, match="not that of an export by this release"):
        Run(out, log)
