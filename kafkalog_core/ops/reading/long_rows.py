"""The JSON line of a row whose key or value is very long, piece by piece: escaped it may be six times as long."""

from __future__ import annotations

import base64
import codecs
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.json_form import json_text
from kafkalog_core.ops.reading.rows import json_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.ops.reading.rows import BytesMode
    from kafkalog_core.tables import Table

__all__ = ["long_line"]

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


def _member(opening: str, name: str, span: memoryview, bytes_mode: BytesMode) -> Iterator[bytes]:
    mode = bytes_mode
    if mode == "auto":
        mode = "auto" if _is_utf8(span) else "base64"
    suffix = {"auto": "", "base64": "_b64", "hex": "_hex"}[mode]
    yield f'{opening}"{name}{suffix}":"'.encode()
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in _pieces(span):
        if mode == "hex":
            yield piece.hex().encode()
        elif mode == "base64":
            yield base64.b64encode(piece)
        else:
            yield json_text(decoder.decode(piece))[1:-1].encode()
    yield b'"'


def _is_utf8(span: memoryview) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in _pieces(span):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _pieces(span: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(span), _PIECE_BYTES):
        yield span[start : start + _PIECE_BYTES]
