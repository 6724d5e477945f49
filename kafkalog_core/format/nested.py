"""Compressed messages of magic 0 and 1 in compressed messages, which Java does not read: all messages as one set.

Producers wrote them that compressed again what they sent again. kafkalog shows their records where it is asked for
everything that can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import FormatError, LimitError
from kafkalog_core.format.decompression import inflater
from kafkalog_core.format.layout import (
    CODEC_MASK,
    ENVELOPE,
    LEGACY_ATTRIBUTES,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V0,
    MAGIC_V1,
    MIN_ENTRY_SIZE,
    V0_KEY_LENGTH,
    V1_KEY_LENGTH,
)
from kafkalog_core.format.streams import OddStreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.streams import Content

__all__ = ["flattened"]

_MAX_DEPTH: Final = 8
_LENGTH: Final = 4


class _Message(NamedTuple):
    offset: int
    start: int
    end: int
    codec: int


def flattened(content: Content, *, limit_bytes: int) -> bytes | None:
    """Return the messages in a compressed message, with those of nested ones; None: none is nested, or opens.

    A broker numbers the messages in a compressed one, and does not look into them: the messages of a nested one of
    magic 1, whose own offsets are relative, all get its offset. Those of magic 0 keep theirs.

    Args:
        content: the decompressed value of the message.
        limit_bytes: the largest size of all levels.
    """
    messages = memoryview(content)
    if not any(each.codec for each in _messages(messages)):
        return None
    out = bytearray()
    try:
        _flatten(messages, None, out, limit_bytes, _MAX_DEPTH)
    except FormatError:
        return None
    return bytes(out)


def _messages(content: memoryview) -> Iterator[_Message]:
    """Yield the whole messages of a set; a wrong size, or an incomplete message, ends it."""
    position = 0
    while len(content) - position >= LOG_OVERHEAD + MIN_ENTRY_SIZE:
        offset, size = ENVELOPE.struct.unpack_from(content, position)
        end = position + LOG_OVERHEAD + size
        if size < MIN_ENTRY_SIZE or end > len(content) or content[position + MAGIC_POSITION] > MAGIC_V1:
            return
        yield _Message(offset, position, end, content[position + LEGACY_ATTRIBUTES] & CODEC_MASK)
        position = end


def _flatten(content: memoryview, around: int | None, out: bytearray, limit_bytes: int, depth: int) -> None:
    """Append the messages of a set, all with the offset `around`, if there is one. Raises FormatError."""
    if not depth:
        raise LimitError(f"messages are nested more than {_MAX_DEPTH} deep")
    kept = 0
    for message in _messages(content):
        kept = message.end
        offset = message.offset if around is None else around
        if message.codec:
            inner = memoryview(_value(content[message.start : message.end], message.codec, limit_bytes - len(out)))
            is_relative = content[message.start + MAGIC_POSITION] == MAGIC_V1
            _flatten(inner, offset if is_relative else around, out, limit_bytes, depth - 1)
        else:
            if len(out) > limit_bytes:
                raise LimitError("the nested messages are too large")
            out += offset.to_bytes(8, "big", signed=True) + content[message.start + 8 : message.end]
    out += content[kept:]


def _value(message: memoryview, codec: int, limit_bytes: int) -> Content:
    magic = message[MAGIC_POSITION]
    key = V0_KEY_LENGTH if magic == MAGIC_V0 else V1_KEY_LENGTH
    start = key + _LENGTH + max(0, int.from_bytes(message[key : key + _LENGTH], "big", signed=True)) + _LENGTH
    try:
        return inflater(codec)(bytes(message[start:]), magic, limit_bytes)
    except OddStreamError as error:
        return error.content
