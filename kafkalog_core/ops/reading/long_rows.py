"""The line of a row whose key or value is very long, piece by piece: escaped it may be six times as long."""

from __future__ import annotations

import base64
import codecs
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.csv_form import csv_field, csv_text, has_controls, needs_quotes
from kafkalog_core.format.json_form import json_text
from kafkalog_core.ops.reading.rows import csv_fields, json_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.ops.reading.rows import BytesMode
    from kafkalog_core.tables import Table

__all__ = ["long_csv_row", "long_line"]

_SUFFIXES: Final = {"auto": "", "base64": "_b64", "hex": "_hex"}
_PIECE_BYTES: Final = 3 * 256 * 1024  # a multiple of what becomes four letters of base64


def long_line(table: Table, row: Mapping[str, object], bytes_mode: BytesMode) -> Iterator[bytes]:
    r"""What `json_line` makes of the row, in pieces; its bytes are memoryviews."""
    spans = {name: value for name, value in row.items() if isinstance(value, memoryview)}
    nulls = json_object(table, {**row, **dict.fromkeys(spans)}, bytes_mode)
    opening = "{"
    for name, (member, value) in zip(table.names, nulls.items(), strict=True):
        if name in spans:
            yield from _member(opening, name, spans[name], bytes_mode)
        else:
            yield f"{opening}{json_text(member)}:{json_text(value)}".encode("utf-8", "backslashreplace")
        opening = ","
    yield b"}\n"


def long_csv_row(
    table: Table, row: Mapping[str, object], header: Sequence[str], bytes_mode: BytesMode
) -> Iterator[bytes]:
    r"""What `csv_row` makes of the row, in pieces; its bytes are memoryviews."""
    spans = {name: value for name, value in row.items() if isinstance(value, memoryview)}
    fields = csv_fields(table, {**row, **dict.fromkeys(spans)}, bytes_mode)
    of_column = {}
    for name, span in spans.items():
        mode = bytes_mode
        if mode == "auto" and not _is_clean_text(span):
            mode = "base64"
        of_column[f"{name}{_SUFFIXES[mode]}"] = span, mode
    for number, name in enumerate(header):
        if number:
            yield b","
        if name in of_column:
            yield from _field(*of_column[name])
        else:
            yield csv_field(fields.get(name)).encode("utf-8", "backslashreplace")
    yield b"\r\n"


def _field(span: memoryview, mode: BytesMode) -> Iterator[bytes]:
    """A key or value as a field."""
    if mode != "auto":
        yield from _encoded(span, mode) if len(span) else (b'""',)
        return
    is_quoted = not len(span) or any(needs_quotes(text) for text in _texts(span))
    yield b'"' if is_quoted else b""
    for text in _texts(span):
        yield csv_text(text).encode()
    yield b'"' if is_quoted else b""


def _member(opening: str, name: str, span: memoryview, bytes_mode: BytesMode) -> Iterator[bytes]:
    mode = bytes_mode
    if mode == "auto":
        mode = "auto" if _is_utf8(span) else "base64"
    yield f'{opening}"{name}{_SUFFIXES[mode]}":"'.encode()
    if mode == "auto":
        for text in _texts(span):
            yield json_text(text)[1:-1].encode()
    else:
        yield from _encoded(span, mode)
    yield b'"'


def _encoded(span: memoryview, mode: BytesMode) -> Iterator[bytes]:
    """In hexadecimal or base64."""
    for piece in _pieces(span):
        yield piece.hex().encode() if mode == "hex" else base64.b64encode(piece)


def _texts(span: memoryview) -> Iterator[str]:
    """The text of bytes, which are UTF-8. Raises UnicodeDecodeError where they are not."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in _pieces(span):
        yield decoder.decode(piece)
    decoder.decode(b"", final=True)


def _is_utf8(span: memoryview) -> bool:
    try:
        for _ in _texts(span):
            pass
    except UnicodeDecodeError:
        return False
    return True


def _is_clean_text(span: memoryview) -> bool:
    """Whether bytes are a text that a terminal does not obey, see `csv_form`."""
    try:
        return not any(has_controls(text) for text in _texts(span))
    except UnicodeDecodeError:
        return False


def _pieces(span: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(span), _PIECE_BYTES):
        yield span[start : start + _PIECE_BYTES]
