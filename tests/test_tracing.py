"""Which tests are measured."""

from __future__ import annotations

from tests.tracing import measured_ids


def test_of_each_function_one_case_is_measured() -> None:
    cases = [f"a.py::test_many[{number}]" for number in range(9)]
    few = ["a.py::test_one", "b.py::test_two[x]", "b.py::test_two[y]", "b.py::C::test_one"]
    assert measured_ids([*reversed(cases), *few]) == {cases[0], *few} - {"b.py::test_two[y]"}
