"""A filtered dump shows what the full dump shows and Python's `re` selects, whatever is damaged."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import SelectionError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.ops.dump.file_parts import plan_file_parts
from kafkalog_core.ops.dump.follow import follow
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.structs import replace
from tests.filters.patterns import TEXTS, patterns
from tests.support.build import GZIP, LZ4, NONE, SNAPPY, ZSTD, Record, batch_v2, message_v0, wrapper_v0, wrapper_v1
from tests.support.logs import Row, dump_rows, offsets_of, records, write_segments

if TYPE_CHECKING:
    from collections.abc import Iterator

NULLABLE = st.none() | TEXTS
HEADERS = st.lists(st.tuples(TEXTS, NULLABLE), max_size=3).map(tuple)
CONTENT = st.lists(st.tuples(NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=40)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of any format and codec, of which some bytes may be wrong."""
    data, offset = b"", 0
    for _ in range(draw(st.integers(1, 4))):
        some = [
            Record(offset=offset + at, timestamp_ms=1000 + offset + at, key=key, value=value, headers=headers)
            for at, (key, value, headers) in enumerate(draw(CONTENT))
        ]
        offset += len(some)
        plain = [replace(record, headers=()) for record in some]
        form = draw(st.sampled_from(["v2", "v2", "v2", "v1", "v0", "plain"]))
        if form == "v2":
            data += batch_v2(some, codec=draw(st.sampled_from([NONE, GZIP, SNAPPY, LZ4, ZSTD])))
        elif form == "plain":
            data += b"".join(message_v0(record) for record in plain)
        else:
            data += {"v1": wrapper_v1, "v0": wrapper_v0}[form](plain)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]
    return data


@st.composite
def expressions(draw: st.DrawFn) -> Filters:
    """Conditions on content, one or several of them."""
    made: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(["key", "value", "key_regex", "value_regex", "contains", "headers"]))):
        if name in {"key", "value"}:
            made[name] = draw(TEXTS)
        elif name == "contains":
            made[name] = draw(TEXTS.filter(bool).map(lambda text: text[:3]))
        elif name == "headers":
            made[name] = tuple(draw(st.lists(st.tuples(TEXTS, NULLABLE), max_size=2)))
        else:
            made[name] = draw(patterns().filter(_is_plain)).pattern.decode("utf-8", "surrogateescape")
    low = draw(st.integers(0, 40))
    offsets = draw(st.sampled_from([(None, None), (low, low + 30), (None, low)]))
    made["ignores_case"] = draw(st.booleans())
    filters = Filters(**made, offsets=offsets)
    return replace(filters, inverted=filters.looks_at_content and draw(st.booleans()))


def _is_plain(pattern: re.Pattern[bytes]) -> bool:
    """Whether the pattern alone says what it means: the flags are given in the text."""
    return pattern.flags == re.NOFLAG


def selects(filters: Filters, row: Row) -> bool:
    """What the expression says, by the words of its definition."""
    low, high = filters.offsets
    if (low is not None and row["offset"] < low) or (high is not None and row["offset"] > high):
        return False
    if not filters.looks_at_content:
        return True
    return _content_matches(filters, row) is not filters.inverted


def _content_matches(filters: Filters, row: Row) -> bool:
    key, value, headers = row["key"], row["value"], row["headers"] or []
    flags = re.IGNORECASE if filters.ignores_case else re.NOFLAG
    for text, field in ((filters.key_regex, key), (filters.value_regex, value)):
        if text is None:
            continue
        if field is None or not re.search(text.encode("utf-8", "surrogateescape"), field, flags):
            return False
    if filters.contains is not None:
        parts = [key, value, *(part for header in headers for part in header)]
        if not any(part is not None and _is_in(filters.contains, part, folds=filters.ignores_case) for part in parts):
            return False
    return (
        (filters.key is None or key == filters.key)
        and (filters.value is None or value == filters.value)
        and all(
            any(name == each and wanted in {None, held} for each, held in headers) for name, wanted in filters.headers
        )
    )


def _is_in(text: bytes, part: bytes, *, folds: bool) -> bool:
    if not folds:
        return text in part
    try:
        form = text.decode()
    except UnicodeDecodeError:
        return text.lower() in part.lower()
    return form.lower() in part.decode("utf-8", "surrogateescape").lower()


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    directory = tempfile.mkdtemp()
    yield Path(directory)
    shutil.rmtree(directory)


def damage_of(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["type"] != "record"]


@pytest.mark.slow
@given(logs(), expressions(), st.booleans())
@settings(
    max_examples=3 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_filtered_dump_is_the_full_one_filtered(
    place: Path,
    data: bytes,
    filters: Filters,
    newest_first: bool,
) -> None:
    log = write_segments(place / "topic-0", {0: data})
    whole, report = Report(), Report()
    everything = dump_rows(log, level="records", report=whole, newest_first=newest_first)
    shown = dump_rows(log, level="records", report=report, filters=filters, newest_first=newest_first)
    rows = [row for row in everything if row["type"] == "record" and selects(filters, row)]
    assert [row for row in shown if row["type"] == "record"] == rows
    if filters.offsets == (None, None):
        assert damage_of(shown) == damage_of(everything)
        assert (report.exit_status, report.bytes, report.batches) == (whole.exit_status, whole.bytes, whole.batches)
        assert report.unopened_batches == whole.unopened_batches


# --- context, counts --------------------------------------------------------------------------------------------------
MANY = [Record(offset=at, timestamp_ms=1000, key=b"k%d" % (at % 10), value=b"v%d" % at) for at in range(60)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Batches of 7 records in two segments, so that context is in other batches, runs and segments than its match."""
    batches = [batch_v2(MANY[at : at + 7], codec=LZ4 if at % 2 else NONE) for at in range(0, 60, 7)]
    return write_segments(tmp_path / "topic-0", {0: b"".join(batches[:4]), 28: b"".join(batches[4:])})


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (2, 3), (9, 9), (12, 0), (0, 12), (60, 60), (3, 3)])
@pytest.mark.parametrize("wanted", [b"k0", b"k5", b"none"])
def test_context(log: Path, before: int, after: int, wanted: bytes, *, newest_first: bool) -> None:
    order = MANY[::-1] if newest_first else MANY
    hits = [at for at, record in enumerate(order) if record.key == wanted]
    expected = [
        record.offset for at, record in enumerate(order) if any(hit - before <= at <= hit + after for hit in hits)
    ]
    request = {"filters": Filters(key=wanted), "level": "records", "newest_first": newest_first}
    assert offsets_of(dump_rows(log, before=before, after=after, **request)) == expected
    for most in (1, 2):
        shown = [at for hit in hits[:most] for at in range(hit - before, hit + after + 1)]
        expected = [record.offset for at, record in enumerate(order) if at in shown]
        assert offsets_of(dump_rows(log, before=before, after=after, max_count=most, **request)) == expected
    assert (
        offsets_of(dump_rows(log, before=before, after=after, limit=5, **request))
        == offsets_of(dump_rows(log, before=before, after=after, **request))[:5]
    )


def test_context_is_within_ranges_and_its_log(tmp_path: Path, log: Path) -> None:
    rows = dump_rows(log, filters=Filters(key=b"k5", offsets=(14, 26)), level="records", before=4, after=4)
    assert offsets_of(rows) == [*range(14, 20), *range(21, 27)]
    other = write_segments(tmp_path / "topic-1", {0: batch_v2(records(0, 3))})
    rows = dump_rows(log, other, filters=Filters(key=b"k5"), level="records", before=2, after=20)
    assert {row["partition"] for row in rows} == {0}
    rows = dump_rows(log, other, filters=Filters(key_regex="k[0-9]"), level="records", max_count=2)
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_counts(tmp_path: Path, log: Path) -> None:
    write_segments(tmp_path / "topic-1", {0: batch_v2(records(0, 3)) + b"torn"})
    report = Report()
    request = {"level": "records", "counts": True}
    rows = dump_rows(tmp_path / "topic-0", tmp_path / "topic-1", report=report, filters=Filters(key=b"k1"), **request)
    assert [(row["partition"], row["records"]) for row in rows if row["type"] == "count"] == [(0, 6), (1, 1)]
    assert [row["reason"] for row in rows if row["type"] == "damage"] == ["torn-tail"]
    assert (report.records, report.rows) == (7, 3)
    rows = dump_rows(log, filters=Filters(key=b"k1"), max_count=2, path=True, **request)
    assert [(row["records"], row["path"]) for row in rows] == [(2, str(log))]
    assert [row["records"] for row in dump_rows(log, **request)] == [60]


def test_parts_and_growing_logs_have_no_context(log: Path) -> None:
    targets = tuple(resolve([str(log)]))
    for more in ({"before": 1}, {"after": 1}, {"max_count": 1}, {"counts": True}):
        request = DumpRequest(targets=targets, level="records", **more)
        with pytest.raises(SelectionError, match="only all of a log can be read in parts"):
            plan_file_parts(request)
        with pytest.raises(SelectionError, match="without context"):
            next(follow(request, Report(), lambda: True))


# --- what is no expression --------------------------------------------------------------------------------------------
def test_expressions_that_say_nothing() -> None:
    with pytest.raises(SelectionError, match="every record contains the empty text"):
        Filters(contains=b"").check()
    with pytest.raises(SelectionError, match="no condition on keys, values or headers to invert"):
        Filters(inverted=True, offsets=(1, 2)).check()


def test_case_of_letters_outside_of_ascii(tmp_path: Path) -> None:
    values = ["Größe".encode(), "GRÖSSE".encode(), b"gr\xd6\xdfe", "größe".encode(), None, b"GR"]
    log = write_segments(
        tmp_path / "topic-0", {0: batch_v2([Record(offset=at, value=value) for at, value in enumerate(values)])}
    )

    def found(text: bytes, **filters: Any) -> list[int]:
        return offsets_of(dump_rows(log, level="records", filters=Filters(contains=text, ignores_case=True, **filters)))

    assert found("grö".encode()) == [0, 1, 3]
    assert found(b"gr\xd6") == [2]
    assert found(b"gr") == [0, 1, 2, 3, 5]
    assert found(b"gr", inverted=True) == [4]
