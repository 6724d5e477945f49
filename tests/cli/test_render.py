"""Cells, widths, the summary sentence and the progress bar, each by itself."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kafkalog_cli.render import cells, progress
from kafkalog_cli.render.columns import SHOWN
from kafkalog_cli.render.grid import TableColumn, choose_layout
from kafkalog_cli.render.summary_line import summary_sentence
from kafkalog_core.output.tables import TABLES
from tests.cli.conftest import summary


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20, "1.0 MiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**63 - 1, "8.0 EiB"),
    ],
)
def test_sizes(size_bytes, text):
    assert cells.human_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (None, "-"),
        (-1, "-1"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_001, "2023-11-14T22:13:20.001Z"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
        (-(2**63), "-9223372036854775808 ms"),
    ],
)
def test_times(time_ms, text):
    assert cells.time_cell(time_ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (b"null", '"null"'),
        (b"", '""'),
        (b" a", '" a"'),
        (b"x'00'", "\"x'00'\""),
        (b"\xff\x00", "x'ff00'"),
        ("é 東".encode(), "é 東"),
        (b"a\nb\\", "a\\nb\\\\"),
        (b"a" * 3000, "a" * 2048 + "…"),
        (b"a" * 2047 + "é".encode() + b"b", "a" * 2047 + "…"),
        (b"\xff" * 3000, "x'" + "ff" * 2048 + "…"),
    ],
)
def test_bytes(value, text):
    assert cells.bytes_cell(value) == text


@given(st.binary(max_size=200))
def test_a_cell_always_prints(value):
    assert cells.bytes_cell(value).isprintable()


def test_many_headers_are_cut():
    assert cells.headers_cell([(b"k", b"v")] * 25) == ", ".join(["k=v"] * 20 + ["…"])


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"topic": "a-b", "partition": 3, "segment": "0.log"}, "a-b-3/0.log"),
        ({"segment": "0.log"}, "0.log"),
        ({"topic": "a"}, "a"),
        ({}, ""),
    ],
)
def test_places(row, text):
    assert cells.place_of(row) == text


def test_every_row_type_is_shown_somehow():
    in_lines = {"damage", "finding", "stats", "partition", "explanation", "broker_message", "summary"}
    in_lines |= {"plan", "change", "loss", "setting", "journal", "text_file", "text_line"}
    in_lines |= {"compaction", "cleaning_pass", "cleaned_segment", "big_key"}
    in_lines |= {"retention", "retained_segment", "retention_event", "retention_what_if", "rolling", "rolled_segment"}
    in_lines |= {"export", "replica", "replica_copy", "replica_range", "event"}
    in_lines |= {"transaction", "transaction_part", "stable_offset", "which_partition", "impact"}
    in_lines |= {
        "difference",
        "frozen",
        "usage",
        "usage_directory",
        "preflight",
        "start_event",
        "partition_start",
        "start_step",
        "release_start",
    }
    in_lines |= {"group", "group_member", "group_offset"}
    in_lines |= {name for name in TABLES if name.startswith(("cluster", "quorum", "znode", "zookeeper"))}
    in_lines -= {"cluster_difference", "cluster_event"}
    assert {name.partition(" ")[0] for name in SHOWN} == TABLES.keys() - in_lines


@given(
    st.lists(st.tuples(st.text(max_size=30), st.text(max_size=80), st.text(max_size=80)), min_size=1, max_size=5),
    st.integers(min_value=40, max_value=200),
)
def test_lines_keep_to_the_terminal(rows, width):
    shown = [
        TableColumn("a", str),
        TableColumn("b", str, flexible=True),
        TableColumn("c", str, flexible=True),
    ]
    sample = [[cells.safe_text(text) for text in row] for row in rows]
    layout = choose_layout(shown, sample, width)
    fixed = max(cell_len(row[0]) for row in sample)
    for row in sample:
        assert cell_len(layout.line(row)) <= max(width, fixed + 2 * (2 + 12))


def test_columns_are_left_out_by_rank_and_never_those_of_rank_0():
    shown = [TableColumn("aaaaaaaa", str, rank=1), TableColumn("bbbbbbbb", str), TableColumn("cccccccc", str, rank=2)]
    sample = [["1", "2", "3"]]
    assert choose_layout(shown, sample, 28).titles == ["aaaaaaaa", "bbbbbbbb", "cccccccc"]
    assert choose_layout(shown, sample, 28).narrow == ()
    assert choose_layout(shown, sample, 27).narrow == (2,)
    assert choose_layout(shown, sample, 1).narrow == (0, 2)


@pytest.mark.parametrize(
    ("columns", "start"),
    [
        ({}, "1 batch, 3 records; 140 B of log read from 1 file in 1 partition; 2 rows shown"),
        (
            {"partitions": 0, "partitions_total": 0, "batches": 2},
            "2 batches, 3 records; 140 B of log read from 1 file; 2 rows",
        ),
        ({"severities": {"warning": 1, "info": 2}, "codes": {"a.b": 3}}, "warnings | a.b 3 | "),
        ({"severities": {"info": 2}, "codes": {"a.b": 2}}, "a.b 2 | "),
        ({"severities": {"error": 1}, "codes": {"a.b": 1}}, "ERRORS | a.b 1 | "),
        (
            {"damage_count": 2, "damage_bytes": 5000, "severities": {"error": 2}, "codes": {"torn-tail": 2}},
            "DAMAGE in 2 places, 4.9 KiB | torn-tail 2 | ",
        ),
        (
            {"damage_count": 1, "damage_bytes": 4096, "severities": {"info": 1}, "codes": {"zero-tail": 1}},
            "bytes without a batch in 1 place, 4.0 KiB | zero-tail 1 | ",
        ),
        (
            {"damage_count": 1, "damage_bytes": 0, "severities": {"error": 1}, "codes": {"payload": 1}},
            "DAMAGE in 1 place, inside whole batches | payload 1 | ",
        ),
        (
            {"files": 3, "files_total": 10, "bytes": 12 << 20, "bytes_total": 400 << 20},
            "1 batch, 3 records; 12.0 MiB of 400.0 MiB of log read from 3 of 10 files in ",
        ),
        (
            {"partitions_total": 40, "severities": {"error": 1}, "codes": {"a.b": 1}},
            "ERRORS in what was read | a.b 1 | 1 batch, 3 records; 140 B of log read from 1 file in 1 of 40 partitions",
        ),
        ({"bytes": 150}, "1 batch, "),  # it grew
        (
            {"interrupted": True, "exit_status": 1, "files_total": 2},
            "interrupted | 1 batch, ",
        ),
        (
            {"batches": 3, "unopened_batches": 3, "records": 7, "uncounted_batches": 2},
            "3 batches (not opened: damage inside them is not detected), 7 records and those in 2 ",
        ),
        (
            {"batches": 3, "unopened_batches": 2},
            "3 batches (2 not opened: damage inside them is not detected), 3 records; 140 B",
        ),
    ],
)
def test_the_summary_says_first_whether_anything_is_wrong(columns, start):
    assert summary_sentence(summary(**columns)).startswith(start)


def test_the_summary_says_what_was_not_read_again() -> None:
    sentence = summary_sentence(summary(bytes=3000, bytes_total=3000, files=2, files_total=2, unchanged_bytes=2000))
    assert " of log in 2 files" in sentence
    assert " of it unchanged and not read again | " in sentence
    assert "read from" not in sentence
    assert "read from 2 files" in summary_sentence(summary(bytes=3000, bytes_total=3000, files=2, files_total=2))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "shares_terminal", "seconds", "shown"),
    [
        (Terminal, False, 2.0, True),
        (Terminal, False, 0.5, False),
        (Terminal, True, 2.0, False),
        (io.StringIO, False, 2.0, False),
    ],
    ids=["slow", "quick", "rows on the terminal", "no terminal"],
)
def test_the_bar_appears_only_where_it_helps(monkeypatch, stream, shares_terminal, seconds, shown):
    stderr = stream()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    now = iter([0.0, seconds, seconds])
    monkeypatch.setattr(progress, "time", type("Clock", (), {"monotonic": staticmethod(lambda: next(now))}))
    with progress.ProgressBar(shares_terminal=shares_terminal) as bar:
        bar.expect(100)
        bar.advance(50)
        if shown:
            bar.advance(50)
    assert bool(stderr.getvalue()) is shown
