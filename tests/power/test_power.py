"""Power is lost at any moment of a changing command: what is there can be finished or taken back, and nothing is lost.

The long run is `python -m tests.power`; here is a sample of it, and the proof that the checker finds a missing fsync.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import pytest

from tests.power.checker import Checker
from tests.power.models import MODELS
from tests.power.mutants import found, sites
from tests.power.recorder import recorded
from tests.power.scenarios import SCENARIOS, Place, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

SHM = "/dev/shm"  # noqa: S108 -- another file system than that of the test's own directory
SAMPLE = 300
SITES = {str(site): site for site in sites()}
SPLIT = "truncate, prune, a partition on a file system of its own"
MUTANTS = {
    "writer.py:Disk.cut:1": "truncate",
    "commit.py:_take_back:1": "truncate, undo",
    "commit.py:_clear:1": SPLIT,
    "staging.py:Staging.prepare:1": "truncate",
    "staging.py:Staging._add:1": "retain, a file that the broker had not synced",
    "swap.py:Replacement._lay_down:2": "compact",
    "swap.py:Replacement._put_in_place:1": "compact",
    "swap.py:Replacement._sync:1": "compact",
    "new_dir.py:NewTree.sync:1": "roll --to",
    "lock.py:_BrokerLock._make:1": "truncate without a lock file",
}
"""A call that is left out, and the scenario in which the checker finds it."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    if not os.path.isdir(SHM) or os.stat(SHM).st_dev == os.stat(tmp_path).st_dev:
        yield Place(tmp_path / "top")
        return
    other = Path(tempfile.mkdtemp(dir=SHM))
    yield Place(tmp_path / "top", other)
    rmtree(other)


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


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["truncate", "compact"])
def test_a_few_states(place: Place, name: str, model: str) -> None:
    checker = Checker(Scenario(name), place)
    states = list(checker.states(model))
    assert len(states) > 100
    for state in random.Random(f"{name} {model}").sample(states, 6):
        assert checker.check(model, state) == []


@pytest.mark.slow
def test_a_sample_of_the_long_run(place: Place) -> None:
    chosen = [each for each in SCENARIOS if place.other is not None or each.journal != "other"]
    each_gets = -(-SAMPLE // (len(chosen) * len(MODELS)))
    problems = []
    for scenario in chosen:
        checker = Checker(scenario, place)
        for model in MODELS:
            states = list(checker.states(model))
            for state in random.Random(f"{scenario} {model}").sample(states, min(each_gets, len(states))):
                problems += [str(problem) for problem in checker.check(model, state)]
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_it_finds_that_no_file_or_no_directory_is_fsynced(place: Place, kind: str) -> None:
    assert found(Scenario("truncate"), place, kind=kind) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_it_finds_a_fsync_that_is_left_out(place: Place, name: str) -> None:
    scenario = next(each for each in SCENARIOS if str(each) == MUTANTS[name])
    if name.startswith("lock.py") and os.geteuid():
        pytest.skip("the owner of a file differs from this user only for root")
    assert found(scenario, place, site=SITES[name], models=["strict"]) is not None
