"""What the interpreted twin runs, by runs of pytest on a small file: all that reaches a kernel, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reaching import Chosen, Watch

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import multiprocessing
import subprocess
import sys
import pytest
from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.kernels import walk
from tests.twins import TWINS, twin, walked

def test_reaches_nothing(): pass
def test_calls_a_kernel(): walked(b"")
def test_takes_it_from_the_package(): walk(b"", 0, 0, 0, 0, 0, False, BatchColumns(1))
@pytest.fixture(scope="module")
def batches(): return walked(b"")
def test_has_a_fixture_that_calls_one(batches): pass
def test_begins_a_process(): subprocess.run([sys.executable, "-c", ""], check=True)
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_begins_a_worker(method):
    process = multiprocessing.get_context(method).Process(target=print)
    process.start()
    process.join()
@pytest.mark.parametrize("twin", ["compiled", "interpreted"])
def test_has_a_twin(twin): walked(b"")
def test_calls_all_twins(): [twin(name).walk(b"", 0, 0, 0, 0, 0, False, BatchColumns(1)) for name in TWINS]
"""
REACHED = {
    "test_reaches_nothing": False,
    "test_calls_a_kernel": True,
    "test_takes_it_from_the_package": True,
    "test_has_a_fixture_that_calls_one": True,
    "test_begins_a_process": "process",
    "test_begins_a_worker[fork]": "process",
    "test_begins_a_worker[forkserver]": "process",
    "test_has_a_twin[compiled]": False,
    "test_has_a_twin[interpreted]": True,
    "test_calls_all_twins": False,
}


def _run(
    directory: Path, plugin: type[Watch | Chosen], *options: str, share: str = ""
) -> subprocess.CompletedProcess[str]:
    directory.joinpath("test_some.py").write_text(TESTS)
    directory.joinpath("conftest.py").write_text(
        "from pathlib import Path\n"
        "from tests import reaching\n"
        "def pytest_configure(config):\n"
        f"    config.pluginmanager.register(reaching.{plugin.__name__}(Path('reached.json')))\n"
    )
    directory.joinpath("pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--rootdir", str(directory), *options]
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "KAFKALOG_SHARE": share}
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, env=environment)


def _tell(directory: Path, reached: dict[str, bool | str]) -> None:
    said = {f"test_some.py::{name}": reaches for name, reaches in reached.items()}
    directory.joinpath("reached.json").write_text(json.dumps(said))


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_what_a_run_says_of_each_test(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = _run(tmp_path, Watch, *workers)
    said = json.loads(tmp_path.joinpath("reached.json").read_text())
    assert {name.partition("::")[2]: reaches for name, reaches in said.items()} == REACHED, done.stdout


def test_only_what_reaches_a_kernel_runs_again(tmp_path: Path) -> None:
    _tell(tmp_path, {"test_reaches_nothing": False, "test_calls_a_kernel": True, "test_begins_a_process": False})
    done = _run(tmp_path, Chosen)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "test_calls_a_kernel PASSED" in done.stdout
    assert "test_reaches_nothing " not in done.stdout
    assert f"{len(REACHED) - 2} passed, 2 deselected" in done.stdout


def test_of_those_that_only_begin_a_process_a_part_runs_again(tmp_path: Path) -> None:
    begin = ("test_reaches_nothing", "test_begins_a_process")
    _tell(tmp_path, {"test_calls_a_kernel": True} | dict.fromkeys(begin, "process"))
    runs = [_run(tmp_path, Chosen, share=f"{part}/2") for part in range(2)]
    assert {run.returncode for run in runs} == {pytest.ExitCode.OK}
    assert all("test_calls_a_kernel PASSED" in run.stdout for run in runs)
    for name in begin:
        assert sum(f"{name} PASSED" in run.stdout for run in runs) == 1


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_one_that_reaches_a_kernel_and_does_not_run_again_fails_the_run(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    _tell(tmp_path, {"test_calls_a_kernel": True, "test_is_lost": True})
    done = _run(tmp_path, Chosen, *workers)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    head, _, lost = done.stdout.partition("have not run with the interpreted twin ")
    assert f"{len(REACHED)} passed" in done.stdout
    assert "test_some.py::test_is_lost" in lost, head
    assert "test_some.py::test_calls_a_kernel" not in lost
