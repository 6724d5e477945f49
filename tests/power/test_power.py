"""Power is lost at any moment of a changing command: what is there can be finished or taken back, and nothing is lost.

The long run is `python -m tests.power`; here is a sample of it, and the proof that the checker finds a missing fsync.
"""

from __future__ import annotations

import ast
import os
import random
import tempfile
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import pytest

import kafkalog_core
from kafkalog_core.storage.changing import writer
from tests.power.checker import Checker
from tests.power.models import MODELS
from tests.power.mutants import EQUIVALENT, KILLED, Mutants, sync_calls
from tests.power.recorder import recorded
from tests.support.power_scenarios import SCENARIOS, Place, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

SHM = "/dev/shm"  # noqa: S108 -- a quick file system, and another one than that of the test's own directory
SAMPLE = 300
PARTIAL = Scenario("truncate", "partial", damaged=f"t-0/{20:020}.log")
NAMED = {str(scenario): scenario for scenario in SCENARIOS}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A quick file system, and another one where there are two."""
    if not os.path.isdir(SHM) or os.stat(SHM).st_dev == os.stat(tmp_path).st_dev:
        yield Place(tmp_path / "top")
        return
    top = Path(tempfile.mkdtemp(dir=SHM))
    yield Place(top, tmp_path / "other")
    rmtree(top)


def test_it_records_what_is_done_and_the_whole_of_it_is_the_last_state(place: Place) -> None:
    checker = Checker(Scenario("checkpoint"), place)
    kinds = [operation.kind for operation in checker.recording.operations]
    assert kinds.count("rename") == 2 + 2
    assert {"create", "write", "fsync", "link", "unlink"} <= {*kinds}
    whole = checker.recording.before.copy()
    for operation in checker.recording.operations:
        whole.apply(operation)
    assert whole.key() in {state.tree.key() for state in checker.states("strict")}
    assert whole.key() in {state.tree.key() for state in checker.states("ordered")}


def test_a_change_that_is_not_recorded_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(AssertionError, match=r"open .*file"), recorded({str(tmp_path): "first"}):
        (tmp_path / "file").write_bytes(b"new")


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["truncate", "compact"])
def test_a_few_states(place: Place, name: str, model: str) -> None:
    checker = Checker(Scenario(name), place)
    states = list(checker.states(model))
    assert len(states) > 100
    for state in random.Random(f"{name} {model}").sample(states, 6):
        assert checker.check(model, state) == []


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["apply", "undo"])
def test_a_few_states_of_indexes_that_make_way_on_a_full_disk(place: Place, phase: str) -> None:
    if place.other is None:
        pytest.skip("there is no second file system here, which holds the journal of a full one")
    checker = Checker(Scenario("reindex of wrong indexes", phase, "other", is_full=True), place)
    kinds = [operation.kind for operation in checker.recording.operations if operation.device == "first"]
    assert kinds.index("unlink") < kinds.index("write")
    states = list(checker.states("ordered"))
    for state in random.Random(phase).sample(states, 4):
        assert checker.check("ordered", state) == []


def test_a_few_states_of_an_undo_of_what_is_whole(place: Place) -> None:
    assert PARTIAL in SCENARIOS
    checker = Checker(PARTIAL, place)
    for state in random.Random(2).sample([*checker.states("strict")], 6):
        assert checker.check("strict", state) == []


def test_a_file_that_was_linked_since_is_on_the_disk_before_its_saved_tail_is_deleted(place: Place) -> None:
    checker = Checker(Scenario("truncate", "undo", linked=f"u-0/{20:020}.log"), place)
    last = len(checker.recording.operations) - 12
    states = [state for state in checker.states("strict") if int(state.label.partition(":")[0]) > last]
    assert len(states) > 20
    assert [problem for state in states for problem in checker.check("strict", state)] == []


def test_changes_that_are_made_ahead_have_no_intent_and_are_finished_by_the_same_command(place: Place) -> None:
    checker = Checker(Scenario("retain", journal="none", is_full=True), place)
    assert all(name.name != "intent.json" for operation in checker.recording.operations for name in operation.names)
    states = list(checker.states("strict"))
    for state in random.Random(1).sample(states, 6):
        assert checker.check("strict", state) == []


def test_no_two_scenarios_have_one_name() -> None:
    assert len(NAMED) == len(SCENARIOS)


# --- every fsync ------------------------------------------------------------------------------------------------------
def test_every_fsync_is_found_by_a_scenario_or_explained() -> None:
    names = [str(site) for site in sync_calls()]
    assert len({*names}) == len(names)
    assert {*names} == {*KILLED, *EQUIVALENT}
    assert not {*KILLED} & {*EQUIVALENT}
    assert {*KILLED.values()} <= {*NAMED}


def test_one_function_alone_asks_the_system_for_an_fsync() -> None:
    """The others of the project write no file of a broker: `outfile` writes what a command prints."""
    found = []
    for path in sorted(Path(kafkalog_core.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text if "SYNC" in text.upper() else "")
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            names = (node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute))
            found += [f"{path.name}:{function.name}" for name in names if name in {"fsync", "fdatasync", "F_FULLFSYNC"}]
    assert {*found} == {"writer.py:_sync"}


@pytest.mark.parametrize("name", ["truncate", "compact, undo", "checkpoint, prune", "compact --to"])
def test_every_fsync_that_is_asked_for_has_a_place_in_the_list(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    really = writer._sync
    monkeypatch.setattr(writer, "_sync", lambda number: (asked.append(number), really(number))[1])
    operations = Checker(NAMED[name], place).recording.operations
    syncs = [operation for operation in operations if operation.kind == "fsync"]
    assert 0 < len(syncs) <= len(asked)
    listed = sync_calls()
    for operation in syncs:
        assert any(site.leads_to(operation) for site in listed), operation.callers


# --- long -------------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_sample_of_the_long_run(place: Place) -> None:
    chosen = [each for each in SCENARIOS if place.other is not None or each.journal != "other"]
    each_gets = -(-SAMPLE // len(chosen) // len(MODELS))
    checked, problems = 0, []
    for scenario in chosen:
        checker = Checker(scenario, place)
        for model in MODELS:
            states = list(checker.states(model))
            for state in random.Random(f"{scenario} {model}").sample(states, min(each_gets, len(states))):
                problems += [str(problem) for problem in checker.check(model, state)]
                checked += 1
    assert problems == []
    assert checked >= SAMPLE


@pytest.mark.slow
@pytest.mark.parametrize("directories", [False, True], ids=["files", "directories"])
@pytest.mark.parametrize("scenario", [Scenario("truncate"), PARTIAL], ids=["truncate", "undo --partial"])
def test_it_finds_that_no_file_or_no_directory_is_fsynced(
    place: Place, scenario: Scenario, *, directories: bool
) -> None:
    assert Mutants(Checker(scenario, place)).without_all(directories=directories) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*KILLED.values()}))
def test_it_finds_a_fsync_that_is_left_out(place: Place, name: str) -> None:
    scenario = NAMED[name]
    if scenario.journal == "other" and place.other is None:
        pytest.skip("there is no second file system here that could hold the journal")
    mutants = Mutants(Checker(scenario, place))
    for site in sync_calls():
        if KILLED.get(str(site)) != name:
            continue
        if str(site).startswith("lock.py") and os.geteuid():
            continue  # the owner of a file differs from this user only for root
        assert mutants.without(site) is not None, site
