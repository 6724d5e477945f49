"""A run that stopped between its files: `verify` says it first, with the commands, which lead to a clean directory."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from tests.support.power_player import command
from tests.support.power_scenarios import Place, Scenario, killed, write_patient
from tests.support.repairs import snapshot

if TYPE_CHECKING:
    from pathlib import Path


TRUNCATE = Scenario("truncate")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A log directory in which a truncate was killed between its files."""
    place, other = Place(tmp_path / "top"), Place(tmp_path / "other")
    for each in (place, other):
        each.top.mkdir()
        write_patient(TRUNCATE, each)
    with killed(0.85, lambda: command(*TRUNCATE.arguments(other))):
        command(*TRUNCATE.arguments(place))
    return place


def _first_row(output: str) -> str:
    """The first JSON line; messages may be before it."""
    return next(line for line in output.splitlines() if line.startswith("{"))


def test_it_comes_first_as_an_error_with_the_commands(place: Place) -> None:
    root = str(place.root)
    for path in (root, f"{root}/t-0"):
        status, output = command("verify", path, "--output", "ndjson")
        assert status == 4
        first = _first_row(output)
        assert '"code":"dir.interrupted"' in first
        assert '"severity":"error"' in first
        assert "An earlier run did not finish: kafkalog truncate (kafkalog-undo-" in first
        assert f"kafkalog apply --resume {root} or kafkalog undo {root} --run kafkalog-undo-" in first
        assert f'"next_command":"kafkalog apply --resume {root}"' in first


def test_a_table_shows_it_first(place: Place) -> None:
    _, output = command("verify", str(place.root), "--output", "table")
    lines = output.splitlines()
    assert lines[lines.index("Findings") + 1].startswith("ERROR   dir.interrupted: An earlier run did not finish")


def test_its_command_ends_it(place: Place) -> None:
    assert command("apply", "--resume", str(place.root))[0] == 0
    assert "dir.interrupted" not in command("verify", str(place.root))[1]


def test_an_undo_that_stopped_names_the_undo(place: Place, tmp_path: Path) -> None:
    root = str(place.root)
    assert command("apply", "--resume", root)[0] == 0
    other = tmp_path / "third"
    write_patient(TRUNCATE, Place(other))
    assert command(*TRUNCATE.arguments(Place(other)))[0] == 0
    with killed(0.6, lambda: command("undo", str(Place(other).root), "--apply")):
        command("undo", root, "--apply")
    first = _first_row(command("verify", root, "--output", "ndjson")[1])
    assert "An earlier run did not finish: the undo of a kafkalog truncate" in first
    line = first.partition('"next_command":"kafkalog ')[2].partition('"')[0]
    assert line.startswith(f"undo {root} --run ")
    assert command(*shlex.split(line))[0] == 0
    assert "dir.interrupted" not in command("verify", root)[1]
    fresh = Place(tmp_path / "fourth")
    write_patient(TRUNCATE, fresh)
    assert {name: row[0] for name, row in snapshot(place.root).items()} == {
        name: row[0] for name, row in snapshot(fresh.root).items()
    }
