"""Repairs of a log directory in which a partition is a symbolic link: nothing is changed there, unless it is named."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.refusing import commands_of
from tests.support.repairs import snapshot

if TYPE_CHECKING:
    from click.testing import Result

FIXTURES: Final = Path(__file__).resolve().parents[2] / "fixtures"
COMMANDS: Final = {
    "truncate": ("truncate", "--at-damage", "--kafka", "4.3"),
    "reindex": ("reindex", "--kafka", "4.3"),
    "retain": (
        *("retain", "--topic", "orders", "--now", "2025-10-16T09:09:45", "--kafka", "4.3", "--assume-defaults"),
    ),
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> str:
    """The command that has something to change."""
    name: str = request.param
    return name


@pytest.fixture
def root(tmp_path: Path, command: str) -> Path:
    """A copy of two partitions: orders-0 is a link to another directory, and orders-1 needs nothing."""
    directory = tmp_path / "data"
    outside = tmp_path / "outside"
    shutil.copytree(FIXTURES / ("damaged" if command == "truncate" else "demo") / "orders-0", outside / "orders-0")
    if command == "reindex":
        (outside / "orders-0" / "00000000000000000041.index").unlink()
    shutil.copytree(FIXTURES / "demo" / "orders-1", directory / "orders-1")
    (directory / "orders-0").symlink_to(outside / "orders-0")
    return directory


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(words[0]), "--ndjson", *map(str, words[1:])])


def names_of(root: Path) -> set[str]:
    """Everything in it, journals too."""
    return {str(path) for path in root.rglob("*")}


def test_what_a_link_leads_to_is_changed_only_if_it_is_named(root: Path, command: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "orders-0"
    old, names = snapshot(outside), names_of(tmp_path)
    said = run(*COMMANDS[command], root, "--apply")
    assert said.exit_code == 3
    assert f"{root}/orders-0 is a symbolic link to {outside}, and kafkalog changes nothing through" in said.stderr
    assert (snapshot(outside), names_of(tmp_path)) == (old, names)
    (advised,) = commands_of(said.stderr)
    said = run(*shlex.split(advised)[1:])
    assert said.exit_code == 0, said.stderr
    assert snapshot(outside) != old
    (run_name,) = [path.name for path in outside.iterdir() if path.name.startswith("kafkalog-undo-")]
    said = run("undo", root, outside, "--run", run_name, "--apply")
    assert said.exit_code == 0, said.stderr
    assert snapshot(outside) == old


@pytest.mark.parametrize("is_alone", [False, True])
def test_the_path_that_is_named_may_have_links(root: Path, command: str, tmp_path: Path, is_alone: bool) -> None:
    """A log directory that is a link, and a partition that is one."""
    outside = tmp_path / "outside" / "orders-0"
    old = snapshot(outside)
    (tmp_path / "alias").symlink_to(root)
    if is_alone:
        said = run(*COMMANDS[command], tmp_path / "alias" / "orders-0", "--apply")
    else:
        (root / "orders-0").unlink()
        outside.rename(root / "orders-0")
        outside.symlink_to(root / "orders-0")  # where the comparison below looks
        said = run(*COMMANDS[command], tmp_path / "alias", "--apply")
    assert said.exit_code == 0, said.stderr
    assert snapshot(outside) != old


def test_a_plan_in_a_file_names_no_more_than_its_command_line(root: Path, command: str, tmp_path: Path) -> None:
    """Its paths are those of partitions where topics were chosen, which is not to name them."""
    outside, file = tmp_path / "outside" / "orders-0", tmp_path / "plan.json"
    old = snapshot(outside)
    words = [*COMMANDS[command], *(() if command == "retain" else ("--topic", "orders"))]
    run(*words, root, "--plan-out", file)
    said = run("apply", file)
    assert said.exit_code == 3
    assert "is a symbolic link to" in said.stderr
    assert snapshot(outside) == old
    file.unlink()
    run(*words, root, root / "orders-0", "--plan-out", file)
    said = run("apply", file)
    assert said.exit_code == 0, said.stderr
    assert snapshot(outside) != old
