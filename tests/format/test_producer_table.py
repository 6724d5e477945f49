"""Open transactions of a replay: which began first, in whatever order they begin and end, at a bounded cost."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.kernels import constants as k
from tests.support.twins import twin


class Counted(list):
    """A list that counts how often it is looked into."""

    looks = 0

    def __getitem__(self, index):
        self.looks += 1
        return super().__getitem__(index)


def tables(count: int) -> tuple[Counted, list[int], list[int]]:
    """Room for that many producers that have no transaction open."""
    return Counted([-1] * (k.P_SIZE * count)), [0] * k.G_SIZE, [0] * (k.E_SIZE * (count + 1))


ORDERS = {
    "ascending": range,
    "descending": lambda count: range(count, 0, -1),
    "from both ends": lambda count: [index if index % 2 else 2 * count - index for index in range(count)],
    "by chance": lambda count: Random(1).sample(range(count), count),
    "all alike": lambda count: [5] * count,
}


@pytest.mark.parametrize("order", ORDERS)
def test_no_order_is_dear(order: str) -> None:
    """So many looks a transaction as its number has digits, not as there are others."""
    kernel = twin("interpreted").producers
    count = 3000
    rows, state, ended = tables(count)
    for number, offset in enumerate(ORDERS[order](count)):
        kernel.begin_transaction(rows, k.P_SIZE * number, offset, state)
    assert state[k.G_OPEN] == count
    for number in range(count):
        kernel.end_transaction(rows, k.P_SIZE * number, 10**6, False, state, ended)
        state[k.G_ENDED] = 0
    assert state[k.G_OPEN] == 0
    assert rows.looks <= 12 * count * count.bit_length()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=60))
def test_the_first_open_one_is_known(steps):
    """Each step begins the transaction of a producer at an offset, or ends it."""
    kernel = twin("interpreted").producers
    rows, state, ended = tables(10)
    begun: dict[int, int] = {}
    for number, offset in steps:
        at = k.P_SIZE * number
        if number in begun:
            first = begun.pop(number)
            kernel.end_transaction(rows, at, 100, True, state, ended)
            stable = min(begun.values(), default=101)
            assert ended[: k.E_SIZE] == list(array("q", [rows[at + k.P_PID], first, 100, True, stable]))
            state[k.G_ENDED] = 0
        else:
            begun[number] = offset
            kernel.begin_transaction(rows, at, offset, state)
        assert state[k.G_OPEN] == len(begun)
