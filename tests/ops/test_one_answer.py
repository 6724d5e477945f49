"""verify, retain, `truncate --as-broker`, dump, seek and serve give one answer about one disk.

The disks are those of public bug reports (`fixtures/field`), as they are and with seeded harm. `answers.py` says what
is compared; what real brokers do with such disks is in `tests/integration`.
"""

from __future__ import annotations

import random
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.ops.answers import contradictions
from tests.support.build import epoch_checkpoint
from tests.support.clusters import write_meta
from tests.support.mutating import mutate
from tests.support.truncating import write_log, write_tops

if TYPE_CHECKING:
    from collections.abc import Sequence

FIELD: Final = Path(__file__).parents[2] / "fixtures" / "field"
SEEDS: Final = range(200)
_FEW: Final = (10, 30, 36, 75, 101, 177, 205, 240, 310, 330, 425, 481, 551, 592, 692)
"""Seeds at which commands contradicted each other once, or nearly did."""
_OLD: Final = "c17-overlapping-wrappers"
_RELEASES: Final = {_OLD: ("0.10.0", "1.1", "4.3.1")}


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """The log directories of the reports, in a stable order."""
    into = tmp_path_factory.mktemp("field")
    for archive in sorted(FIELD.glob("*.tgz")):
        with tarfile.open(archive) as tar:
            tar.extractall(into, filter="data")
    return sorted({path.parents[1] for path in into.rglob("*.log")})


def _found(disk: Path, log_dir: Path) -> list[str]:
    name = next((name for name in _RELEASES if name in disk.parts), "")
    return [line for kafka in _RELEASES.get(name, ("4.3.1",)) for line in contradictions(log_dir, kafka)]


def test_the_disks_as_they_are(disks: Sequence[Path]) -> None:
    assert {name: found for disk in disks if (found := _found(disk, disk)) for name in [disk.name]} == {}


def _check(disks: Sequence[Path], seed: int, tmp_path: Path) -> None:
    disk = disks[seed % len(disks)]
    shutil.copytree(disk, tmp_path / "logs")
    told = mutate(tmp_path / "logs", random.Random(seed))
    assert _found(disk, tmp_path / "logs") == [], f"{disk.name}: {told}"


@pytest.mark.parametrize("seed", _FEW)
def test_a_few_harmed_disks(disks: Sequence[Path], seed: int, tmp_path: Path) -> None:
    _check(disks, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed not in _FEW])
def test_every_harmed_disk(disks: Sequence[Path], seed: int, tmp_path: Path) -> None:
    _check(disks, seed, tmp_path)


# --- batches that are not where their headers say ---------------------------------------------------------------------
_PLACES: Final = {
    "beyond a later epoch": ({0: [(0, 1), (2, 3), (40, 41)]}, [(0, 0), (1, 6)]),
    "beyond the next batch": ({0: [(0, 1), (20, 21), (4, 5), (6, 7)]}, [(0, 0)]),
    "back at the end": ({0: [(0, 1), (2, 3), (4, 5), (2, 3)]}, [(0, 0)]),
    "below the base": ({0: [(0, 1)], 4: [(0, 1), (4, 5), (6, 7)]}, [(0, 0)]),
    "below zero": ({0: [(0, 1), (-5, -3), (2, 3)]}, [(0, 0)]),
}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("name", _PLACES)
def test_misplaced_batches(tmp_path: Path, name: str, is_clean: bool) -> None:
    """verify reports them and serve returns none of them, whichever witness is against them."""
    segments, epochs = _PLACES[name]
    root = write_tops(tmp_path / "disk", is_clean=is_clean)
    write_meta(root)
    write_log(root / "t-0", segments)
    for index in (root / "t-0").glob("*.index"):
        index.write_bytes(b"")
    (root / "t-0" / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint(epochs))
    assert list(contradictions(root, "4.3.1")) == []
