"""A real broker starts on the disk on which it died, once the commands that kafkalog prints have been run.

It starts after the walk from every error in the catalogue of findings too, and the walk loses no batch that the broker
would have kept without it, or that is before the place at which it died.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration import walks
from tests.integration.releases import QUIET, broker_of
from tests.support.corpus.walking import Walk

if TYPE_CHECKING:
    from tests.support.corpus.faults import Fault
    from tests.support.corpus.walking import Begin

_EACH = 15
"""One walk in this many is gone here; `walks.txt` has all of them."""
WALKED: Final = walks.begun()[::_EACH]
_SOME: Final = frozenset({"batch.gap", "txn.plain-inside", "segment.swap-worse"})
"""The codes that are walked from here; `walked_codes.txt` has all of them."""
_OVERLAPPING: Final = Path(__file__).parents[2] / "fixtures" / "field" / "c17-overlapping-wrappers.tgz"


@pytest.mark.java
@pytest.mark.parametrize(
    ("fault", "begin"), [pytest.param(*each, id=f"{each[1]}-{each[0].path.split('/', 2)[2]}") for each in WALKED]
)
def test_the_broker_starts(libs: Path, corpus: Path, tmp_path: Path, fault: Fault, begin: Begin) -> None:
    walk, problem = walks.starts(libs, corpus, fault, tmp_path, begin)
    assert not problem, walk.steps


@pytest.mark.java
@pytest.mark.slow
def test_the_broker_starts_after_the_walk_from_an_error(libs: Path, corpus: Path, tmp_path: Path) -> None:
    found = {code: lay for code, _, lay in walks.planted(corpus, tmp_path / "faults") if code in _SOME}
    assert found.keys() == _SOME
    for code, lay in found.items():
        into = tmp_path / code
        into.mkdir()
        walk, problems = walks.walk_from(libs, code, lay, into)
        assert not problems, (code, walk.steps)


# --- one real disk, under brokers of several releases -----------------------------------------------------------------
@pytest.fixture
def overlapping(tmp_path: Path) -> Path:
    """A log directory of 0.8 or 0.9 with compressed messages whose first offsets overlap."""
    with tarfile.open(_OVERLAPPING) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / _OVERLAPPING.name.removesuffix(".tgz")


def test_the_walk_over_overlapping_messages_ends_at_a_release_that_starts(overlapping: Path) -> None:
    """The circle was: as-broker "does not start", at-damage "nothing to do", verify "loads the message"."""
    walk = Walk([overlapping], {"VERSION": "0.10.0"})
    before = {path.name: path.read_bytes() for path in (overlapping / "music-20").iterdir()}
    walk.go()
    assert [command.replace(str(overlapping), "DIR") for command, _ in walk.steps] == [
        "kafkalog verify DIR/music-20 --kafka 2.0"
    ]
    assert {path.name: path.read_bytes() for path in (overlapping / "music-20").iterdir()} == before


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "size_bytes"), [("0.8.2.2", 0), ("0.10.0.1", None), ("1.1.1", None), ("2.0.1", 47536), ("4.3.1", 47536)]
)
def test_what_real_brokers_do_with_overlapping_messages(
    overlapping: Path, tmp_path: Path, version: str, size_bytes: int | None
) -> None:
    """`size_bytes`: of the log after the start; null: the broker dies. `kafka/start` says the same of each release."""
    work = tmp_path / "work"
    work.mkdir()
    broker = broker_of(version, work)
    shutil.copytree(overlapping, broker.log_dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns("meta.properties"))
    broker.configure(QUIET)
    foreseen = walks.size_after_start(overlapping / "music-20", version)
    assert foreseen == size_bytes
    try:
        if size_bytes is None:
            with pytest.raises(AssertionError):
                broker.start()
            assert "Attempt to append an offset (1239444217)" in broker.output
            return
        broker.start()
    finally:
        broker.close()
    (log,) = broker.log_dir.glob("music-20*/*.log")
    assert log.stat().st_size == size_bytes
