"""Writing and mending the text checkpoints: golden bytes, every row of the grammar, and damage at random."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog_core.errors import FieldError
from kafkalog_core.format.checkpoint import (
    CheckpointEpoch,
    CheckpointMend,
    CheckpointOffset,
    CheckpointVerdict,
    LineEdit,
    encode_offset_checkpoint,
    parse_epoch_entry,
    parse_offset_entry,
    read_epoch_checkpoint,
    read_offset_checkpoint,
)

GOOD = b"0\n3\na 0 5\nb 0 6\nb 1 -0\n"


def _mend(data: bytes) -> tuple[bytes, tuple[LineEdit, ...]]:
    mend: CheckpointMend[CheckpointOffset] = CheckpointMend(data, parse_offset_entry)
    content, edits = mend.content()
    return content, tuple(edits)


def _verdict(data: bytes) -> CheckpointVerdict:
    *_, verdict = read_offset_checkpoint([data])
    assert isinstance(verdict, CheckpointVerdict)
    return verdict


def _entries(data: bytes) -> list[tuple[str, int, int]]:
    items = read_offset_checkpoint([data])
    return [(item.topic, item.partition, item.offset) for item in items if isinstance(item, CheckpointOffset)]


def test_a_checkpoint_of_a_broker() -> None:
    written = b"0\n4\n__consumer_offsets 0 4\n__transaction_state 0 50\norders 0 140\npayments 0 112\n"
    entries = _entries(written)
    assert encode_offset_checkpoint(entries) == written
    assert encode_offset_checkpoint([]) == b"0\n0\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"0",
        b"0\n0\n",
        GOOD,
        b"+0\n00\n",
        b"0\r\n1\r\na 0 5\r\n",
        b"0\r1\ra 0 5\r",
        b"0\n1\na 0 5",
        b"0\n1\na 0 5 \t\n",
        b"0\n1\na\t0  5\n",
    ],
    ids=repr,
)
def test_what_a_broker_reads_stays(data: bytes) -> None:
    assert _verdict(data).refusal is None
    assert _mend(data) == (data, ())


@pytest.mark.parametrize(
    ("data", "mended", "problems"),
    [
        (b"1\n1\na 0 5\n", b"0\n1\na 0 5\n", ["the version must be 0"]),
        (b" 0\n1\na 0 5\n", b"0\n1\na 0 5\n", ["the version must be 0"]),
        (b"\xef\xbb\xbf0\r\n1\r\na 0 5\r\n", b"0\r\n1\r\na 0 5\r\n", ["the version must be 0"]),
        (b"0\n7\na 0 5\n", b"0\n1\na 0 5\n", ["not the number of entries"]),
        (b"0\n0\na 0 5\n", b"0\n1\na 0 5\n", ["not the number of entries"]),
        (b"0\n-1\na 0 5\n", b"0\n1\na 0 5\n", ["not the number of entries"]),
        (b"0\nx\na 0 5\n", b"0\n1\na 0 5\n", ["not the number of entries"]),
        (b"0\n3\n", b"0\n0\n", ["not the number of entries"]),
        (b"0\na 0 5\n", b"0\n1\na 0 5\n", ["the number of entries is missing"]),
        (b"a 0 5\n", b"0\n1\na 0 5\n", ["the version is missing", "the number of entries is missing"]),
        (b"1\na 0 5\n", b"0\n1\na 0 5\n", ["the version must be 0", "the number of entries is missing"]),
        (b"0\n1\n a 0 5\n", b"0\n1\na 0 5\n", ["the line starts with a blank"]),
        (b"0\n1\n\0\0a 0 5\n", b"0\n1\n\0\0a 0 5\n", []),
        (b"0\n1\na 0 5\n\n", b"0\n1\na 0 5\n", ["the line is empty"]),
        (b"0\n2\n\na 0 5\n", b"0\n1\na 0 5\n", ["not the number of entries", "the line is empty"]),
        (
            b"0\n1\na 0\n",
            b"0\n0\n",
            ["not the number of entries", "2 words, not a topic, a partition and an offset"],
        ),
        (
            b"0\n1\na 0 5 6\n",
            b"0\n0\n",
            ["not the number of entries", "4 words, not a topic, a partition and an offset"],
        ),
        (b"0\n1\na 0 x\n", b"0\n0\n", ["not the number of entries", "the offset is not a 64-bit number"]),
        (b"0\n1\na x 5\n", b"0\n0\n", ["not the number of entries", "the partition is not a 32-bit number"]),
        (b"0\n2\na 0 5\n\xff 0 6\n", b"0\n1\na 0 5\n", ["not the number of entries", "byte 0xff is not UTF-8"]),
        (bytes(9), b"0\n0\n", ["the version must be 0"]),
    ],
    ids=repr,
)
def test_every_row_of_the_grammar(data: bytes, mended: bytes, problems: list[str]) -> None:
    content, edits = _mend(data)
    assert content == mended
    assert [edit.problem for edit in edits] == problems
    assert _verdict(content).refusal is None


def test_a_line_of_any_length() -> None:
    content, edits = _mend(b"0\n2\na 0 5\n" + b"x" * 100_000 + b"\n")
    assert content == b"0\n1\na 0 5\n"
    assert edits[-1].problem == "100001 bytes without a line end"


def test_new_lines_stand_last_or_in_their_order() -> None:
    offsets: CheckpointMend[CheckpointOffset] = CheckpointMend(b"0\r\n1\r\na 0 5", parse_offset_entry)
    offsets.replace(offsets.lines[0], "a 0 7", "why")
    offsets.add("b 0 1", "new")
    content, edits = offsets.content()
    assert content == b"0\r\n2\r\na 0 7\nb 0 1\n"
    assert list(edits) == [
        LineEdit(2, "1", "2", "not the number of entries"),
        LineEdit(3, "a 0 5", "a 0 7", "why"),
        LineEdit(None, None, "b 0 1", "new"),
    ]
    assert edits[1:] == list(edits)[1:]
    epochs: CheckpointMend[CheckpointEpoch] = CheckpointMend(b"0\n2\n0 0\n5 90\n", parse_epoch_entry)
    epochs.add("3 40", "new")
    assert epochs.content(lambda entry: entry.leader_epoch)[0] == b"0\n3\n0 0\n3 40\n5 90\n"
    with pytest.raises(FieldError):
        epochs.add("three 40", "new")


def test_what_tells_that_entries_were_lost() -> None:
    def has_lost(data: bytes) -> bool:
        return CheckpointMend(data, parse_offset_entry).has_lost

    assert not any(map(has_lost, (b"", b"0\n", GOOD, b"0\n0\n", b"5\n1\na 0 5\n", b"0\n0\na 0 5\n")))
    assert all(map(has_lost, (b"0\n2\na 0 5\n", b"a 0 5\n", b"0\n1\nrubbish\n", b"\0\0\0", b"0\nx\na 0 5\n")))


_NAMES = st.sampled_from(["a", "orders", "__consumer_offsets", "x.y_z-1"])
_LINES = st.lists(st.tuples(_NAMES, st.integers(0, 99), st.integers(0, 2**63 - 1)), max_size=12)
_DAMAGE = st.one_of(
    st.tuples(st.just("cut"), st.integers(0, 400), st.integers(0, 40), st.just(b"")),
    st.tuples(st.just("put"), st.integers(0, 400), st.just(0), st.binary(min_size=1, max_size=30)),
    st.tuples(st.just("over"), st.integers(0, 400), st.integers(1, 30), st.binary(min_size=1, max_size=30)),
)


@given(_LINES, st.lists(_DAMAGE, max_size=4), st.sampled_from([b"\n", b"\r\n", b"\r"]))
@example([("a", 0, 5)], [("cut", 0, 4, b"")], b"\n")
@example([("a", 0, 0), ("a", 0, 0)], [("cut", 0, 2, b"")], b"\n")
def test_damage_at_random(
    lines: list[tuple[str, int, int]], damage: list[tuple[str, int, int, bytes]], end: bytes
) -> None:
    """Afterwards a broker reads the file, it reads every entry that it could have read, and a second repair is none."""
    data = encode_offset_checkpoint(lines).replace(b"\n", end)
    for _, position, size, bytes_there in damage:
        at = min(position, len(data))
        data = data[:at] + bytes_there + data[at + size :]
    content, edits = _mend(data)
    assert _verdict(content).refusal is None
    before, after = _entries(data), _entries(content)
    if len(set(lines)) == len(lines):
        assert [entry for entry in after if entry in before] == before
    following = iter(after)
    assert all(entry in following for entry in before), "each in its order"
    assert all(after.count(entry) <= max(before.count(entry), lines.count(entry)) for entry in before), "none made up"
    assert (content == data) == (not edits)
    assert _mend(content) == (content, ())
    for raw in data.splitlines(keepends=True)[2:]:
        if _entries(b"0\n1\n" + raw) and b"\v" not in raw and b"\f" not in raw and b"\x1c" not in raw:
            assert raw.rstrip(b"\r\n") in content


@given(st.lists(st.binary(max_size=12), max_size=8).map(b"\n".join))
def test_any_bytes(data: bytes) -> None:
    mend: CheckpointMend[CheckpointEpoch] = CheckpointMend(data, parse_epoch_entry)
    content, _ = mend.content()
    *_, verdict = read_epoch_checkpoint([content])
    assert isinstance(verdict, CheckpointVerdict)
    assert verdict.refusal is None or verdict.refusal.code == "negative-epoch"
