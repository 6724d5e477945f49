"""Every refusal says what to do: it has ways out, or names what is to be done in its sentence."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

from click.testing import CliRunner

from kafkalog_cli.command import error_lines
from kafkalog_cli.main import cli
from kafkalog_core.errors import RefusedError
from kafkalog_core.refusals import Refusal, Refused, WayOut, leave_out, of_partitions, place_of
from tests.support.figures import DEMO
from tests.support.for_each import for_each
from tests.support.product import modules

KINDS: Final = frozenset({"RefusedError", "LockedError"})
ADVICE: Final = re.compile(
    r"run the same command again|name the log directory itself|name another|\.cure", re.IGNORECASE
)
"""Sentences that say what to do, and the names of what puts them into a text."""
COMMAND: Final = re.compile(r"\bkafkalog [a-z]+ |--[a-z]|\bcp -p|`")
"""What is a way out of its own, not a part of a sentence."""
INTERNAL: Final = {
    "is not a file of ": "a planner's own error: every change is of the site that it plans for",
    "is changed twice in one plan": "a planner's own error",
    "a file at the top of a log directory is replaced, not truncated": "a planner's own error",
    "has nothing to apply; omit --apply to see the plan": "of the library: no command applies an empty plan",
}
WITHOUT_COMMAND: Final = {
    " would give it ": "only the user knows as whom the run was made",
    "this release of kafkalog spark ": "which directory is meant, only the user knows",
}


@cache
def refusals() -> list[tuple[str, str]]:
    """Where a refusal is made of a text alone, and the source of that text."""
    found = []
    for path, text in modules().items():
        tree = ast.parse(text) if any(kind in text for kind in KINDS) else ast.Module([], [])
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS and node.args:
                message = node.args[0]
                if isinstance(message, ast.Constant | ast.JoinedStr):
                    pieces = [
                        piece.value
                        for piece in ast.walk(message)
                        if isinstance(piece, ast.Constant) and isinstance(piece.value, str)
                    ]
                    names = [ast.unparse(piece) for piece in ast.walk(message) if isinstance(piece, ast.FormattedValue)]
                    found.append((f"{path}:{node.lineno}", " ".join([*pieces, *names])))
    return found


@for_each(refusals, name=lambda refusal: refusal[0])
def test_a_refusal_without_ways_out_says_what_to_do_in_its_sentence(refusal: tuple[str, str]) -> None:
    _, text = refusal
    if any(text.startswith(each) for each in INTERNAL):
        return
    known = any(each in text for each in WITHOUT_COMMAND)
    assert known or ADVICE.search(text), text
    assert known or not COMMAND.search(text), f"a command is a way out, on a line of its own: {text}"


def test_there_are_refusals_of_both_kinds() -> None:
    assert len(refusals()) > 10
    assert sum(text.count("Refusal(") for text in modules().values()) > 50


def test_the_lines_of_a_refusal() -> None:
    ways = (WayOut("wait"), WayOut("name it", "kafkalog dump 'a b'"), WayOut("state it", options="--kafka VERSION"))
    refusal = Refusal("it is unknown", ways)
    assert refusal.headline == "it is unknown. Wait, name it, or state it:"
    assert refusal.steps == (
        ("it is unknown.", None),
        ("Wait.", None),
        ("Name it:", "kafkalog dump 'a b'"),
        ("State it:", "--kafka VERSION"),
    )
    assert Refusal("it is unknown", ways[:2]).steps == (("it is unknown. Wait, or name it:", "kafkalog dump 'a b'"),)
    assert str(refusal) == "it is unknown. Wait; or name it: kafkalog dump 'a b'; or state it: --kafka VERSION"
    whole = refusal.completed(lambda options: f"kafkalog roll d {options}")
    assert error_lines(RefusedError(whole, path="x\ny")) == [
        "kafkalog: x\\ny: it is unknown. Wait, name it, or state it:",
        "  kafkalog dump 'a b'",
        "  kafkalog roll d --kafka VERSION",
    ]
    assert Refusal("it is unknown").headline == str(Refusal("it is unknown")) == "it is unknown"
    assert Refusal("Is it?", ways[:1]).headline == "Is it? Wait"
    assert Refusal("a", ways[:1]).before_any_change().before_any_change().reason == "a; nothing has been changed"
    assert leave_out([None]).options is None


def test_partitions_are_refused_together() -> None:
    """Whoever leaves a topic out, and runs the command again, is not told of the next one."""
    some = [
        Refused(f"d/{name}-0/x.log", f"{name}-0", name, why) for name, why in (("a", "no"), ("b", "no"), ("c c", "so"))
    ]
    every = of_partitions(some, " to write the others")
    assert error_lines(RefusedError(every.completed(lambda options: f"kafkalog roll d {options}"), path="d")) == [
        "kafkalog: d: 3 partitions: a-0, b-0: no; c c-0: so. Leave the topics out to write the others:",
        "  kafkalog roll d --exclude a --exclude b --exclude 'c c'",
    ]
    assert (place_of(some, "d"), place_of(some[:1], "d")) == ("d", "d/a-0/x.log")
    assert of_partitions(some[:1]).headline == "no. Leave the topic out:"


def test_the_command_that_is_refused_is_completed() -> None:
    """An option that can be given once is replaced, and a secret is never repeated."""
    line = ["retain", "--now", "2020-01-01", "--topic", "AWS_SECRET", "--topic", "orders", str(DEMO)]
    result = CliRunner().invoke(cli, line, prog_name="kafkalog")
    assert (result.exit_code, result.stderr.splitlines()[1:]) == (3, ["  --now TIME"])
    del line[3:5]
    result = CliRunner().invoke(cli, line, prog_name="kafkalog")
    whole = f"  kafkalog retain --topic orders {DEMO} --now TIME"
    assert (result.exit_code, result.stderr.splitlines()[1:]) == (3, [whole])
