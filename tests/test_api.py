"""The public door: every name that it promises is there, typed names and lazy names are the same."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import kafkalog_core
from kafkalog_core import PlanRequest, SettingError, make_plan, resolve, sites_of
from tests.ops.checkpoint.dirs import NOW_MS, write_log_dir


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


@pytest.mark.parametrize("command", ["reindex", "truncate", "checkpoint", "retain", "compact"])
@pytest.mark.parametrize("options", [{}, {"kafka": None}, {"kafka": {}}, {"kafka": {"kafka": "4.3"}}])
def test_a_plan_needs_no_options(tmp_path: Path, command: str, options: dict[str, Any]) -> None:
    log_dir = write_log_dir(tmp_path / "disk", is_clean=True)
    (site,) = sites_of(resolve([str(log_dir)]))
    assert make_plan(command, PlanRequest(site=site, options=options, now_ms=NOW_MS)).plan.changes == ()


@pytest.mark.parametrize("command", ["reindex", "truncate", "checkpoint", "retain", "compact"])
@pytest.mark.parametrize(
    "kafka", [5, "4.3", [], {"release": "4.3"}, {"kafka": 4.3}, {"assignments": "a=b"}, {"topic_assignments": [1]}]
)
def test_an_option_that_is_none_is_named(tmp_path: Path, command: str, kafka: Any) -> None:
    """As in a file of a plan that somebody has edited."""
    log_dir = write_log_dir(tmp_path / "disk", is_clean=True)
    (site,) = sites_of(resolve([str(log_dir)]))
    with pytest.raises(SettingError, match="the option kafka is an object with these members"):
        make_plan(command, PlanRequest(site=site, options={"kafka": kafka}, now_ms=NOW_MS))


def test_what_repairs_take_give_and_raise_is_promised() -> None:
    """The types of all parameters and results of the functions of plan, apply and undo, and what they hold."""
    meant = {"Change", "Draft", "Journal", "Loss", "Outcome", "PrunePlan", "ReleaseGuess", "Scope", "SettingError"}
    meant |= {"SettingsRequest", "UndoPlan", "WriteError", "apply_prune", "infer_release", "plan_prune", "resume"}
    assert meant <= set(kafkalog_core.__all__)
