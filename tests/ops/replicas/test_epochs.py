"""Where a follower cuts its log, by the examples of KIP-101 and KIP-279."""

from __future__ import annotations

import pytest

from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart, History, history, truncation_offset


def _history(end: int, *epochs: tuple[int, int]) -> History:
    return history([EpochStart(*each) for each in epochs], [], end)


@pytest.mark.parametrize(
    ("follower", "leader", "offset"),
    [
        (_history(2, (0, 0)), _history(1, (0, 0), (1, 1)), 1),  # KIP-101, scenario 1: written under 0, never replicated
        (_history(2, (0, 0)), _history(3, (0, 0), (1, 2)), 2),  # the follower has all of epoch 0
        (_history(30, (0, 0), (1, 10)), _history(40, (0, 0), (1, 10), (2, 20)), 20),
        (_history(20, (0, 0), (2, 15)), _history(20, (0, 0), (1, 12), (3, 18)), 12),  # KIP-279: fast leader changes
        (_history(12, (0, 0), (1, 10)), _history(15, (0, 0), (2, 10)), 10),
        (_history(10, (3, 5)), _history(20, (4, 8)), 8),
        (_history(10, (5, 5)), _history(20, (0, 0), (4, 8), (6, 12)), 5),
        (_history(10, (5, 0)), _history(10, (2, 0)), 0),
        (_history(10, (1, 0)), _history(4, (1, 0)), 4),
    ],
)
def test_the_follower_cuts_its_log(follower: History, leader: History, offset: int) -> None:
    assert truncation_offset(follower, leader) == offset


def test_epochs_that_nobody_knows_tell_nothing() -> None:
    assert truncation_offset(_history(10), _history(10, (1, 0))) is None
    assert truncation_offset(_history(10, (1, 0)), _history(10)) is None


def test_the_log_tells_what_the_file_does_not() -> None:
    known = history([EpochStart(0, 0), EpochStart(9, 99)], [EpochStart(0, 3), EpochStart(1, 5)], 10)
    assert known.epochs == (EpochStart(0, 0), EpochStart(1, 5))
    assert known.latest == 1
