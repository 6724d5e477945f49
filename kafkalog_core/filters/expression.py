"""The expression that selects batches and records, and the conditions on content that follow from it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import SelectionError
from kafkalog_core.format.layout import CODEC_NAMES
from kafkalog_core.format.literals import ByteClasses, ByteLiteral, required_bytes, sees_its_place
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ANY", "ContentCondition", "Filters", "Range"]

Range = tuple[int | None, int | None]
"""First and last value, both included; None: no limit."""
ANY: Final[Range] = (None, None)

_EVERYWHERE: Final = ("key", "value", "headers")


class ContentCondition(NamedTuple):
    """A condition on the bytes of a record, cheap tests first.

    Attributes:
        parts: `key`, `value` or `headers`: one of them must meet the condition, of headers a key or a value.
        literals: groups of literals and classes; such a part has one of each group.
        pattern: what must match in one of the parts; None: the literals are the whole condition.
        sees_its_place: whether a match may depend on what is before it, so that the part must be cut out.
    """

    parts: tuple[str, ...]
    literals: tuple[tuple[ByteLiteral | ByteClasses, ...], ...]
    pattern: re.Pattern[bytes] | None
    sees_its_place: bool = False


class Filters(Struct, frozen=True, kw_only=True, dict=True):
    """The batches and records that are selected; ranges include both ends, None is open. By default all are.

    All given conditions must hold. Those on keys, values and headers are about content; `inverted` turns their result.

    Args:
        offsets: Kafka offsets (0.7: byte addresses).
        positions: bytes of the file at which batches start.
        times_ms: timestamps in ms; a record without one is never in a range. A batch is in the range if one of its
            records is; a batch without records if its largest timestamp is.
        key: the exact key.
        value: the exact value.
        key_regex: pattern searched in the key, as bytes of UTF-8; it never matches in a null.
        value_regex: the same for the value.
        contains: bytes searched in the key, the value, and the keys and values of headers.
        headers: (key, value) pairs that a record must all have; value None means any.
        ignores_case: whether the patterns and `contains` match letters in either case. In patterns these are the
            letters of ASCII, in `contains` all letters if it is UTF-8.
        inverted: whether the records are selected whose content does not meet the conditions on content.
        producer_id: producer id of the batch.
        transactional: attribute bit 4; False in formats that lack it.
        control: attribute bit 5; False in formats that lack it.
        codec: Kafka's name of a codec.
    """

    offsets: Range = ANY
    positions: Range = ANY
    times_ms: Range = ANY
    key: bytes | None = None
    value: bytes | None = None
    key_regex: str | None = None
    value_regex: str | None = None
    contains: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    ignores_case: bool = False
    inverted: bool = False
    producer_id: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    codec: str | None = None

    def check(self) -> None:
        """Raise SelectionError for an expression that is not valid."""
        _ = self.content
        if self.codec is not None and self.codec not in CODEC_NAMES:
            raise SelectionError(f"{self.codec!r} is not a codec of Kafka: {', '.join(CODEC_NAMES)}")
        if self.contains == b"":
            raise SelectionError("every record contains the empty text; leave the condition out")
        if self.inverted and not self.looks_at_content:
            raise SelectionError("there is no condition on keys, values or headers to invert")

    @property
    def looks_at_content(self) -> bool:
        """Whether there is a condition on keys, values or headers."""
        given = (self.key, self.value, self.key_regex, self.value_regex, self.contains)
        return bool(self.headers) or any(each is not None for each in given)

    @property
    def looks_at_batches(self) -> bool:
        """Whether a batch can be skipped by its header."""
        ranged = any(part != ANY for part in (self.offsets, self.positions, self.times_ms))
        flags = (self.producer_id, self.transactional, self.control, self.codec)
        return ranged or any(flag is not None for flag in flags)

    @property
    def exact(self) -> tuple[tuple[str, bytes], ...]:
        """The parts, `key` or `value`, and the bytes that they must be."""
        given = (("key", self.key), ("value", self.value))
        return tuple((part, text) for part, text in given if text is not None)

    @cached_property
    def content(self) -> tuple[ContentCondition, ...]:
        """The patterns and `contains` as conditions. Raises SelectionError for what is not a regular expression."""
        return tuple(self._content())

    def _content(self) -> Iterator[ContentCondition]:
        flags = re.IGNORECASE if self.ignores_case else re.NOFLAG
        for part, text in (("key", self.key_regex), ("value", self.value_regex)):
            if text is None:
                continue
            try:
                pattern = re.compile(text.encode("utf-8", "surrogateescape"), flags)
            except (re.error, OverflowError, RecursionError) as error:
                raise SelectionError(f"{text!r} is not a regular expression: {error}") from error
            yield ContentCondition((part,), required_bytes(pattern), pattern, sees_its_place(pattern))
        if not self.contains:
            return
        if self.ignores_case and not self.contains.isascii():
            pattern = re.compile(_either_case(self.contains))
            yield ContentCondition(_EVERYWHERE, required_bytes(pattern), pattern)
        else:
            yield ContentCondition(_EVERYWHERE, ((ByteLiteral(self.contains, folds=self.ignores_case),),), None)


def _either_case(text: bytes) -> bytes:
    """Return a pattern that matches a text in either case of each of its letters."""
    try:
        letters = text.decode()
    except UnicodeDecodeError:
        return b"(?i:%s)" % re.escape(text)
    forms = ({letter, letter.lower(), letter.upper(), letter.swapcase()} for letter in letters)
    return b"".join(b"(?:%s)" % b"|".join(re.escape(form.encode()) for form in sorted(each)) for each in forms)
