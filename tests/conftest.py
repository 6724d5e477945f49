"""What all tests share: the corpus of real log directories, whole or in part, and CI's rules about skips and twins."""

from __future__ import annotations

import codecs
import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import marks, skips
from tests.support.corpus import archives
from tests.support.corpus.tree import Tree
from tests.support.installing import one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_configure(config: pytest.Config) -> None:
    """Watch over skipped tests where CI asks for it; let children be interrupted, in the background too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("ascii", "latin-1", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "idna", "punycode"):
        codecs.lookup(name)  # one first looked up while a test leaves no free descriptor would never be found again
    examples = int(os.environ.get("KAFKALOG_EXAMPLES", "25"))  # of each property that asks for no number of its own
    too_slow = [HealthCheck.too_slow]
    settings.register_profile("any-machine", deadline=None, suppress_health_check=too_slow, max_examples=examples)
    settings.load_profile("any-machine")  # no test is a matter of time: machines are busy, a twin is interpreted
    if (guard := skips.guard()) is not None:
        config.pluginmanager.register(guard)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules in which no test can be asked for: listing tens of thousands that do not run takes a minute."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_") or not config.option.markexpr:
        return None
    return not marks.may_match(collection_path.read_text("utf-8"), config.option.markexpr) or None


def pytest_report_header() -> str:
    """Say which corpus the run uses."""
    return archives.describe()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The unpacked corpus, `old/<case>` and `modern/<case>`: the whole where KAFKALOG_CORPUS names it, or fixtures/.

    All tests of a session share it, so none may change it: the next one would find another log. So do the workers of
    pytest-xdist, of which the first one unpacks it.
    """
    place = tmp_path_factory.getbasetemp()
    directory = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "corpus"
    with one_at_a_time(directory):
        if not directory.exists():
            unpacking = directory.with_name(f"unpacking-{os.getpid()}")
            archives.unpack(archives.source(), unpacking)
            unpacking.rename(directory)
    before = _state(directory)
    yield directory
    after = _state(directory)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert not changed, f"a test has changed what all tests share: {sorted(map(str, changed))[:10]}"


def _state(directory: Path) -> dict[Path, tuple[int, int, int]]:
    """Size, mtime and mode of every file and directory."""
    found = {path: path.lstat() for path in directory.rglob("*")}
    return {path: (status.st_size, status.st_mtime_ns, status.st_mode) for path, status in found.items()}


@pytest.fixture(scope="session")
def tree(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The unpacked corpus with its faults, which are put together on demand."""
    return Tree(corpus, tmp_path_factory.mktemp("faults"))
