"""The stream: limits, a log that grows and rolls, a restart from the checkpoint, and what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import SelectionError, SettingError, StorageError
from tests.support.build import batch_v2, message_v07
from tests.support.logs import records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def run(spark: SparkSession, log: Path, out: Path, **options: Any) -> list[tuple[str, int, int]]:
    """Everything there is now, by one query that ends; all that was written so far."""
    stream = spark.readStream.format("kafkalog").options(**options).schema("topic string, partition int, offset bigint")
    writer = stream.load(str(log)).writeStream.format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(out / "checkpoint")).start(str(out / "rows"))
    query.awaitTermination()
    rows = spark.read.schema("topic string, partition int, offset bigint").parquet(str(out / "rows"))
    return sorted(tuple(row) for row in rows.collect())


def batches(first: int, count: int) -> bytes:
    return b"".join(batch_v2(records(offset, 1, size=200)) for offset in range(first, first + count))


def test_a_log_that_grows_and_rolls_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "kafka"
    write_segments(log / "orders-0", {0: batches(0, 50), 50: batches(50, 7)})
    write_segments(log / "orders-1", {0: batches(0, 5)})
    whole = [("orders", 0, n) for n in range(57)] + [("orders", 1, n) for n in range(5)]
    assert run(spark, log, tmp_path, maxBytesPerTrigger="6k", splitBytes=2000) == whole
    commits = len([*(tmp_path / "checkpoint" / "commits").glob("[0-9]*")])
    assert commits > 2  # the limit made several batches of it
    active = log / "orders-0" / f"{50:020d}.log"
    with active.open("ab") as file:
        file.write(batches(57, 3) + batches(60, 1)[:-9])  # the last one is on its way
    write_segments(log / "later-0", {0: batches(0, 2)})
    added = [("orders", 0, n) for n in range(57, 60)] + [("later", 0, 0), ("later", 0, 1)]
    assert run(spark, log, tmp_path) == sorted(whole + added)
    with active.open("ab") as file:
        file.write(batches(60, 1)[-9:])
    (log / "orders-0" / f"{0:020d}.log").unlink()  # retention, behind what was read
    write_segments(log / "orders-0", {61: batches(61, 4)})
    added += [("orders", 0, n) for n in range(60, 65)]
    assert run(spark, log, tmp_path) == sorted(whole + added)
    assert run(spark, log, tmp_path) == sorted(whole + added)


def test_losses_end_the_query_with_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - the extra may be missing at collection

    log = write_segments(tmp_path / "orders-0", {0: batches(0, 3), 3: batches(3, 3), 6: batches(6, 3)})
    bad = bytearray(batches(3, 3))
    bad[-1] ^= 1
    (log / f"{3:020d}.log").write_bytes(bad)
    with pytest.raises(StreamingQueryException, match=r"crc-mismatch at byte \d+.*failOnDataLoss=false to skip it"):
        run(spark, log, tmp_path / "strict")
    kept = [("orders", 0, n) for n in (0, 1, 2, 3, 4, 6, 7, 8)]
    assert run(spark, log, tmp_path / "lax", failOnDataLoss="false") == kept


# --- without a session ------------------------------------------------------------------------------------------------
def stream_of(log: Path, **options: str) -> Any:
    from kafkalog_core.spark.session.schema import RECORDS, struct_type  # noqa: PLC0415 - the extra may be missing
    from kafkalog_core.spark.source.reader import KafkaLogStream  # noqa: PLC0415 - as above

    return KafkaLogStream({"path": str(log), **options}, struct_type(RECORDS, ("topic", "partition", "offset")))


def offsets_between(stream: Any, start: Any, end: Any) -> list[int]:
    pieces = stream.partitions(start, end)
    return [offset for piece in pieces for batch in stream.read(piece) for offset in batch["offset"].to_pylist()]


def test_limits_are_shared_and_every_batch_of_the_stream_moves_on(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes  # noqa: PLC0415 - as above

    log = tmp_path / "kafka"
    for number in range(3):
        write_segments(log / f"orders-{number}", {0: batches(0, 20), 20: batches(20, 20)})
    stream = stream_of(log, maxBytesPerTrigger="3000")
    assert stream.getDefaultReadLimit() == ReadMaxBytes(3000)
    assert stream_of(log).getDefaultReadLimit() == ReadAllAvailable()
    start, found, steps = stream.initialOffset(), [], 0
    assert start == {}
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        found += offsets_between(stream, start, end)
        start, steps = end, steps + 1
    assert sorted(found) == sorted([*range(40)] * 3)
    assert steps > 5
    assert end == stream.latestOffset({}, ReadAllAvailable())
    latest = stream_of(log, startingOffsets="latest")
    assert latest.initialOffset() == end
    assert offsets_between(latest, end, end) == []


def test_losses_on_the_driver(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: PLC0415 - as above

    log = tmp_path / "kafka"
    write_segments(log / "orders-0", {0: batches(0, 5), 5: batches(5, 5)})
    write_segments(log / "orders-1", {0: batches(0, 5)})
    stream, lax = stream_of(log), stream_of(log, failOnDataLoss="false")
    start = {"orders-0": {"segment": 0, "byte": 0, "offset": 0, "mark_byte": -1, "mark": 0}}
    end = stream.latestOffset(start, ReadAllAvailable())
    (log / "orders-0" / f"{0:020d}.log").unlink()
    with pytest.raises(StorageError, match=r"offsets 0 to 4 were deleted .*failOnDataLoss=false"):
        stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(StorageError, match="offsets 0 to 4"):
        stream.partitions(start, end)
    assert sorted(offsets_between(lax, start, end)) == sorted([*range(5, 10), *range(5)])
    for path in (log / "orders-1").iterdir():
        path.unlink()
    (log / "orders-1").rmdir()
    with pytest.raises(StorageError, match="the partition was deleted"):
        stream.latestOffset(end, ReadAllAvailable())
    assert set(lax.latestOffset(end, ReadAllAvailable())) == {"orders-0"}
    assert offsets_between(lax, start, end) == [*range(5, 10)]


def test_what_a_stream_refuses(tmp_path: Path) -> None:
    log = write_segments(tmp_path / "orders-0", {0: batches(0, 5)})
    write_segments(tmp_path / "other" / "orders-0", {0: batches(0, 5)})
    old = write_segments(tmp_path / "old-0", {0: message_v07(b"v")}, suffix="kafka")
    for path, options, sentence in (
        (log / f"{0:020d}.log", {}, "not files"),
        (old, {}, "does not follow logs of Kafka 0.7"),
        (log, {"paths": f'["{tmp_path}/other/orders-0"]'}, "several directories hold orders-0"),
        (log, {"table": "batches"}, "a stream reads only records"),
        (log, {"maxOffset": "3"}, "option maxOffset .* does not apply to a stream"),
        (log, {"failOnDataLoss": "yes"}, "option failOnDataLoss must be true or false, not 'yes'"),
        (log, {"startingOffsets": "now"}, "option startingOffsets must be earliest or latest"),
        (log, {"maxBytesPerTrigger": "much"}, "option maxBytesPerTrigger: 'much' is not a size"),
    ):
        with pytest.raises((SelectionError, SettingError), match=sentence):
            stream_of(path, **options).prepareForTriggerAvailableNow()
