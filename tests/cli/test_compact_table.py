"""Forecasts of compaction as people see them: the verdict first, then a row a partition, the figures on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_cli.render.compact_table import share
from kafkalog_cli.render.writers import COMPACTIONS, open_results
from kafkalog_core.findings import found
from kafkalog_core.ops.compact.forecast import HoldingTransaction
from kafkalog_core.structs import replace
from tests.cli import compact_rows as rows
from tests.cli.conftest import summary

if TYPE_CHECKING:
    from kafkalog_core.ops.compact.forecast import CompactForecast


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """What is printed of some forecasts, blanks as one."""

    def show(*forecasts: CompactForecast, columns: int = 120, **options: bool) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        table = open_results(COMPACTIONS, "table", **options)
        for forecast in forecasts:
            table.write(forecast)
        table.finish(summary())
        return capsys.readouterr().out

    return show


def flat(text: str) -> str:
    return " ".join(text.split())


def test_one_that_would_be_cleaned(shown) -> None:
    text = shown(rows.CLEANABLE, has_details=True, explains=True)
    assert text.startswith("WOULD CLEAN customers-0 now, which saves 26.4 KiB of 43.9 KiB (60 %).\n")
    for part in (
        "customers-0 clean saves 26.4 KiB of 43.9 KiB (60 %) now",
        "its dirty ratio of 0.750 is above min.cleanable.dirty.ratio 0.5",
        "held back: the active segment 900 is never cleaned",
        "dirty from 100 (the cleaner's checkpoint), a clean ends before 900",
        "1,000 -> 400 records in the cleaned part, 3 -> 2 segments",
        "300 distinct in the dirty part; 7 of them (2.3 %) have only a tombstone there",
        "a clean may remove the first tombstone or marker from 2023-11-15T22:13:20.000Z on",
        "cleanup.policy=compact (cluster metadata log) delete.retention.ms=86400000 (default of 4.3.1)",
        "removed: superseded by a later record of their key 580 25.4 KiB 58 %",
        "00000000000000000450.log dirty 00000000000000000000",
        "1 customer-7 120 8.8 KiB",
        "2 x'00ff' >= 120 >= 8.8 KiB",
        "by the rules of Kafka 4.3.1: meta.properties is of version 1",
    ):
        assert part in flat(text), part
    assert "ends at" not in text  # one clean needs no table of cleans
    assert text.rstrip().endswith("exit status 0")


def test_the_inside_of_a_partition_is_for_those_who_ask(shown) -> None:
    text = shown(rows.CLEANABLE)
    for part in (
        "held back:",
        "cleanup.policy",
        "customer-7",
        "00000000000000000450.log",
        "meta.properties",
        "clean |",
    ):
        assert part not in text
    assert len(text.splitlines()) < 10


def test_one_that_waits_says_what_it_would_save(shown) -> None:
    text = flat(shown(rows.WAITING, has_details=True))
    assert text.startswith(
        "WOULD CLEAN NOTHING NOW: a clean of customers-1 is not due; it would save 4.9 KiB of 43.9 KiB (11.1 %)."
    )
    assert "its dirty ratio of 0.250 is not above" in text
    assert "(if it were cleaned now)" in text


def test_one_that_is_stuck_says_what_holds_it_back(shown) -> None:
    text = flat(shown(rows.STUCK, has_details=True))
    assert text.startswith("WOULD CLEAN NOTHING NOW: an open transaction holds the cleaner back in customers-2.")
    assert "a transaction of producer 4 is open since offset 101" in text
    assert "high watermark 1000, last stable offset 101" in text
    assert "saves" not in text


@pytest.mark.parametrize(
    ("held_by", "sentence"),
    [
        (
            HoldingTransaction(producer_id=4, producer_epoch=2, first_offset=101),
            "The transaction, producer id 4, epoch 2, is open since offset 101;",
        ),
        (
            HoldingTransaction(
                producer_id=4,
                producer_epoch=None,
                first_offset=101,
                transactional_id="payer",
                start_ms=rows.NOW_MS,
                bytes_after=9_000,
            ),
            (
                "The transaction of transactional id payer, producer id 4, is open since offset 101 "
                "(2023-11-14T22:13:20.000Z); the cleaner waits for its end. "
                "Once it has committed, a clean would save 35.2 KiB of 43.9 KiB (80 %)."
            ),
        ),
        (
            HoldingTransaction(producer_id=4, producer_epoch=2, first_offset=101, bytes_after=45_000),
            "Once it has committed, a clean would save nothing.",
        ),
    ],
)
def test_the_transaction_that_holds_the_cleaner_back(shown, held_by: HoldingTransaction, sentence: str) -> None:
    text = flat(shown(replace(rows.STUCK, held_by=held_by)))
    assert sentence in text
    assert ("Once it has committed" in text) == (held_by.bytes_after is not None)
    assert f"kafkalog transactions {rows.STUCK.partition['path']}" in text


def test_a_transaction_that_holds_back_the_rest_is_named_too(shown) -> None:
    """The part before it would be cleaned now: the answer names what waits, and behind whom."""
    held_by = HoldingTransaction(
        producer_id=4, producer_epoch=2, first_offset=900, transactional_id="payer", bytes_after=9_000
    )
    row = {**rows.CLEANABLE.partition, "held_back_by": "open-transaction"}
    text = flat(shown(replace(rows.CLEANABLE, partition=row, held_by=held_by)))
    assert text.startswith("WOULD CLEAN customers-0 now, which saves 26.4 KiB of 43.9 KiB (60 %)")
    assert "; an open transaction keeps the cleaner from 4.9 KiB more in customers-0." in text
    assert "The transaction of transactional id payer, producer id 4, epoch 2, is open since offset 900" in text
    assert "Once it has committed, a clean would save 35.2 KiB of 43.9 KiB (80 %)." in text
    assert "kafkalog transactions /data/customers-0" in text


def test_without_a_transaction_no_command_names_one(shown) -> None:
    assert "kafkalog transactions" not in shown(rows.STUCK, rows.CLEANABLE)


def test_several_cleans(shown) -> None:
    text = flat(shown(rows.TWO_PASSES, has_details=True))
    assert "cleans: 2, one after the other: the offset map holds 200 keys in 5.3 KiB" in text
    assert "1 100..899 0.750 500 the offset map was full 200" in text
    assert "2 500..899 0.600 900 the bound was reached 110" in text


def test_all_together(shown) -> None:
    text = shown(rows.NOT_COMPACTED, rows.STUCK, rows.WAITING, rows.CLEANABLE, replace(rows.STUCK, partition=IDLE))
    assert flat(text).startswith(
        "WOULD CLEAN customers-0 now, which saves 26.4 KiB of 43.9 KiB (60 %); a clean of customers-1 is not due; it "
        "would save 4.9 KiB of 43.9 KiB (11.1 %); an open transaction holds the cleaner back in customers-2; only the "
        "active segment is dirty in customers-3."
    )
    assert text.index("customers-2  cannot clean") < text.index("customers-0  clean") < text.index("customers-1  clean")
    assert "and 2 other partitions with nothing to clean: not compacted (1); only the active segment is dirty (1)" in (
        flat(text)
    )


IDLE = rows.partition(3, **dict(rows.STUCK.partition) | {"held_back_by": "active-segment", "path": "/data/customers-3"})


def test_each_partition_is_shown_in_full_on_request(shown) -> None:
    many = [replace(rows.CLEANABLE, partition=rows.partition(number)) for number in range(10)]
    assert shown(*many, has_details=True).count("held back:") == 10
    assert "held back:" not in shown(*many)


def test_nothing_is_compacted(shown) -> None:
    text = shown(rows.NOT_COMPACTED, rows.NOT_COMPACTED)
    assert text.startswith("NOT COMPACTED: 2 partitions: cleanup.policy is delete (default of 4.3.1).")


def test_a_clean_that_fails_comes_first(shown) -> None:
    finding = found("file.not-readable", "/data/customers-1/0.log", reason="no permission", problem="no permission")
    failing = replace(
        rows.CLEANABLE,
        partition=rows.partition(1, state="fails", reason="a batch is corrupt", would_run=False, bytes_after=None),
        findings=(finding,),
    )
    text = shown(rows.CLEANABLE, failing)
    assert text.startswith("A CLEAN FAILS in customers-1; would clean customers-0 now")
    assert text.index("customers-1  clean fails") < text.index("customers-0  clean ")
    assert "a batch is corrupt" in text
    assert "file.not-readable" in text


def test_a_log_that_grows(shown) -> None:
    text = flat(shown(replace(rows.CLEANABLE, partition=rows.partition(bytes_after=50_000)), has_details=True))
    assert "customers-0 clean saves nothing now" in text
    assert "43.9 KiB -> 48.8 KiB (it grows)" in text


def test_logs_that_grow_or_stay(shown) -> None:
    growing = replace(rows.CLEANABLE, partition=rows.partition(bytes_after=50_000))
    assert flat(shown(growing, growing)).startswith(
        "WOULD CLEAN 2 of 2 partitions now, which makes them 9.8 KiB larger."
    )
    same = replace(rows.CLEANABLE, partition=rows.partition(bytes_after=45_000))
    assert flat(shown(same, same)).startswith("WOULD CLEAN 2 of 2 partitions now, which saves nothing.")


def test_many_partitions_and_findings_are_cut(shown) -> None:
    finding = found("compaction.clean-fails", "/data/customers-1/0.log", problem="it is too large")
    one = replace(rows.CLEANABLE, findings=(finding,) * 6)
    text = shown(*[one] * 202)
    assert "... and 2 more partitions: --output ndjson has them all" in text
    assert "... and 212 more findings: --output ndjson has them all" in text


def test_tombstones_of_none_and_of_one(shown) -> None:
    one = rows.partition(tombstones_after=1, next_horizon_ms=None, lone_tombstone_keys=0)
    text = flat(shown(replace(rows.CLEANABLE, partition=one), has_details=True, explains=True))
    assert "tombstones: 1 is kept rules:" in text
    assert "keys: 300 distinct in the dirty part tombstones:" in text
    none = rows.partition(tombstones_after=0, next_horizon_ms=None, high_watermark=None)
    text = flat(shown(replace(rows.CLEANABLE, partition=none), has_details=True))
    assert "tombstones:" not in text
    assert "no high watermark on disk: the log end offset is used instead" in text


def test_the_other_half_of_a_policy(shown) -> None:
    settings = {"cleanup.policy": {"value": "compact,delete", "origin": "--set"}}
    both = replace(rows.CLEANABLE, partition=rows.partition(settings=settings))
    assert "retention: cleanup.policy includes delete" in flat(shown(both, has_details=True))
    assert "retention:" not in shown(rows.CLEANABLE, has_details=True)


def test_many_segments_are_cut(shown) -> None:
    many = replace(rows.CLEANABLE, segments=tuple(rows.segment(number) for number in range(50)))
    assert "... and 10 more segments: --output ndjson has them all" in shown(many, has_details=True)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_any_width(shown, columns: int) -> None:
    assert "customers-0" in shown(rows.CLEANABLE, rows.STUCK, columns=columns)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "0 %"),
        (0, 5, "0 %"),
        (5, 5, "100 %"),
        (1, 3, "33.3 %"),
        (1, 10_000, "< 0.1 %"),
        (9_999, 10_000, "> 99.9 %"),
    ],
)
def test_shares(part: int, whole: int, text: str) -> None:
    assert share(part, whole) == text
