"""What a scan hands over to the replay comes out as it went in, by whatever way it travels."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import WorkerLostError
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.kafka.rules.producer_anomalies import Marker
from kafkalog_core.ops.verify import work
from kafkalog_core.ops.verify.work import ROW_BYTES, Piece, Spool, replay_pieces

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize("memory_bytes", [0, 100, 10**9])
@pytest.mark.parametrize("has_directory", [True, False])
def test_a_spool_gives_back_what_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_bytes: int, has_directory: bool
) -> None:
    monkeypatch.setattr(work, "_MEMORY_BYTES", memory_bytes)
    with Spool(str(tmp_path) if has_directory else None) as spool:
        hand_over(spool)
        spooled = pickle.loads(pickle.dumps(spool.spooled()))  # noqa: S301 - made here
    assert bool(spooled.packed) == (not has_directory and memory_bytes < 10**9)
    assert bool(os.listdir(tmp_path)) == (has_directory and memory_bytes < 10**9)
    chain = Listening()
    spooled.replay(chain)
    assert chain.heard == heard_directly()
    assert not os.listdir(tmp_path)


def test_pieces_are_values() -> None:
    piece = Piece.of(run_of(4), {3: Marker(1, 2)}, [1])
    assert len(piece.cells) == 4 * ROW_BYTES
    chain = Listening()
    replay_pieces([piece, Piece(0, b"", {})], chain)
    assert chain.heard == [
        (4, [[0, 1, 2, 3], [0, 2, 4, 6], [0, 3, 6, 9]], {3: Marker(1, 2)}, (1,)),
        "hole",
    ]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_MEMORY_BYTES", 0)
    with Spool(str(tmp_path / "none")) as spool, pytest.raises(WorkerLostError, match="TMPDIR"):
        hand_over(spool)
