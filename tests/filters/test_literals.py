"""The literals and classes that a regular expression requires, and the kernels that search for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkalog_core import kernels
from kafkalog_core.format.columns import RecordColumns
from kafkalog_core.format.literals import ByteClasses, ByteLiteral, required_bytes, sees_its_place
from kafkalog_core.kernels.programs import WANTS_HEADERS, WANTS_KEY, WANTS_VALUE
from tests.filters.patterns import TEXTS, patterns
from tests.support.build import Record, batch_v2
from tests.support.twins import TWINS, all_agree, state_at, twin, walked

if TYPE_CHECKING:
    from collections.abc import Sequence

Group = tuple[ByteLiteral | ByteClasses, ...]


def literals_of(pattern: bytes, flags: int = 0) -> list[tuple[bytes, ...]]:
    """The groups of literals, without those of classes."""
    groups = required_bytes(re.compile(pattern, flags))
    return [
        tuple(each.text for each in group if isinstance(each, ByteLiteral))
        for group in groups
        if isinstance(group[0], ByteLiteral)
    ]


def sizes_of(pattern: bytes) -> list[tuple[int, ...]]:
    """The sizes of the classes."""
    groups = required_bytes(re.compile(pattern))
    return [
        tuple(each.size for each in group if isinstance(each, ByteClasses))
        for group in groups
        if isinstance(group[0], ByteClasses)
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (rb"error", [(b"error",)]),
        (rb"foo(bar)+x", [(b"foobar",), (b"x",)]),
        (rb"error|warn", [(b"error", b"warn")]),
        (rb"error|w?", []),
        (rb"(?>abc)d", [(b"abcd",)]),
        (rb"(ab){2}c", [(b"ababc",)]),
        (rb"(ab){2,}c", [(b"abab",), (b"c",)]),
        (rb"a*b?", []),
        (rb"^ab$", [(b"ab",)]),
        (rb"a(?=b)", [(b"a",)]),  # what is looked at is not relied on
        (rb"(?!ab)c", [(b"c",)]),
        (rb"(a)?(?(1)b|c)q", [(b"q",)]),
        (rb"[Aa]b", [(b"ab",)]),  # as if it ignored case: more is found than matches, never less
        (rb"[\xc0\xe0]b", [(b"b",)]),
        (rb"", []),
        (rb".*", []),
        (rb"a{40}b", [(b"a" * 32,), (b"b",)]),
        (rb"((((a?){30}){30}){30}){30}b", [(b"b",)]),
        (rb"(?L)abc", []),
        (rb"(?L:a)bc", [(b"bc",)]),
    ],
)
def test_required_literals(pattern: bytes, expected: list[tuple[bytes, ...]]) -> None:
    assert literals_of(pattern) == expected


def test_case() -> None:
    (group, *_) = required_bytes(re.compile(rb"(?i)Gr\xc3\xbcN"))
    (literal,) = group
    assert isinstance(literal, ByteLiteral)
    assert (literal.text, literal.folds) == (b"gr\xc3\xbcn", True)
    assert literal.mask == b"\x20\x20\x00\x00\x20"
    assert literals_of(rb"(?i:ab)CD") == [(b"ab",), (b"CD",)]
    assert literals_of(rb"(?i)ab(?-i:CD)") == [(b"ab",), (b"CD",)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (rb"[0-9]+", [(1,)]),
        (rb"[A-Z]\d{4}[a-z]", [(6,)]),
        (rb"\d\d|[A-Z]{3}", [(2, 3)]),
        (rb"\d\d|.*", []),
        (rb".+", []),  # every byte but one excludes nothing
        (rb"(?s).", []),
        (rb"\d{0,3}", []),
        (rb"[0-9]{100}", [(32,)]),
    ],
)
def test_required_classes(pattern: bytes, expected: list[tuple[int, ...]]) -> None:
    assert sizes_of(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (rb"a$", False),
        (rb"a\Z", False),
        (rb"(?m)a$", False),
        (rb"a(?=b)(?!c)", False),
        (rb"(a|[bc]+)\1", False),
        (rb"(?:a|^b)", True),
        (rb"(\Aa)?", True),
        (rb"\ba", True),
        (rb"a\B", True),
        (rb"(?<=a)b", True),
        (rb"(?:x(?<!a)b)*", True),
        (rb"(?=(?<!a))b", True),
    ],
)
def test_what_depends_on_the_bytes_before(pattern: bytes, expected: bool) -> None:
    assert sees_its_place(re.compile(pattern)) is expected


def test_another_parser_requires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("kafkalog_core.format.literals.import_module", missing)
    assert required_bytes(re.compile(b"abc")) == ()
    assert sees_its_place(re.compile(b"abc"))


# --- the kernels ------------------------------------------------------------------------------------------------------
def kept(name: str, group: Group, fields: Sequence[bytes | None], parts: int = WANTS_VALUE) -> bytes:
    """The marks of records with these fields as values, keys or headers, by one twin."""
    place = {WANTS_VALUE: "value", WANTS_KEY: "key"}
    records = [
        Record(offset=row, **({place[parts]: field} if parts in place else {"headers": ((b"", field),)}))
        for row, field in enumerate(fields)
    ]
    data = batch_v2(records)
    batches, columns = walked(data), RecordColumns(max(1, len(fields)))
    assert kernels.decode(data, batches, batches.count, state_at(0), columns) == kernels.DECODE_DONE
    marks = bytearray(b"\x01") * len(fields)
    count = twin(name).keep_holding(data, columns, parts, group, marks)
    assert count == marks.count(1) == len(marks) - marks.count(0)
    return bytes(marks)


def holds(each: ByteLiteral | ByteClasses, field: bytes) -> bool:
    if isinstance(each, ByteLiteral):
        return each.text in (field.lower() if each.folds else field)
    starts = range(len(field) - each.size + 1)
    return any(all(not each.table[field[i + at]] >> at & 1 for at in range(each.size)) for i in starts)


FIELDS = st.lists(st.none() | TEXTS, min_size=1, max_size=12)


@pytest.mark.slow
@given(patterns(), FIELDS)
@example(re.compile(rb"(?i:a)b+(?=B)"), [b"ab", b"AbB", None, b""])
@settings(max_examples=300, deadline=None)
def test_every_match_has_what_is_required(pattern: re.Pattern[bytes], fields: list[bytes | None]) -> None:
    for group in required_bytes(pattern):
        marks = all_agree([kept(name, group, fields) for name in TWINS])
        assert isinstance(marks, bytes)
        for field, mark in zip(fields, marks, strict=True):
            assert mark == (field is not None and any(holds(each, field) for each in group))
            if field is not None and pattern.search(field):
                assert mark


@given(st.binary(min_size=1, max_size=40), st.lists(st.binary(max_size=90), min_size=1, max_size=8), st.booleans())
@settings(max_examples=200, deadline=None)
def test_literals_anywhere_in_long_fields(text: bytes, around: list[bytes], folds: bool) -> None:
    literal = ByteLiteral(text, folds=folds)
    fields = [
        one + (text.swapcase() if folds else text) + other for one, other in zip(around, around[::-1], strict=True)
    ]
    fields += [each[:-1] for each in fields] + around
    expected = bytes(holds(literal, field) for field in fields)
    for parts in (WANTS_KEY, WANTS_VALUE, WANTS_HEADERS):
        assert all_agree([kept(name, (literal,), fields, parts) for name in TWINS]) == expected


@pytest.mark.parametrize("name", TWINS)
def test_rows_without_a_mark_are_left_alone(name: str) -> None:
    data = batch_v2([Record(offset=row, key=b"k", value=b"v", headers=((b"h", b"x"),)) for row in range(4)])
    batches, columns = walked(data), RecordColumns(4)
    kernels.decode(data, batches, batches.count, state_at(0), columns)
    run = twin(name)
    for keep in (
        lambda marks: run.keep_holding(data, columns, WANTS_KEY, (ByteLiteral(b"k"),), marks),
        lambda marks: run.keep_equal(data, columns, kernels.R_VALUE, b"v", marks),
        lambda marks: run.keep_header(data, columns, b"h", None, marks),
        lambda marks: run.keep_header(data, columns, b"h", b"x", marks),
        lambda marks: run.keep_within(columns, kernels.R_OFFSET, 0, 9, marks),
    ):
        marks = bytearray(b"\x00\x01\x00\x01")
        assert keep(marks) == 2
        assert marks == b"\x00\x01\x00\x01"
    for keep in (
        lambda marks: run.keep_holding(data, columns, WANTS_VALUE, (ByteLiteral(b"k"),), marks),
        lambda marks: run.keep_equal(data, columns, kernels.R_KEY, b"kk", marks),
        lambda marks: run.keep_header(data, columns, b"", None, marks),
        lambda marks: run.keep_header(data, columns, b"h", b"", marks),
        lambda marks: run.keep_within(columns, kernels.R_OFFSET, 4, 9, marks),
    ):
        marks = bytearray(b"\x00\x01\x00\x01")
        assert keep(marks) == 0
        assert not any(marks)
