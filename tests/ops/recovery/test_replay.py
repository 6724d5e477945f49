"""What a broker reads of a log beside recovery: sizes lead it, and nothing else that stands in a header."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.producing.producers import ProducerStates
from kafkalog_core.ops.recovery.replay import end_of_log, replay_producers
from tests.ops.truncating import batch

if TYPE_CHECKING:
    from pathlib import Path

SHORT = struct.pack(">qiib", 5, 30, 0, 2) + bytes(25)
"""Less than the header of a batch of magic 2, with a size that leads on."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A short header between two batches."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch(0, 4) + SHORT + batch(6, 9, producer_id=7, producer_epoch=0, base_sequence=0))
    return path


def test_a_header_that_is_too_short_does_not_end_the_log(log: Path) -> None:
    assert end_of_log(str(log), log.stat().st_size, 0, None) == (10, None)


def test_producers_behind_it_are_read(log: Path) -> None:
    states = ProducerStates(sequences="unchecked")
    assert replay_producers(str(log), log.stat().st_size, states) is None
    assert states.count == 1


@pytest.mark.parametrize(("length", "is_end"), [(13, False), (-1, False), (10**6, True)])
def test_a_size_that_leads_nowhere(log: Path, length: int, is_end: bool) -> None:
    log.write_bytes(batch(0, 4) + SHORT + struct.pack(">qi", 5, length) + bytes(60) + batch(6, 9))
    end_offset, obstacle = end_of_log(str(log), log.stat().st_size, 0, None)
    assert end_offset == 5
    assert obstacle is not None
    assert (obstacle.position, obstacle.is_end) == (len(batch(0, 4) + SHORT), is_end)
