"""Leader epochs as a broker keeps them while it loads and cuts a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochCache, EpochStart, read_epoch_file
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

NEW, OLD = Release(4, 3), Release(0, 11)


def cache(*entries: tuple[int, int], release: Release = NEW) -> EpochCache:
    return EpochCache([EpochStart(*entry) for entry in entries], release)


@pytest.mark.parametrize(
    ("entries", "loaded"),
    [
        ([(0, 0), (2, 40)], [(0, 0), (2, 40)]),
        ([(5, 0), (3, 40)], [(3, 40)]),  # what a later entry contradicts goes, from the end
        ([(0, 0), (1, 30), (2, 20)], [(0, 0), (2, 20)]),
        ([(0, 0), (0, 10)], [(0, 0)]),  # the same epoch again, behind
        ([(1, 10), (1, 5)], [(1, 5)]),  # the same epoch again, before
    ],
)
def test_loading_mends_what_contradicts(entries: list[tuple[int, int]], loaded: list[tuple[int, int]]) -> None:
    assert list(cache(*entries).entries) == loaded
    assert list(cache(*entries, release=OLD).entries) == entries, "0.11 takes the file as it is"


def test_only_a_greater_epoch_is_assigned() -> None:
    epochs = cache((0, 0), (3, 50))
    for entry in ((3, 60), (2, 70), (-1, 80), (4, 90)):
        epochs.assign(EpochStart(*entry))
    assert list(epochs.entries) == [(0, 0), (3, 50), (4, 90)]
    epochs.assign(EpochStart(5, 40))
    assert list(epochs.entries) == [(0, 0), (5, 40)]


def test_0_11_takes_no_epoch_that_starts_before_the_latest() -> None:
    epochs = cache((0, 0), (3, 50), release=OLD)
    for entry in ((5, 40), (6, 50), (-1, 90)):
        epochs.assign(EpochStart(*entry))
    assert list(epochs.entries) == [(0, 0), (3, 50), (6, 50)]


def test_cuts_at_both_ends() -> None:
    epochs = cache((0, 0), (1, 10), (2, 20), (3, 30))
    epochs.truncate_end(30)
    assert list(epochs.entries) == [(0, 0), (1, 10), (2, 20)]
    epochs.truncate_start(15)
    assert list(epochs.entries) == [(1, 15), (2, 20)], "the epoch of the start starts there"
    epochs.truncate_start(5)
    assert list(epochs.entries) == [(1, 15), (2, 20)]
    epochs.clear()
    epochs.truncate_end(0)
    epochs.truncate_start(9)
    assert epochs.entries == ()


def test_the_file(tmp_path: Path) -> None:
    assert read_epoch_file(str(tmp_path)) is None
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(build.epoch_checkpoint([(0, 0), (2, 40)]))
    file = read_epoch_file(str(tmp_path))
    assert file is not None
    assert (file.entries, file.refusal) == (((0, 0), (2, 40)), None)
    path.write_bytes(build.epoch_checkpoint([(0, 0)], count=7))
    file = read_epoch_file(str(tmp_path))
    assert file is not None
    assert file.refusal is not None
