"""Whether any test of a module can have the marks that `-m` asks for, by the text of the module."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from _pytest.mark.expression import Expression

NAMES: Final = ("corpus", "java", "live", "slow", "spark")
"""All marks that this project's tests are chosen by."""
_BY_PLACE: Final = frozenset({"spark"})  # `tests/spark/conftest.py` gives it to what is there


def may_match(text: str, expression: str) -> bool:
    """Whether the expression is true of some set of marks that a test of the module may have.

    A mark whose name is not in the text is of none of its tests, `pytestmark` is of all of them, and of any other one
    nothing is known.
    """
    compiled = Expression.compile(expression)
    choices = [_choices(name, text) for name in NAMES]
    for given in product(*choices):
        marks = {name for name, is_given in zip(NAMES, given, strict=True) if is_given}
        if compiled.evaluate(lambda name, marks=marks, **_: name in marks):  # type: ignore[misc]
            return True
    return False


def _choices(name: str, text: str) -> tuple[bool, ...]:
    if f"\npytestmark = pytest.mark.{name}\n" in text:
        return (True,)
    if name in _BY_PLACE or re.search(rf"\b{name}\b", text):
        return (False, True)
    return (False,)
