"""Who wrote what, when, and where is it damaged: a picture out of a catalog of kafkalog.

    python docs/who_wrote_what.py CATALOGUE TOPIC PICTURE.png

CATALOGUE is what `kafkalog spark catalog` has made; nothing of the disks is read. Needs matplotlib.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import matplotlib as mpl

from kafkalog_core.spark import open_catalog, open_session

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame, Row, SparkSession

BIN_MS: Final = 15 * 60 * 1000
COLOURS: Final = ("#9aa0a6", "#4c78a8", "#54a24b", "#eeb04a", "#b279a2", "#72b7b2", "#9d755d", "#6b6ecf")
WROTE: Final = """
    SELECT partition, producer_id, CAST(floor(max_timestamp_ms / {bin}) * {bin} AS bigint) AS time_ms,
           sum(record_count) AS records
    FROM batches WHERE topic = '{topic}' AND crc_ok GROUP BY ALL ORDER BY partition, time_ms
"""
DAMAGED: Final = """
    SELECT s.partition, s.segment, s.damage_count, max(b.max_timestamp_ms) AS time_ms
    FROM segments s
    JOIN findings f ON f.file = s.path AND f.code = 'batch.crc-mismatch'
    JOIN batches b ON b.path = s.path AND b.last_offset < f.offset
    WHERE s.topic = '{topic}' GROUP BY ALL ORDER BY s.partition, time_ms
"""
"""A damaged batch says nothing of its time that could be trusted: that of the last good one before is taken."""


def main() -> None:
    """Query, and draw."""
    catalog, topic, picture = sys.argv[1:]
    spark = open_session()
    tables = open_catalog(spark, catalog)
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
    wrote = _rows(spark, WROTE.format(bin=BIN_MS, topic=topic))
    damaged = _rows(spark, DAMAGED.format(topic=topic))
    spark.stop()
    draw(wrote, damaged, topic, picture)


def _rows(spark: SparkSession, text: str) -> list[Row]:
    frame: DataFrame = spark.sql(text)
    return frame.collect()


def draw(wrote: list[Row], damaged: list[Row], topic: str, picture: str) -> None:
    """Records of each producer over time, partition by partition, and red lines where something is damaged."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of what it draws with

    partitions = sorted({row["partition"] for row in wrote})
    producers = sorted({row["producer_id"] for row in wrote})
    height = 1.1 + 1.5 * len(partitions)
    figure, places = plt.subplots(len(partitions), 1, sharex=True, sharey=True, squeeze=False, figsize=(9, height))
    for place, partition in zip(places[:, 0], partitions, strict=True):
        _draw_partition(place, [row for row in wrote if row["partition"] == partition], producers)
        places_damaged = [row for row in damaged if row["partition"] == partition]
        for row in places_damaged:
            place.axvline(_moment(row["time_ms"]), color="#d62728", linewidth=1.4)
        count = f", {sum(row['damage_count'] for row in places_damaged)} damaged" if places_damaged else ""
        place.set_ylabel(f"{topic}-{partition}{count}\nrecords in 15 min", fontsize=8)
    places[0, 0].legend(loc="upper left", fontsize=7, ncols=len(producers), frameon=False)
    places[-1, 0].xaxis.set_major_formatter(mpl.dates.DateFormatter("%H:%M", tz=UTC))
    figure.suptitle(f"{topic}: records by producer id; red: damaged batches", fontsize=10)
    figure.tight_layout()
    figure.savefig(picture, dpi=110, metadata={"Software": ""})


def _draw_partition(place: Axes, rows: list[Row], producers: list[int]) -> None:
    """Bars, one producer's on top of another's."""
    bottoms: dict[int, int] = {}
    for number, producer in enumerate(producers):
        mine = [row for row in rows if row["producer_id"] == producer]
        times = [row["time_ms"] for row in mine]
        place.bar(
            [_moment(time_ms) for time_ms in times],
            [row["records"] for row in mine],
            width=BIN_MS / 86_400_000,
            bottom=[bottoms.get(time_ms, 0) for time_ms in times],
            align="edge",
            color=COLOURS[number % len(COLOURS)],
            label="no id" if producer < 0 else str(producer),
        )
        for row in mine:
            bottoms[row["time_ms"]] = bottoms.get(row["time_ms"], 0) + row["records"]


def _moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


if __name__ == "__main__":
    main()
