"""The JSON form of a row: these lines are the contract that the compiled kernel and other programs hold on to."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk, json_line, json_object
from kafkalog_core.output.tables import Column, Table

SMALL = Table(
    "small",
    (
        Column("type", "string", ""),
        Column("offset", "int64", ""),
        Column("key", "bytes", ""),
        Column("headers", "headers", ""),
    ),
)


@pytest.mark.parametrize(
    ("mode", "key", "member"),
    [
        ("auto", b"a\xc3\xa9", '"key":"aé"'),
        ("auto", b"\xff\x00", '"key_b64":"/wA="'),
        ("auto", b"", '"key":""'),
        ("auto", None, '"key":null'),
        ("base64", b"a", '"key_b64":"YQ=="'),
        ("base64", None, '"key_b64":null'),
        ("hex", b"\xff\x00", '"key_hex":"ff00"'),
        ("hex", None, '"key_hex":null'),
    ],
)
def test_bytes_have_the_name_of_their_form(mode, key, member):
    line = json_line(SMALL, {"offset": 1, "key": key, "headers": []}, mode).decode()
    assert line == f'{{"type":"small","offset":1,{member},"headers":[]}}\n'


@pytest.mark.parametrize(
    "not_utf8",
    [b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"],
    ids=["overlong", "surrogate", "beyond Unicode", "cut short", "stray"],
)
def test_almost_utf8_is_base64(not_utf8):
    assert "key_b64" in json_object(SMALL, {"key": not_utf8}, "auto")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("auto", [{"key": "a", "value": "1"}, {"key_b64": "/w==", "value_b64": "/g=="}, {"key": "n", "value": None}]),
        (
            "base64",
            [
                {"key": "a", "value_b64": "MQ=="},
                {"key_b64": "/w==", "value_b64": "/g=="},
                {"key": "n", "value_b64": None},
            ],
        ),
        (
            "hex",
            [{"key": "a", "value_hex": "31"}, {"key_hex": "ff", "value_hex": "fe"}, {"key": "n", "value_hex": None}],
        ),
    ],
)
def test_header_keys_stay_text_where_they_can(mode, expected):
    headers = [(b"a", b"1"), (b"\xff", b"\xfe"), (b"n", None)]
    assert json_object(SMALL, {"headers": headers}, mode)["headers"] == expected


def test_escapes_are_those_of_json_dumps_and_no_terminal_control_is_left():
    key = bytes(range(0x20)) + b'"\\/\x7f' + "\x80\x9b\x9f\xa0\u2028😀".encode()
    line = json_line(SMALL, {"key": key}, "auto")
    assert line == (
        b'{"type":"small","offset":null,"key":"'
        b"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f"
        b"\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a\\u001b\\u001c\\u001d\\u001e\\u001f"
        b'\\"\\\\/\\u007f\\u0080\\u009b\\u009f\xc2\xa0\xe2\x80\xa8\xf0\x9f\x98\x80","headers":null}\n'
    )


def test_a_file_name_that_is_not_utf8_makes_a_valid_line():
    line = json_line(tables.SEGMENT, {"segment": b"bad\xff.log".decode("utf-8", "surrogateescape")}, "auto")
    assert json.loads(line.decode("utf-8"))["segment"].encode("utf-8", "surrogateescape") == b"bad\xff.log"


def test_a_chunk_gives_every_column_and_a_line_a_row():
    chunk = RowChunk(tables.DAMAGE, [{"position": 3}, {"reason": "torn-tail"}])
    assert chunk.count == 2
    assert [tuple(row) for row in chunk.rows()] == [tables.DAMAGE.names] * 2
    assert [json.loads(line) for line in chunk.ndjson("auto").splitlines()] == list(chunk.rows())


@given(st.binary() | st.none(), st.sampled_from(["auto", "base64", "hex"]))
def test_no_byte_is_lost(key, mode):
    decoders = {"key": str.encode, "key_b64": base64.b64decode, "key_hex": bytes.fromhex}
    (name, text), *_ = [
        item for item in json.loads(json_line(SMALL, {"key": key}, mode)).items() if item[0] in decoders
    ]
    assert (None if text is None else decoders[name](text)) == key
