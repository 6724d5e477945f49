"""Parts of a test with many cases: each case is in one of them, and what has few cases is in all."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.sharing import Share

MANY = [f"test_a.py::test_many[{number}]" for number in range(300)]
FEW = ["test_a.py::test_one", *(f"test_a.py::test_few[{number}]" for number in range(5))]


def test_every_case_is_in_one_part() -> None:
    first, *rest = sorted(MANY)
    parts = [Share(f"{part}/3").of(rest + FEW + [first]) for part in range(3)]
    assert frozenset.union(*parts) == {*MANY, *FEW}
    for one, other in combinations(parts, 2):
        assert one & other == {first, *FEW}
    assert all(60 < len(part) < 150 for part in parts)


@pytest.mark.parametrize("text", ["3/3", "-1/3", "1", "a/b", "0/0"])
def test_there_is_no_such_part(text: str) -> None:
    with pytest.raises(ValueError, match=r"no part|not enough|invalid literal"):
        Share(text)
