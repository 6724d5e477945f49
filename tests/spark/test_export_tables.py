"""The table of an export: what is in its files, which partitions share one, and tables of earlier builds."""

from __future__ import annotations

import shutil
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import NotFoundError
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.spark.catalog.catalog import CatalogRequest, catalog
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.arrow import moments
from kafkalog_core.spark.source.sql import open_catalog, open_export
from tests.spark.dying import DyingDisk, KilledError
from tests.spark.exporting import NOW_MS, START_MS, Run, batches, offsets_in, write_log
from tests.spark.judging import data_of, files_of, names_of, parquet_rows
from tests.support.build import ABORT, COMMIT, Record, batch_v2, txn_marker
from tests.support.partitions import PartitionWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIER = Path(__file__).parents[2] / "fixtures/tables/earlier-tables.tgz"


def table_of(out: Path) -> pa.Table:
    return DeltaTable(str(out / "records")).to_pyarrow_table()


# --- many small partitions --------------------------------------------------------------------------------------------
@pytest.fixture
def many(tmp_path: Path) -> Path:
    """300 partitions of 20 records each, in three topics."""
    for number in range(300):
        write_log(tmp_path / "many" / f"{'abc'[number % 3]}-{number // 3}", 0, batches(0, 20))
    return tmp_path / "many"


def places(out: Path) -> dict[tuple[str, int], list[int]]:
    return {place: [int(str(row["offset"])) for row in rows] for place, rows in parquet_rows(out).items()}


ALL = {(topic, number): [*range(20)] for topic in "abc" for number in range(100)}


def test_small_partitions_share_a_sorted_file(many: Path, out: Path) -> None:
    run = Run(out, many, task_bytes=1 << 20)
    (file,) = files_of(out / "records")
    assert (file["min.topic"], file["max.topic"], file["min.partition"], file["max.partition"]) == ("a", "c", 0, 99)
    assert places(out) == ALL  # which looks at the order too
    assert {row["records"] for row in run.exported.values()} == {20}
    assert sum(int(str(row["file_bytes"])) for row in run.exported.values()) <= file["size_bytes"]
    assert {row["state"] for row in Run(out, many).exported.values()} == {"unchanged"}


def test_a_large_partition_next_to_small_ones(many: Path, out: Path) -> None:
    write_log(many / "b-7", 20, batches(20, 2000))
    Run(out, many, task_bytes=20_000)
    assert 2 < len(names_of(out / "records")) < 30
    assert places(out) == {**ALL, ("b", 7): [*range(2000)]}


@pytest.mark.parametrize("commit_bytes", [1, 1 << 30])
def test_some_of_a_file_is_reloaded(many: Path, out: Path, commit_bytes: int) -> None:
    Run(out, many, task_bytes=1 << 20)
    write_log(many / "a-3", 0, batches(0, 30, word="w"))
    write_log(many / "c-50", 0, batches(0, 25, word="w"))
    run = Run(out, many / "a-3", many / "b-1", many / "c-50", reload=True, commit_bytes=commit_bytes, task_bytes=300)
    assert {name: row["removed_records"] for name, row in run.exported.items()} == {"a-3": 20, "b-1": 20, "c-50": 20}
    assert places(out) == {**ALL, ("a", 3): [*range(30)], ("c", 50): [*range(25)]}
    values = {bytes(row["value"])[:1] for row in table_of(out).filter(pc.field("topic") == "a").to_pylist()}
    assert values == {b"v", b"w"}
    Run(out, many / "b-2", reload=True, from_offset=7)
    assert places(out) == {**ALL, ("a", 3): [*range(30)], ("c", 50): [*range(25)]}


@pytest.mark.parametrize("commit_bytes", [1, 1500])
def test_killed_while_some_of_a_file_is_reloaded(many: Path, tmp_path: Path, commit_bytes: int) -> None:
    """Every row is there once at any time, whatever was committed before the end."""
    for number in range(90):
        shutil.rmtree(many / f"c-{number}")
    Run(tmp_path / "first", many, task_bytes=4000)
    wanted = places(tmp_path / "first")
    reloaded = [many / name for name in ("a-3", "a-4", "a-90", "b-7")]
    at = 0
    while True:
        out = tmp_path / f"out-{at}"
        shutil.copytree(tmp_path / "first", out)
        try:
            Run(out, *reloaded, disk=DyingDisk(at), commit_bytes=commit_bytes, reload=True, task_bytes=300)
        except KilledError:
            pass
        else:
            break
        assert places(out) == wanted
        Run(out, many)
        assert places(out) == wanted
        assert data_of(out / "records") >= names_of(out / "records")
        shutil.rmtree(out)
        at += 1
    assert at > 5


def test_a_shared_file_that_is_lost(many: Path, out: Path) -> None:
    Run(out, many, task_bytes=1 << 20)
    (out / "records" / next(iter(names_of(out / "records")))).unlink()
    run = Run(out, many)
    assert run.codes == ["export.file-lost"]
    assert (run.findings[0]["topic"], run.findings[0]["partition"]) == (None, None)
    with pytest.raises(NotFoundError, match="reload all partitions that it held"):
        Run(out, many / "a-3", reload=True)
    Run(out, many, reload=True)
    assert places(out) == ALL


# --- the columns ------------------------------------------------------------------------------------------------------
def test_times(tmp_path: Path, out: Path) -> None:
    last = 253_402_300_799_999
    times = [-1, 0, START_MS, last, last + 1, -2, (1 << 63) - 1]
    data = b"".join(batch_v2([Record(offset=at, timestamp_ms=time)]) for at, time in enumerate(times))
    write_log(tmp_path / "t-0", 0, data)
    Run(out, tmp_path / "t-0")
    rows = sorted(table_of(out).to_pylist(), key=lambda row: row["offset"])
    assert [row["timestamp_ms"] for row in rows] == times
    assert [row["timestamp"] for row in rows] == [
        None,
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
        None,
        datetime(1969, 12, 31, 23, 59, 59, 998000, tzinfo=UTC),
        None,
    ]
    assert moments(pa.array([None, -62_135_596_800_001], pa.int64())).null_count == 2


def committed(path: Path) -> dict[int, bytes | None]:
    """What a read_committed consumer gets, by the offset."""
    request = DumpRequest(targets=tuple(resolve([str(path)])), level="records", committed="log-end", resync=True)
    rows = [row for chunk in dump(request, Report()) for row in chunk.rows()]
    return {int(str(row["offset"])): row["value"] for row in rows if row["type"] == "record"}  # type: ignore[misc]


@pytest.mark.parametrize("task_bytes", [150, 400, 1 << 20])
def test_whether_a_record_is_committed(tmp_path: Path, out: Path, task_bytes: int) -> None:
    writer = PartitionWriter(tmp_path / "disk" / "t-0")
    writer.begin()
    for _ in range(4):
        writer.segment()
    write_log(tmp_path / "disk" / "u-0", 0, batches(0, 10))
    Run(out, tmp_path / "disk", task_bytes=task_bytes)
    rows = table_of(out).to_pylist()
    mine = [row for row in rows if row["topic"] == "t"]
    assert {row["offset"] for row in mine if row["is_committed"]} == {*committed(tmp_path / "disk" / "t-0")}
    assert {row["control_type"] for row in mine if row["is_committed"] is None} == {"commit", "abort"}
    assert {row["is_transactional"] for row in mine if row["is_committed"] is False} == {True}
    assert {row["is_committed"] for row in rows if row["topic"] == "u"} == {True}


def transaction(first: int, kind: int | None, producer_id: int = 7) -> bytes:
    """Two records, and the end of their transaction; None: it is open."""
    sent = [Record(offset=first + number, value=b"%d" % (first + number)) for number in range(2)]
    data = batch_v2(sent, producer_id=producer_id, producer_epoch=0, base_sequence=first, is_transactional=True)
    return data if kind is None else data + txn_marker(kind, offset=first + 2, producer_id=producer_id)


def outcomes(out: Path) -> dict[int, Any]:
    return {row["offset"]: row["is_committed"] for row in table_of(out).to_pylist()}


def test_an_outcome_that_is_not_known_yet(tmp_path: Path, out: Path) -> None:
    log = tmp_path / "t-0"
    write_log(log, 0, transaction(0, COMMIT) + transaction(3, ABORT) + transaction(6, None, 8) + batches(8, 10))
    Run(out, log)
    first = {0: True, 1: True, 2: None, 3: False, 4: False, 5: None, 6: None, 7: None, 8: True, 9: True}
    assert outcomes(out) == first
    write_log(log, 10, txn_marker(COMMIT, offset=10, producer_id=8) + transaction(11, COMMIT, 8))
    Run(out, log)
    assert outcomes(out) == {**first, 10: None, 11: True, 12: True, 13: None}
    Run(out, log, reload=True, from_offset=6)
    assert outcomes(out) == {**first, 6: True, 7: True, 10: None, 11: True, 12: True, 13: None}


def test_the_marker_is_in_a_later_segment(tmp_path: Path, out: Path) -> None:
    log = tmp_path / "t-0"
    write_log(log, 0, transaction(0, None))
    write_log(log, 2, batches(2, 5))
    write_log(log, 5, txn_marker(ABORT, offset=5, producer_id=7))
    Run(out, log, task_bytes=1)
    assert outcomes(out) == {0: False, 1: False, 2: True, 3: True, 4: True, 5: None}


@pytest.mark.parametrize("task_bytes", [100, 1 << 20])
def test_only_what_is_committed(tmp_path: Path, out: Path, task_bytes: int) -> None:
    log = tmp_path / "t-0"
    data = transaction(0, COMMIT) + transaction(3, ABORT) + batches(6, 8) + transaction(8, None, 8) + batches(10, 20)
    write_log(log, 0, data)
    run = Run(out, log, committed=True, task_bytes=task_bytes)
    assert (offsets_in(out), run.exported["t-0"]["next_offset"]) == ([0, 1, 6, 7], 8)
    assert "txn.open" in run.codes
    assert Run(out, log, committed=True).exported["t-0"]["state"] == "unchanged"
    with (log / f"{0:020}.log").open("ab") as file:
        file.write(transaction(20, ABORT))
    assert Run(out, log, committed=True).exported["t-0"]["state"] == "unchanged"
    write_log(log, 23, txn_marker(COMMIT, offset=23, producer_id=8) + transaction(24, ABORT, 8) + batches(27, 30))
    run = Run(out, log, committed=True, task_bytes=task_bytes)
    assert offsets_in(out) == [*committed(log)] == [0, 1, 6, 7, *range(8, 20), 27, 28, 29]
    assert not run.findings
    assert set(outcomes(out).values()) == {True}
    assert Run(out, log, committed=True).exported["t-0"]["state"] == "unchanged"


def test_a_log_that_is_not_the_same_behind_an_open_transaction(tmp_path: Path, out: Path) -> None:
    log = tmp_path / "t-0"
    write_log(log, 0, batches(0, 10) + transaction(10, None) + batches(12, 20))
    Run(out, log, committed=True)
    write_log(log, 0, batches(0, 10, word="w") + transaction(10, COMMIT) + batches(13, 20, word="w"))
    assert Run(out, log, committed=True).codes == ["export.log-changed"]


# --- what comes after damage ------------------------------------------------------------------------------------------
def test_batches_after_a_damaged_length(tmp_path: Path, out: Path) -> None:
    path = write_log(tmp_path / "t-0", 0, batches(0, 50))
    data = bytearray(path.read_bytes())
    data[len(batches(0, 20)) + 8 : len(batches(0, 20)) + 12] = (1 << 30).to_bytes(4, "big")
    path.write_bytes(data)
    assert Run(out, tmp_path / "t-0").codes == ["log.bad-length"]
    rows = parquet_rows(out)["t", 0]
    assert {int(str(row["offset"])): row["resynced"] for row in rows} == {
        **dict.fromkeys(range(20), False),
        **dict.fromkeys(range(25, 50), True),
    }
    without = Run(tmp_path / "without", tmp_path / "t-0", resync=False)
    assert (offsets_in(tmp_path / "without"), without.codes) == ([*range(20)], ["log.bad-length"])
    write_log(tmp_path / "t-0", 50, batches(50, 60))
    assert not Run(out, tmp_path / "t-0").findings
    assert offsets_in(out) == [*range(20), *range(25, 60)]


# --- tables of earlier builds -----------------------------------------------------------------------------------------
@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with tarfile.open(EARLIER) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "earlier-tables"


def test_an_export_of_an_earlier_build_is_read(earlier: Path, spark: SparkSession) -> None:
    frame = open_export(spark, str(earlier / "export"))
    assert (frame.count(), frame.where("is_committed is null and timestamp is null").count()) == (220, 220)
    assert frame.where("topic = 't'").agg({"offset": "max"}).collect()[0][0] == 119


@pytest.mark.parametrize("reload", [False, True])
def test_an_export_of_an_earlier_build_goes_on(earlier: Path, spark: SparkSession, *, reload: bool) -> None:
    out, disk = earlier / "export", earlier / "disk"
    write_log(disk / "t-0", 120, batches(120, 140))
    write_log(disk / "v-0", 0, batches(0, 10))
    given = {"reload": True, "from_offset": 33} if reload else {}
    run = Run(out, disk, **given)
    assert not run.findings
    rows = table_of(out)
    counts = {name: pc.sum(pc.equal(rows["topic"], name)).as_py() for name in "tuv"}
    assert counts == {"t": 140, "u": 100, "v": 0 if reload else 10}
    assert {name.rpartition("/")[0] for name in names_of(out / "records")} == {
        f"topic={name}/partition=0" for name in "tuv" if counts[name]
    }
    known = rows.filter(pc.is_valid(rows["timestamp"]))
    assert len(known) == (240 if reload else 30), "a file that is written again gets its times"
    assert known["timestamp"].cast(pa.int64()).equals(pc.multiply(known["timestamp_ms"], 1000))
    new = (140 - 33) + (100 - 33) if reload else 30
    assert pc.sum(rows["is_committed"]).as_py() == new
    assert open_export(spark, str(out)).where("is_committed").count() == new
    dataset = DeltaTable(str(out / "records")).to_pyarrow_dataset()
    assert dataset.count_rows(filter=pc.field("is_committed")) == new
    assert {row["state"] for row in Run(out, disk).exported.values()} == {"unchanged"}


def test_a_catalog_of_an_earlier_build(earlier: Path, spark: SparkSession) -> None:
    out = earlier / "catalog"
    before = {name: frame.count() for name, frame in open_catalog(spark, str(out)).items()}
    request = CatalogRequest(targets=tuple(resolve([str(earlier / "disk")])), output=Store.of(str(out)), now_ms=NOW_MS)
    list(catalog(None, request, Report(), run_id="later"))
    frames = open_catalog(spark, str(out))
    assert {name: frame.count() for name, frame in frames.items()}["batches"] == before["batches"] + 0
    assert frames["batches"].where("max_timestamp is null").count() == 0
    assert frames["segments"].where("mtime is null or max_timestamp is null").count() == 0
