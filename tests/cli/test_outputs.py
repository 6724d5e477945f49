"""Exact output of every form, on chunks made by hand."""

from __future__ import annotations

import csv
import io
import json

import pytest

from kafkalog_cli.render.columns import SHOWN
from kafkalog_core.output import tables
from tests.cli.conftest import batch, damage, finding, record, summary

READ = "1 batch, 3 records; 140 B of log read from 1 file in 1 partition; 2 rows shown"


def test_ndjson(dumping):
    result = dumping.records(record(key=b"\xff", value=None)).damaged(damage()).run("--records")
    assert result.exit_code == 4
    assert result.stdout == (
        '{"type":"record","topic":"orders","partition":0,"segment":"00000000000000000000.log","position":0,"offset":0,'
        '"timestamp_ms":1700000000000,"timestamp_type":"create","key_b64":"/w==","value":null,"headers":[],'
        '"format":"v2","codec":"none","leader_epoch":4,"producer_id":-1,"producer_epoch":-1,"sequence":-1,'
        '"is_transactional":false,"control_type":null,"resynced":false}\n'
        '{"type":"damage","topic":"orders","partition":0,"segment":"00000000000000000000.log","position":100,'
        '"size_bytes":40,"reason":"crc-mismatch","detail":"The checksum differs.","next_offset":3,"severity":null}\n'
        '{"type":"summary","files":1,"files_total":1,"partitions":1,"partitions_total":1,"bytes":140,"bytes_total":140,'
        '"unchanged_bytes":0,"batches":1,"unopened_batches":0,"records":3,"uncounted_batches":0,"rows":2,"damage_count":1,'
        '"damage_bytes":40,"severities":{"error":1},"codes":{"crc-mismatch":1},"interrupted":false,"exit_status":4}\n'
    )
    assert result.stderr == ""


def test_ndjson_writes_the_chunk_as_it_is(dumping):
    class Lines:
        table = tables.BATCH
        count = 2

        def parts(self, bytes_mode):
            yield memoryview(f'{{"mode":"{bytes_mode}"}}\n'.encode())
            yield f'{{"mode":"{bytes_mode}"}}\n'.encode()

    dumping.chunks.append(Lines())
    assert dumping.run("--bytes", "hex").stdout.startswith('{"mode":"hex"}\n{"mode":"hex"}\n{"type":"summary"')


def test_json_is_one_array(dumping):
    result = dumping.batches(batch(), batch(position=100)).damaged(damage()).run("--output", "json")
    assert [row["type"] for row in json.loads(result.stdout)] == ["batch", "batch", "damage", "summary"]
    assert result.stdout.startswith('[\n{"type":"batch",')
    assert result.stdout.endswith(',"exit_status":4}\n]\n')


def test_json_of_nothing_is_an_array_too(dumping):
    assert [row["type"] for row in json.loads(dumping.run("--output", "json").stdout)] == ["summary"]


def test_csv(dumping):
    values = record(key=b'say "hi", you', value=b"", headers=[(b"h", b"\xff")]), record(key=b"\xff", value=None)
    result = dumping.records(*values).damaged(damage()).run("--records", "--output", "csv")
    header, first, second, third = result.stdout_bytes.decode().split("\r\n")[:4]
    assert header == (
        "type,topic,partition,segment,position,offset,timestamp_ms,timestamp_type,key,key_b64,value,value_b64,headers,"
        "format,codec,leader_epoch,producer_id,producer_epoch,sequence,is_transactional,control_type,resynced,"
        "next_offset,magic,attributes,crc_stored,crc_ok,size_bytes,reason,detail,"
        "severity,code,file,message,broker_action,cure,next_command"
    )
    assert first == (
        'record,orders,0,00000000000000000000.log,0,0,1700000000000,create,"say ""hi"", you",,"",,'
        '"[{""key"":""h"",""value_b64"":""/w==""}]",v2,none,4,-1,-1,-1,false,,false,,,,,,,,,,,,,,,'
    )
    assert second.startswith("record,orders,0,00000000000000000000.log,0,0,1700000000000,create,,/w==,,,[],v2,")
    assert third == (
        f"damage,orders,0,00000000000000000000.log,100{',' * 18}3{',' * 5}40,crc-mismatch,The checksum differs.,,,,,,,"
    )
    assert result.stdout_bytes.endswith(b"\r\n")
    assert result.stderr.startswith("kafkalog: DAMAGE in 1 place, 40 B | crc-mismatch 1 | ")


def test_csv_sends_no_control_characters(dumping):
    values = (
        record(key=b"a\tb\r\n", value=b"\x1b[2J", headers=[(b"\x1b", "\x9b1m".encode())]),
        record(key="\x9b1m".encode(), value=b"\x7f"),
    )
    broken = damage(segment="\x1b[2J.log", detail="it is \x9b\x00")
    result = dumping.records(*values).damaged(broken).run("--records", "--output", "csv")
    first, second, third = csv.DictReader(io.StringIO(result.stdout_bytes.decode(), newline=""))
    assert (first["key"], first["key_b64"], first["value"], first["value_b64"]) == ("a\tb\r\n", "", "", "G1sySg==")
    assert first["headers"] == r'[{"key":"\u001b","value":"\u009b1m"}]'
    assert (second["key"], second["key_b64"], second["value_b64"]) == ("", "wpsxbQ==", "fw==")
    assert (third["segment"], third["detail"]) == (r"\u001b[2J.log", r"it is \u009b\u0000")


def test_json_sends_no_control_characters(dumping):
    result = dumping.records(record(key="\x7f\x9b1m".encode())).run("--records", "--output", "ndjson")
    assert rb'"key":"\u007f\u009b1m"' in result.stdout_bytes


@pytest.mark.parametrize(("mode", "names"), [("base64", ["key_b64", "value_b64"]), ("hex", ["key_hex", "value_hex"])])
def test_csv_has_one_column_for_bytes_of_one_form(dumping, mode, names):
    result = dumping.records(record()).run("--records", "--output", "csv", "--bytes", mode)
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [name for name in rows[0] if name.startswith(("key", "value"))] == names


def test_csv_refuses_a_row_that_its_header_does_not_know(dumping):
    result = dumping.rows(tables.PRODUCER, {"producer_id": 1}).run("--output", "csv")
    assert result.exit_code == 1
    assert "producer row with columns that the CSV header lacks" in result.stderr


def test_csv_of_files_knows_their_rows(dumping):
    result = dumping.rows(tables.PRODUCER, {"producer_id": 1}).run("--output", "csv", "--files")
    assert result.exit_code == 0


def test_table_of_batches(dumping):
    dumping.batches(
        batch(),
        batch(position=100, base_offset=3, last_offset=3, is_transactional=True, producer_id=7, producer_epoch=0),
    )
    dumping.damaged(damage(position=200, next_offset=4)).batches(batch(position=240, crc_ok=False))
    result = dumping.run("--output", "table", columns=140)
    assert result.stdout.splitlines() == [
        "",
        "orders-0/00000000000000000000.log",
        "position   size  offsets  records  format  codec  max time (UTC)            epoch  producer  crc  notes",
        "       0  100 B     0..2        3  v2      none   2023-11-14T22:13:20.123Z      4  -         ok   -",
        "     100  100 B     3..3        3  v2      none   2023-11-14T22:13:20.123Z      4  7/0       ok   txn",
        "!! DAMAGE crc-mismatch at byte 200, 40 B: The checksum differs. (next offset expected: 4)",
        "     240  100 B     0..2        3  v2      none   2023-11-14T22:13:20.123Z      4  -         BAD  -",
        "",
        f"DAMAGE in 1 place, 40 B | crc-mismatch 1 | {READ} | exit status 4",
    ]


def test_table_of_records_on_a_narrow_terminal(dumping):
    dumping.records(
        record(),
        record(offset=1, key=None, value=b"x" * 200, headers=[(b"trace", b"1")]),
        record(offset=2, key=b"", value=b"null"),
        record(offset=3, key=b"\x00\xff", value=None),
    )
    result = dumping.run("--records", "--output", "table", columns=60)
    assert result.stdout.splitlines()[:-1] == [
        "",
        "orders-0/00000000000000000000.log",
        "offset  time (UTC)                key      value",
        "     0  2023-11-14T22:13:20.000Z  k        v",
        "     1  2023-11-14T22:13:20.000Z  null     xxxxxxxxxxxxxxxx…",
        '     2  2023-11-14T22:13:20.000Z  ""       "null"',
        "     3  2023-11-14T22:13:20.000Z  x'00ff'  null",
        "(no room for: batch at, epoch, headers; a wider terminal or",
        "--output ndjson has them)",
        "",
    ]


def test_a_record_can_neither_steer_the_terminal_nor_forge_a_line(dumping):
    evil = "\x1b[2J\n!! DAMAGE \u202ecrc\r\x07\\n".encode()
    dumping.records(record(value=evil, key=evil, headers=[(evil, evil)]))
    dumping.rows(tables.FINDING, finding(file="a\x1b[0m\nb", message="x\ny"))
    dumping.rows(tables.DAMAGE, damage(detail="a\x1b\nb", segment="\x1b.log"))
    result = dumping.run("--records", "--output", "table", columns=400)
    assert all(char.isprintable() or char == "\n" for char in result.stdout)
    assert not any(line.startswith("!! DAMAGE \u202e") for line in result.stdout.splitlines())
    assert r"\x1b[2J\n!! DAMAGE \u202ecrc\r\x07\\n" in result.stdout


def test_a_terminal_that_says_it_has_no_columns(dumping):
    assert "codec" in dumping.batches(batch()).run("--output", "table", columns=0).stdout


def test_widths_stay_as_the_first_rows_set_them(dumping):
    dumping.batches(*(batch(position=number) for number in range(200)))
    dumping.batches(batch(position=10**12), batch(position=5))
    lines = dumping.run("--output", "table").stdout.splitlines()
    titles = next(line for line in lines if line.startswith("position"))
    wide, after = lines[-4], lines[-3]
    assert wide.startswith("1000000000000  100 B")
    assert after.startswith("       5  100 B")
    assert after.index("100 B") == titles.index(" size")


def test_a_column_that_was_empty_comes_back_when_a_row_needs_it(dumping):
    dumping.records(*(record(offset=number) for number in range(200)))
    dumping.records(record(offset=200, headers=[(b"a", b"b")]))
    lines = dumping.run("--records", "--output", "table").stdout.splitlines()
    assert [line.split() for line in lines if line.startswith("offset")] == [
        ["offset", "batch", "at", "time", "(UTC)", "epoch", "key", "value"],
        ["offset", "batch", "at", "time", "(UTC)", "epoch", "key", "headers", "value"],
    ]
    assert any(line.split()[-2:] == ["a=b", "v"] for line in lines)


def test_findings_stand_below_the_rows(dumping):
    dumping.rows(tables.FINDING, finding()).batches(batch())
    dumping.summary = summary(severities={"warning": 1}, codes={"file.unknown": 1})
    assert dumping.run("--output", "table").stdout.splitlines()[-6:] == [
        "Findings",
        "WARNING file.unknown: No broker creates a file with this name here.",
        "        a broker: Ignores it.",
        "        orders-0/notes.txt",
        "",
        f"warnings | file.unknown 1 | {READ} | exit status 0",
    ]


def test_findings_that_differ_in_the_file_are_together_and_errors_are_first(dumping):
    bad = {"severity": "error", "code": "meta.missing-key", "message": "Refused.", "broker_action": None}
    dumping.rows(tables.FINDING, *(finding(file=f"f{n}") for n in range(12)), finding(**bad, file="a", position=7))
    lines = dumping.run("--output", "table").stdout.splitlines()[:-2]
    assert lines[2:7] == [
        "ERROR   meta.missing-key: Refused.",
        "        a at byte 7",
        "WARNING file.unknown: No broker creates a file with this name here.",
        "        a broker: Ignores it.",
        "        f0",
    ]
    assert lines[-1] == "        and 2 more files: --output ndjson has them all"


def test_damage_among_segments_stands_in_its_partition(dumping):
    segment = {"topic": "orders", "partition": 0, "size_bytes": 140}
    dumping.rows(tables.SEGMENT, segment | {"segment": "0.log"}).damaged(damage(segment="1.log"))
    dumping.rows(tables.SEGMENT, segment | {"segment": "1.log", "damage_count": 1, "damage_bytes": 40})
    assert dumping.run("--segments", "--output", "table").stdout.splitlines()[1:-2] == [
        "orders-0",
        "segment   size  damage",
        "0.log    140 B  -",
        "!! DAMAGE crc-mismatch at byte 100 of 1.log, 40 B: The checksum differs. (next offset expected: 3)",
        "1.log    140 B  1 (40 B)",
    ]


def test_more_findings_than_fit_are_said(dumping):
    dumping.rows(tables.FINDING, *(finding() for _ in range(1003)))
    assert "... and 3 more findings: --output ndjson has them all" in dumping.run("--output", "table").stdout


def test_every_kind_of_row_has_a_table(dumping):
    entry = {"topic": "t", "partition": 0, "segment": "0.index", "slot": 0, "position": 0}
    dumping.rows(tables.SEGMENT, {"topic": "t", "partition": 0, "segment": "0.log", "damage_count": 1})
    dumping.rows(tables.INDEX_ENTRY, entry | {"kind": "offset", "offset": 5, "log_position": 70})
    dumping.rows(tables.INDEX_ENTRY, entry | {"kind": "time", "offset": 5, "timestamp_ms": 1})
    dumping.rows(tables.INDEX_ENTRY, entry | {"kind": "txn", "first_offset": 1, "last_offset": 2})
    dumping.rows(tables.PRODUCER, {"segment": "1.snapshot", "producer_id": 9})
    dumping.rows(tables.CHECKPOINT, {"file": "hw", "kind": "high_watermark", "topic": "t", "partition": 0, "offset": 1})
    dumping.rows(tables.CHECKPOINT, {"file": "le", "kind": "leader_epoch", "leader_epoch": 3, "offset": 1})
    dumping.rows(tables.PROPERTY, {"file": "meta.properties", "kind": "meta", "key": "broker.id", "value": "1"})
    result = dumping.run("--files", "--output", "table")
    titles = [line for line in result.stdout.splitlines() if not line.startswith(("t-0", "1.snapshot"))]
    text = "\n".join(titles)
    for title in (
        "segment",
        "position in log",
        "time (UTC)",
        "aborted offsets",
        "producer id",
        "topic",
        "leader epoch",
    ):
        assert title in text
    assert "meta.properties (meta)" in text
    assert "broker.id  1" in text


STATS = {
    "topic": "orders",
    "partition": 0,
    "segments": 2,
    "unread_segments": 0,
    "bytes": 3072,
    "batches": 3,
    "records": 30,
    "control_records": 1,
    "transactional_records": 10,
    "first_offset": 0,
    "last_offset": 29,
    "min_base_timestamp_ms": 0,
    "max_timestamp_ms": 1000,
    "formats": {"v2": 3},
    "codecs": {"none": 1, "gzip": 2},
    "codec_bytes": {"none": 1024, "gzip": 2048},
    "batch_sizes": {"1024": 3},
    "producers": {"7": 20, "other": 10},
    "producer_count": 5,
    "damage_count": 1,
    "damage_bytes": 9,
}


def test_stats_as_a_table_have_bars(dumping):
    result = dumping.rows(tables.STATS, STATS).run("--stats", "--output", "table")
    assert result.stdout.splitlines()[:-2] == [
        "",
        "orders-0",
        "  2 segments, 30 records, 3 batches, 3.0 KiB",
        "  offsets  0..29",
        "  times    1970-01-01T00:00:00.000Z to 1970-01-01T00:00:01.000Z",
        "  transactions  10 records, 1 control record",
        "  DAMAGE in 1 place, 9 B",
        "  batches by format",
        "    v2  3  100.0 %  " + "█" * 30,
        "  batches by codec",
        "    none  1   33.3 %  " + "█" * 15,
        "    gzip  2   66.7 %  " + "█" * 30,
        "  bytes by codec",
        "    none  1.0 KiB   33.3 %  " + "█" * 15,
        "    gzip  2.0 KiB   66.7 %  " + "█" * 30,
        "  batches by size, up to",
        "    1.0 KiB  3  100.0 %  " + "█" * 30,
        "  records by producer id (5 producers)",
        "        7  20   66.7 %  " + "█" * 30,
        "    other  10   33.3 %  " + "█" * 15,
    ]


def test_stats_as_lines(dumping):
    result = dumping.rows(tables.STATS, STATS).run("--stats")
    assert json.loads(result.stdout.splitlines()[0]) == {"type": "stats"} | STATS


def test_damage_is_red_and_a_word(dumping, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    red = "\x1b[1;31m"
    lines = dumping.batches(batch(crc_ok=False)).damaged(damage()).run("--output", "table").stdout.splitlines()
    assert [line[len(red) :].split()[0] for line in lines if line.startswith(red)] == ["0", "!!", "DAMAGE", "shown"]


@pytest.mark.parametrize(
    ("columns", "notes"),
    [
        ({}, "-"),
        ({"is_transactional": True, "is_control": True}, "txn control"),
        ({"is_transactional": True, "outcome": "aborted"}, "ABORTED"),
        ({"resynced": True, "timestamp_type": "append"}, "RESYNCED log-append-time"),
        ({"delete_horizon_ms": 0}, "horizon 1970-01-01T00:00:00.000Z"),
    ],
)
def test_notes_of_batches(columns, notes):
    assert {column.title: column.cell for column in SHOWN["batch"]}["notes"](batch(**columns)) == notes


@pytest.mark.parametrize(
    ("columns", "notes"),
    [
        ({}, "-"),
        ({"is_transactional": True, "producer_id": 7, "producer_epoch": 1}, "txn"),
        ({"is_transactional": True, "outcome": "committed"}, "txn"),
        ({"is_transactional": True, "outcome": "aborted"}, "ABORTED"),
        ({"is_transactional": True, "outcome": "open"}, "OPEN"),
        ({"is_transactional": True, "outcome": "unknown"}, "UNDECIDED"),
        ({"is_transactional": True, "control_type": "commit", "producer_id": 7, "producer_epoch": 1}, "COMMIT"),
        ({"control_type": "leader_change"}, "LEADER_CHANGE"),
        ({"resynced": True, "crc_ok": False}, "RESYNCED BAD-CRC"),
    ],
)
def test_notes_of_records(columns, notes):
    assert {column.title: column.cell for column in SHOWN["record"]}["notes"](record(**columns)) == notes


def test_csv_of_segments_and_files_knows_the_records_of_a_snapshot(dumping):
    result = dumping.records(record()).run("--segments", "--files", "--output", "csv")
    assert result.exit_code == 0
