"""Forecasts of compaction as people see them: the answer first, then why, then the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_cli.render.compact_table import share
from kafkalog_cli.render.writers import COMPACTIONS, open_results
from kafkalog_core.findings import found
from kafkalog_core.structs import replace
from tests.cli import compact_rows as rows
from tests.cli.conftest import summary

if TYPE_CHECKING:
    from kafkalog_core.ops.compact.forecast import CompactForecast


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """What is printed of some forecasts, blanks as one."""

    def show(*forecasts: CompactForecast, columns: int = 120) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        table = open_results(COMPACTIONS, "table")
        for forecast in forecasts:
            table.write(forecast)
        table.finish(summary())
        return capsys.readouterr().out

    return show


def flat(text: str) -> str:
    return " ".join(text.split())


def test_one_that_would_be_cleaned(shown) -> None:
    text = shown(rows.CLEANABLE)
    assert text.startswith("WOULD BE CLEANED NOW: customers-0: its dirty ratio of 0.750 is above")
    for part in (
        "saves 26.4 KiB of 43.9 KiB (60 %)",
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
    ):
        assert part in flat(text), part
    assert "ends at" not in text  # one clean needs no table of cleans
    assert text.rstrip().endswith("exit status 0")


def test_one_that_waits_says_what_it_would_save(shown) -> None:
    text = flat(shown(rows.WAITING))
    assert text.startswith("NOT NOW: customers-1: its dirty ratio of 0.250 is not above")
    assert "a clean would save 4.9 KiB of 43.9 KiB (11.1 %)" in text
    assert "(if it were cleaned now)" in text


def test_one_that_is_stuck_says_what_holds_it_back(shown) -> None:
    text = flat(shown(rows.STUCK))
    assert text.startswith("NOTHING TO CLEAN: customers-2: no segment behind")
    assert "held back: a transaction of producer 4 is open since offset 101" in text
    assert "high watermark 1000, last stable offset 101" in text
    assert "saves" not in text


def test_several_cleans(shown) -> None:
    text = flat(shown(rows.TWO_PASSES))
    assert "cleans: 2, one after the other: the offset map holds 200 keys in 5.3 KiB" in text
    assert "1 100..899 0.750 500 the offset map was full 200" in text
    assert "2 500..899 0.600 900 the bound was reached 110" in text


def test_all_together(shown) -> None:
    text = shown(rows.NOT_COMPACTED, rows.STUCK, rows.WAITING, rows.CLEANABLE)
    assert flat(text).startswith(
        "1 of 3 compacted partitions would be cleaned now, which saves 26.4 KiB of 43.9 KiB (60 %); 1 would not be "
        "cleaned yet; a clean saves 4.9 KiB of 43.9 KiB (11.1 %); 1 with nothing to clean (held back by "
        "open-transaction 1); 1 partition not compacted"
    )
    assert text.index("WOULD BE CLEANED NOW") < text.index("NOT NOW") < text.index("NOTHING TO CLEAN")


def test_of_many_only_the_first_are_told_in_full(shown) -> None:
    text = shown(*(replace(rows.CLEANABLE, partition=rows.partition(number)) for number in range(10)))
    assert text.count("WOULD BE CLEANED NOW") == 3
    assert "to see one of the others in full, run kafkalog compact on it alone" in text
    text = shown(*(replace(rows.CLEANABLE, partition=rows.partition(number)) for number in range(3)))
    assert text.count("WOULD BE CLEANED NOW") == 3
    assert "of the others" not in text


def test_nothing_is_compacted(shown) -> None:
    text = shown(rows.NOT_COMPACTED, rows.NOT_COMPACTED)
    assert text.startswith("NOT COMPACTED: 2 partitions: cleanup.policy is delete (default of 4.3.1)")


def test_a_clean_that_fails_comes_first(shown) -> None:
    finding = found("file.not-readable", "/data/customers-1/0.log", reason="no permission", problem="no permission")
    failing = replace(
        rows.CLEANABLE,
        partition=rows.partition(1, state="fails", reason="a batch is corrupt", would_run=False, bytes_after=None),
        findings=(finding,),
    )
    text = shown(rows.CLEANABLE, failing)
    assert text.startswith("a clean fails in 1 partition; 1 of 2 compacted partitions would be cleaned now")
    assert text.index("CLEAN FAILS: customers-1: a batch is corrupt") < text.index("WOULD BE CLEANED NOW: customers-0")
    assert "file.not-readable" in text


def test_a_log_that_grows(shown) -> None:
    text = flat(shown(replace(rows.CLEANABLE, partition=rows.partition(bytes_after=50_000))))
    assert "; it would save nothing" in text
    assert "43.9 KiB -> 48.8 KiB (it grows)" in text


def test_logs_that_grow_or_stay(shown) -> None:
    growing = replace(rows.CLEANABLE, partition=rows.partition(bytes_after=50_000))
    assert flat(shown(growing, growing)).startswith(
        "2 of 2 compacted partitions would be cleaned now, which makes them 9.8 KiB larger"
    )
    same = replace(rows.CLEANABLE, partition=rows.partition(bytes_after=45_000))
    assert flat(shown(same, same)).startswith("2 of 2 compacted partitions would be cleaned now, which saves nothing")


def test_many_partitions_and_findings_are_cut(shown) -> None:
    finding = found("compaction.clean-fails", "/data/customers-1/0.log", problem="it is too large")
    one = replace(rows.CLEANABLE, findings=(finding,) * 6)
    text = shown(*[one] * 202)
    assert "... and 2 more partitions: --output ndjson has them all" in text
    assert "... and 212 more findings: --output ndjson has them all" in text


def test_tombstones_of_none_and_of_one(shown) -> None:
    one = rows.partition(tombstones_after=1, next_horizon_ms=None, lone_tombstone_keys=0)
    text = flat(shown(replace(rows.CLEANABLE, partition=one)))
    assert "tombstones: 1 is kept rules:" in text
    assert "keys: 300 distinct in the dirty part tombstones:" in text
    none = rows.partition(tombstones_after=0, next_horizon_ms=None, high_watermark=None)
    text = flat(shown(replace(rows.CLEANABLE, partition=none)))
    assert "tombstones:" not in text
    assert "no high watermark on disk: the log end offset is used instead" in text


def test_the_other_half_of_a_policy(shown) -> None:
    settings = {"cleanup.policy": {"value": "compact,delete", "origin": "--set"}}
    both = replace(rows.CLEANABLE, partition=rows.partition(settings=settings))
    assert "retention: cleanup.policy includes delete" in flat(shown(both))
    assert "retention:" not in shown(rows.CLEANABLE)


def test_many_segments_are_cut(shown) -> None:
    many = replace(rows.CLEANABLE, segments=tuple(rows.segment(number) for number in range(50)))
    assert "... and 10 more segments: --output ndjson has them all" in shown(many)


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
