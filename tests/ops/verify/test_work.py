"""What a scan hands over to the replay comes out as it went in, by whatever way it travels."""

from __future__ import annotations

import pytest

from kafkalog_core.engine.spool import send, sent
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.kafka.rules.producer_anomalies import Marker
from kafkalog_core.ops.verify.verdict import SegmentVerdict
from kafkalog_core.ops.verify.work import ROW_BYTES, BatchSender, SentRun, replay_runs


class Listening:
    """A chain that writes down what it gets."""

    def __init__(self):
        self.heard = []

    def replay(self, batches, markers, holes=()):
        columns = [batches.column(name).tolist() for name in ("position", "producer_id", "base_sequence")]
        self.heard.append((batches.count, columns, dict(markers), tuple(holes)))

    def hole(self):
        self.heard.append("hole")


def run_of(count: int, start: int = 0) -> BatchColumns:
    batches = BatchColumns(count + 3)
    batches.count = count
    for factor, name in enumerate(("position", "producer_id", "base_sequence"), 1):
        for row in range(count):
            batches.column(name)[row] = (start + row) * factor
    return batches


def hand_over(chain) -> None:
    """Runs of different lengths, markers, and holes in a run and between runs."""
    chain.replay(run_of(3), {1: Marker(0, 7), 2: Marker(1, -1)})
    chain.hole()
    chain.hole()
    chain.replay(run_of(5000, 17), {}, [4, 9])
    chain.replay(run_of(1, -5), {})


def heard_directly() -> list[object]:
    chain = Listening()
    hand_over(chain)
    return [each for index, each in enumerate(chain.heard) if each != "hole" or chain.heard[index - 1] != "hole"]


class Kept:
    """The stream of a task, and its output."""

    def __init__(self):
        self.written = []

    def write(self, data):
        self.written.append(bytes(data))

    def data(self):
        return iter(self.written)

    def result(self):
        return None


def verdict_of_a_segment() -> SegmentVerdict:
    figures = dict.fromkeys(("base_offset", "size_bytes", "mtime_ms", "batches", "records", "gap_count"), 7)
    unknown = dict.fromkeys(("first_offset", "last_offset", "first_timestamp_ms", "max_timestamp_ms"))
    empty = dict.fromkeys(("formats", "epochs", "gaps", "damage", "lost_offsets", "findings"), ())
    return SegmentVerdict(path="x", is_last=False, is_thinned=False, **figures, **unknown, **empty)  # type: ignore[arg-type]


@pytest.mark.parametrize("together", [1, 3])
def test_what_is_sent_comes_out_as_it_went_in(together: int) -> None:
    """With what follows its verdict; what is written together comes in one piece or in several."""
    stream, chain = Kept(), Listening()
    hand_over(BatchSender(stream))
    verdict = verdict_of_a_segment()
    send(stream, verdict)
    hand_over(BatchSender(stream))
    stream.written = [b"".join(stream.written[at : at + together]) for at in range(0, len(stream.written), together)]
    items = sent(stream)
    assert replay_runs(items, chain) == verdict
    assert chain.heard == heard_directly()
    assert replay_runs(items, chain) is None
    assert chain.heard == heard_directly() * 2


def test_pieces_are_values() -> None:
    piece = SentRun.of(run_of(4), {3: Marker(1, 2)}, [1])
    assert len(piece.cells) == 4 * ROW_BYTES
    chain = Listening()
    replay_runs([piece, SentRun(0, b"", {})], chain)
    assert chain.heard == [
        (4, [[0, 1, 2, 3], [0, 2, 4, 6], [0, 3, 6, 9]], {3: Marker(1, 2)}, (1,)),
        "hole",
    ]
