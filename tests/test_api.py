"""The public door: every name that it promises is there, typed names and lazy names are the same."""

from __future__ import annotations

import ast
from pathlib import Path

import kafkalog_core


def test_every_promised_name_can_be_imported() -> None:
    for name in kafkalog_core.__all__:
        assert getattr(kafkalog_core, name) is not None


def test_what_a_type_checker_sees_is_what_there_is() -> None:
    tree = ast.parse(Path(kafkalog_core.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.name
        for block in tree.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert typed == set(kafkalog_core.__all__) == set(kafkalog_core._HOME_OF)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(kafkalog_core, "no_such_name")
