"""Every broken disk of the corpus, brought back by `recover`: nothing that can be read is lost, and any start passes.

`recovered.txt` has the records that are left of each disk, next to those that `reindex --as-broker` and the broker's
own start leave; `recover_differences.txt` has what is not brought back, with the reason. `python -m
tests.corpus.test_recover` writes the first one.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing.writer import Disk as Door
from tests.corpus import verifying
from tests.support.corpus import archives, brought_back, recovering
from tests.support.repairs import snapshot, undo_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.corpus.brought_back import Disk, Offsets

pytestmark = pytest.mark.corpus

DISKS: Final = brought_back.disks()
LINES: Final = verifying.lines("recover_differences.txt", 3)
FIGURED: Final = [disk for disk in DISKS if not disk.id.startswith("old/k07")]  # no start of 0.7 is simulated
TABLE: Final = Path(__file__).with_name("recovered.txt")
_HEAD: Final = """\
# Records (partition and offset, no markers) of every broken disk of the corpus: that can be read past damage before
# anything is done; that are left after `recover --only-copy --apply`, after `reindex --as-broker --apply`, and after
# nothing at all, each followed by an unclean start. A disk on which the broker does not start serves none.
# Written by `python -m tests.corpus.test_recover`.
"""


def applied(disk: Path, verb: str, options: dict[str, Any], now_ms: int) -> str | None:
    """Plan and apply; return why the clean shutdown file is not written."""
    request = PlanRequest(target=target_dir([str(disk)]), options=options, now_ms=now_ms)
    draft = make_plan(verb, request)
    assert not draft.plan.obstacles
    if draft.plan.changes:
        apply_plan(draft, Door(), now_ms=now_ms)
    return draft.plan.report.note


@pytest.mark.parametrize("disk", DISKS, ids=lambda disk: disk.id)
def test_it_is_brought_back(corpus: Path, tmp_path: Path, disk: Disk) -> None:
    place = disk.lay(corpus, tmp_path)
    options, now_ms = disk.options(corpus, tmp_path), recovering.started_ms(place)
    before, old = brought_back.readable(place), {name: row[0] for name, row in snapshot(place).items()}
    applied(place, "recover", {**options, "only_copy": True}, now_ms)
    found = [*_wrong(place, options, now_ms, before)]
    left = [each for each in found if not any(_explains(line, disk, each) for line in LINES)]
    assert not left, "\n".join(f"{disk.id}  {each}" for each in left)
    again = PlanRequest(target=target_dir([str(place)]), options={**options, "only_copy": True}, now_ms=now_ms)
    assert make_plan("recover", again).plan.changes == (), "nothing is left to do"
    undo_all(place)
    assert {name: row[0] for name, row in snapshot(place).items()} == old


def _wrong(place: Path, options: dict[str, Any], now_ms: int, before: Offsets) -> Iterator[str]:
    """What is not brought back: `stops`, `cut`, `missing`, `unmarked`."""
    for is_clean in (True, False):
        for result in brought_back.starts(place, options, now_ms, is_clean=is_clean).values():
            if result.problem is not None:
                yield "stops"
            elif result.lost_bytes:
                yield "cut"
    if before - brought_back.readable(place):
        yield "missing"
    if not (place / ".kafka_cleanshutdown").exists():
        yield "unmarked"


def _explains(line: tuple[str, ...], disk: Disk, what: str) -> bool:
    return all(map(verifying.is_like, (disk.id, what), line))


def test_every_line_of_the_list_is_of_a_disk() -> None:
    stale = [line for line in LINES if not any(verifying.is_like(disk.id, line[0]) for disk in DISKS)]
    assert not stale or not archives.is_whole(), "a part of the corpus may leave lines unused, the whole may not"


# --- the table of records ---------------------------------------------------------------------------------------------
Figures = tuple[int, int, int, int]


def figures(corpus: Path, into: Path, disk: Disk) -> Figures:
    """Records that can be read before, and that are served after recover, after reindex, and after nothing."""
    place = disk.lay(corpus, into)
    options, now_ms = disk.options(corpus, into), recovering.started_ms(place)
    readable = len(brought_back.readable(place))
    own = brought_back.served(place, options, now_ms)
    kept = into / "kept"
    shutil.copytree(place, kept)
    applied(kept, "reindex", {**options, "as_broker": True}, now_ms)
    indexed = brought_back.served(kept, options, now_ms)
    applied(place, "recover", {**options, "only_copy": True}, now_ms)
    return readable, brought_back.served(place, options, now_ms), indexed, own


@cache
def kept_figures() -> dict[str, Figures]:
    """The table, by the name of the disk."""
    rows = (line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#"))
    return {name: (int(first), int(second), int(third), int(last)) for name, first, second, third, last in rows}


@pytest.mark.slow
@pytest.mark.parametrize("disk", FIGURED, ids=lambda disk: disk.id)
def test_the_records_that_are_left(corpus: Path, tmp_path: Path, disk: Disk) -> None:
    assert figures(corpus, tmp_path, disk) == kept_figures()[disk.id]


def test_recover_keeps_most() -> None:
    """No way keeps more of any disk."""
    assert all(recovered >= max(indexed, own) for _, recovered, indexed, own in kept_figures().values())


def main() -> None:
    """Write the table."""
    lines = []
    sums = [0, 0, 0, 0]
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch) / "corpus"
        archives.unpack(archives.source(), corpus)
        for number, disk in enumerate(FIGURED):
            into = Path(scratch) / str(number)
            into.mkdir()
            found = figures(corpus, into, disk)
            sums = [total + each for total, each in zip(sums, found, strict=True)]
            lines.append("\t".join([disk.id, *map(str, found)]) + "\n")
            sys.stderr.write(lines[-1])
            shutil.rmtree(into)
    total = "# disk\treadable\trecover\treindex\tbroker\n# all\t" + "\t".join(map(str, sums)) + "\n"
    TABLE.write_text(_HEAD + total + "".join(lines))


if __name__ == "__main__":
    main()
