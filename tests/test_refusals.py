"""Every refusal says what to do: it names a command, an option, or that the same command is to be run again."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

from tests.support.for_each import for_each
from tests.support.product import modules

KINDS: Final = frozenset({"RefusedError", "LockedError"})
ADVICE: Final = re.compile(
    r"kafkalog [a-z]+ |--[a-z]|run the same command again|name the log directory itself"
    r"|_WRITE_AGAIN|replan_advice|undo_command|_give_up|_finish_instead|_undo_first|obstacles|\.cure|cp -p",
    re.IGNORECASE,
)
"""Commands, options and sentences that say what to do, and the names of what puts them into a text."""
INTERNAL: Final = {
    "is not a file of ": "a planner's own error: every change is of the site that it plans for",
    "; nothing has been changed {problem}": "passes on the first obstacle of a plan, which says what to do",
    "is changed twice in one plan": "a planner's own error",
    "a file at the top of a log directory is replaced, not truncated": "a planner's own error",
}


@cache
def refusals() -> list[tuple[str, str]]:
    """Where a refusal is made, and the source of its text; of one that only passes another's text on, nothing."""
    found = []
    for path, text in modules().items():
        tree = ast.parse(text) if any(kind in text for kind in KINDS) else ast.Module([], [])
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS and node.args:
                message = node.args[0]
                if isinstance(message, ast.Constant | ast.JoinedStr):
                    place = f"{path}:{node.lineno}"
                    pieces = [
                        piece.value
                        for piece in ast.walk(message)
                        if isinstance(piece, ast.Constant | ast.JoinedStr)
                        if isinstance(piece, ast.Constant) and isinstance(piece.value, str)
                    ]
                    names = [ast.unparse(piece) for piece in ast.walk(message) if isinstance(piece, ast.FormattedValue)]
                    found.append((place, " ".join([*pieces, *names])))
    return found


@for_each(refusals, name=lambda refusal: refusal[0])
def test_a_refusal_says_what_to_do(refusal: tuple[str, str]) -> None:
    _, text = refusal
    assert ADVICE.search(text) or any(text.startswith(each) for each in INTERNAL), text


def test_there_are_refusals() -> None:
    assert len(refusals()) > 40
