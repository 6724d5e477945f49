"""The guard over skipped tests, by a run of pytest on a small file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import SkipGuard, expected_skips

TESTS = """
import pytest
def test_passes(): pass
def test_is_skipped(): pytest.skip("no moon tonight")
@pytest.mark.xfail
def test_is_known_to_fail(): assert False
"""


def _run(directory: Path, listed: str) -> subprocess.CompletedProcess[str]:
    directory.joinpath("test_some.py").write_text(TESTS)
    directory.joinpath("conftest.py").write_text(
        "from tests.skips import SkipGuard, expected_skips\n"
        f"def pytest_configure(config): config.pluginmanager.register(SkipGuard(expected_skips({listed!r})))\n"
    )
    directory.joinpath("pytest.ini").write_text("[pytest]\n")
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(directory)]
    return subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_an_unexpected_skip_fails_the_run(tmp_path: Path) -> None:
    done = _run(tmp_path, "")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_some.py::test_is_skipped: no moon tonight" in done.stdout
    assert "test_is_known_to_fail:" not in done.stdout


def test_an_expected_skip_does_not(tmp_path: Path) -> None:
    done = _run(tmp_path, "# by night\n\ntest_some.py::*: the moon has to shine\n")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "unexpected" not in done.stdout


@pytest.mark.parametrize("line", ["test_some.py::test_is_skipped", "test_some.py::*: "])
def test_a_line_without_a_reason(line: str) -> None:
    with pytest.raises(AssertionError, match="no reason"):
        expected_skips(line)


def test_the_list_can_be_read() -> None:
    text = Path(__file__).with_name("expected_skips.txt").read_text()
    assert isinstance(SkipGuard(expected_skips(text)), SkipGuard)
