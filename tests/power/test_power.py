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
