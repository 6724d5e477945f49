"""The text checkpoints. What a broker refuses was seen in runs of Kafka 4.3.1 on such files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.format.checkpoint import (
    CheckpointEpoch,
    CheckpointOffset,
    CheckpointVerdict,
    encode_epoch_checkpoint,
    read_epoch_checkpoint,
    read_offset_checkpoint,
)
from kafkalog_core.format.textfile import Failure, MalformedLine

TOPICS = st.text(alphabet="abc019._-", min_size=1, max_size=20)
INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (31, 63))


def offsets(data: bytes) -> tuple[list[CheckpointOffset | MalformedLine], CheckpointVerdict]:
    *items, verdict = read_offset_checkpoint([data])
    assert isinstance(verdict, CheckpointVerdict)
    return items, verdict


def epochs(data: bytes) -> tuple[list[CheckpointEpoch | MalformedLine], CheckpointVerdict]:
    *items, verdict = read_epoch_checkpoint([data])
    assert isinstance(verdict, CheckpointVerdict)
    return items, verdict


def refusal(data: bytes, read=offsets) -> tuple[str, Failure] | None:
    found = read(data)[1].refusal
    return None if found is None else (found.code, found.failure)


def test_golden() -> None:
    # Written by Kafka 0.10.2.2.
    items, verdict = offsets(b"0\n1\nmixcomp 0 347\n")
    assert items == [CheckpointOffset(line=3, topic="mixcomp", partition=0, offset=347)]
    assert verdict == CheckpointVerdict(version=0, declared_count=1, entry_count=1, refusal=None)


def test_golden_epochs() -> None:
    # Written by Kafka 0.11.0.3.
    items, verdict = epochs(b"0\n2\n0 0\n1 145\n")
    assert items == [
        CheckpointEpoch(line=3, leader_epoch=0, start_offset=0),
        CheckpointEpoch(line=4, leader_epoch=1, start_offset=145),
    ]
    assert verdict.refusal is None


def test_golden_epochs_are_written_again() -> None:
    assert encode_epoch_checkpoint([(0, 0), (1, 145)]) == b"0\n2\n0 0\n1 145\n"
    assert encode_epoch_checkpoint([]) == b"0\n0\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0",
        b"0\n",
        b"0\n0\n",
        b"+0\n00\n",
        b"0\n1\nt 0 5",  # no line end
        b"0\n1\nt 0 5  \n",  # trailing blanks
        b"0\r\n1\r\nt\t0 \t5\r\n",
        b"0\n1\nt +0 -5\n",
        b"0\n2\nt 0 5\nt 0 6\n",  # the last one counts
        "0\n1\nt\u00e9\u00a0 0 5\n".encode(),
    ],
)
def test_files_that_brokers_take(data: bytes) -> None:
    items, verdict = offsets(data)
    assert verdict.refusal is None
    assert not any(isinstance(item, MalformedLine) for item in items)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"x\n0\n", ("malformed-line", Failure.IO)),
        (b" 0\n0\n", ("malformed-line", Failure.IO)),
        (b"\n0\n", ("malformed-line", Failure.IO)),
        (b"3\n0\n", ("unsupported-version", Failure.IO)),
        (b"0\n\n", ("malformed-line", Failure.IO)),
        (b"0\n-1\n", ("negative-count", Failure.RUNTIME)),
        (b"0\n2\nt 0 5\n", ("count-mismatch", Failure.IO)),
        (b"0\n0\nt 0 5\n", ("count-mismatch", Failure.IO)),
        (b"0\n2147483647\nt 0 5\n", ("count-mismatch", Failure.IO)),
        (b"0\n1\nt 0 5\n\n", ("malformed-line", Failure.IO)),
        (b"0\n1\n t 0 5\n", ("malformed-line", Failure.IO)),
        (b"0\n1\nt 0\n", ("malformed-line", Failure.IO)),
        (b"0\n1\nt 0 5 6\n", ("malformed-line", Failure.IO)),
        (b"0\n1\nt x 5\n", ("malformed-line", Failure.RUNTIME)),
        (b"0\n1\nt 0 9223372036854775808\n", ("malformed-line", Failure.RUNTIME)),
        (b"0\n1\nt\xff 0 5\n", ("invalid-utf8", Failure.IO)),
        (b"0\n1\n" + b"t" * 70000 + b" 0 5\n", ("malformed-line", Failure.IO)),
    ],
)
def test_files_that_brokers_refuse(data: bytes, expected: tuple[str, Failure]) -> None:
    assert refusal(data) == expected


def test_the_first_thing_wrong_decides() -> None:
    assert refusal(b"9\n7\nt x 5\nt\n") == ("unsupported-version", Failure.IO)
    assert refusal(b"0\n7\nt x 5\nt\n") == ("malformed-line", Failure.RUNTIME)


def test_what_can_be_read_of_a_bad_file_is_read() -> None:
    items, verdict = offsets(b"9\n?\npayments 0 5\norders\n\xff 0 1\norders 0 7\n")
    assert items[1] == CheckpointOffset(line=3, topic="payments", partition=0, offset=5)
    assert items[2] == MalformedLine(
        line=4,
        position=17,
        size_bytes=7,
        text="orders",
        problem="1 word, not a topic, a partition and an offset",
    )
    assert isinstance(items[3], MalformedLine)
    assert items[3].text == "\\xff 0 1"
    assert items[3].problem == "byte 0xff is not UTF-8"
    assert items[4] == CheckpointOffset(line=6, topic="orders", partition=0, offset=7)
    assert (verdict.version, verdict.declared_count, verdict.entry_count) == (9, None, 2)


def test_negative_epochs_stop_a_broker() -> None:
    assert refusal(b"0\n1\n-1 0\n", epochs) == ("negative-epoch", Failure.RUNTIME)
    assert refusal(b"0\n1\n0 -1\n", epochs) == ("negative-epoch", Failure.RUNTIME)
    assert refusal(b"0\n1\nzero 0\n", epochs) == ("malformed-line", Failure.RUNTIME)
    assert refusal(b"0\n1\n0 zero\n", epochs) == ("malformed-line", Failure.RUNTIME)
    assert refusal(b"0\n1\n0 1 2\n", epochs) == ("malformed-line", Failure.IO)
    assert refusal(b"0\n2\n5 0\n3 40\n", epochs) is None  # decreasing: repaired in memory


@given(st.lists(st.tuples(TOPICS, INT32, INT64)))
def test_round_trip(entries: list[tuple[str, int, int]]) -> None:
    data = f"0\n{len(entries)}\n" + "".join(f"{topic} {number} {offset}\n" for topic, number, offset in entries)
    items, verdict = offsets(data.encode())
    assert verdict.refusal is None
    assert [(item.topic, item.partition, item.offset) for item in items] == entries


def test_every_cut_gives_whole_entries_or_a_refusal() -> None:
    data = b"0\n2\norders 0 140\npayments 1 335\n"
    for length in range(len(data)):
        items, verdict = offsets(data[:length])
        whole = [item for item in items if isinstance(item, CheckpointOffset)]
        if length < 3 or length > data.rindex(b" ") + 1:  # nothing protects the digits of the last number
            assert verdict.refusal is None
        else:
            assert verdict.refusal is not None
        assert verdict.entry_count == len(whole)


@given(
    st.binary(max_size=200) | st.text(alphabet="0123456789 -+ab\n\r\t", max_size=60).map(str.encode), st.integers(1, 9)
)
def test_any_bytes(data: bytes, step: int) -> None:
    for read in (read_offset_checkpoint, read_epoch_checkpoint):
        *items, verdict = read([data])
        assert isinstance(verdict, CheckpointVerdict)
        assert verdict.refusal or not any(isinstance(item, MalformedLine) for item in items)
        assert [*items, verdict] == list(read([data[at : at + step] for at in range(0, len(data), step)]))
