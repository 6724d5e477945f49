"""A real 4.3.1 broker starts at once on disks that `recover` has repaired, and serves what was promised.

`recovered_starts.txt` has every fault and crash of the corpus; these are one or two of a kind, made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.integration import recovered_starts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

KINDS: Final = (
    "unclean/log.flip.value.last",
    "unclean/log.flip.value.below",
    "clean/log.flip.value.first_segment",
    "unclean/log.flip.magic.below",
    "unclean/log.base_offset.lower.below",
    "unclean/log.base_offset.higher.last",
    "unclean/log.length.huge.last",
    "unclean/log.tail.duplicate_batch",
    "clean/log.tail.zeros_small",
    "clean/log.all_zeros.last",
    "unclean/leftover.swap_shorter.below",
    "unclean/leftover.swap_corrupt.below",
    "unclean/log_start.beyond_end",
    "clean/epochs.malformed_line",
    "unclean/index.missing.below",
    "unclean/snapshot.missing.all",
    "unclean/segment.overlapping_copy.above",
    "unclean/segment.missing.above",
    "unclean/recovery_point.malformed_line",
    "unclean/txn.log.flip.value.last",
)
"""Faults of the corpus, one or two of a kind."""
_MISPLACED: Final = 3
"""Records of one batch of the faults."""


@pytest.mark.parametrize("name", KINDS)
def test_a_broker_starts_at_once_and_serves_every_readable_record(corpus: Path, tmp_path: Path, name: str) -> None:
    name = f"modern/07-faults-4.3.1/{name}"
    row, log = recovered_starts.cases()[name](corpus, tmp_path)
    assert recovered_starts.recoveries(log) == []
    assert any("clean shutdown file was found" in line for line in log.splitlines())
    assert row == recovered_starts.table()[name]
    assert row.is_right
    # what recover did not keep of what could be read before, of these kinds: a batch with a wrong base offset
    assert row.readable - row.promised <= _MISPLACED
