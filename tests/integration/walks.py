"""A real 4.3.1 broker on the disks that it died on, after the walk of `tests/support/corpus/walking.py` over each.

`python -m tests.integration.walks` walks them all and writes `walks.txt`; it needs Java, Maven and a few minutes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.integration.broker import Broker
from tests.support import jars
from tests.support.corpus import archives, walking

if TYPE_CHECKING:
    from tests.support.corpus.faults import Fault
    from tests.support.corpus.walking import Walk

TABLE: Final = Path(__file__).with_name("walks.txt")
_FAULT_SETTINGS: Final = {
    "log.index.size.max.bytes": "10240",
    "log.initial.task.delay.ms": "600000",  # nothing is deleted while somebody looks
    "log.dir.failure.timeout.ms": "30000",
}


class Restarted(Broker):
    """A broker on directories that are there: `Walk.homes`, and the metadata log."""

    def __init__(self, libs: Path, work_dir: Path, walk: Walk) -> None:
        self._walk = walk
        super().__init__(libs, work_dir)

    def _places(self, controller_port: int) -> dict[str, str]:
        dirs = {"log.dirs": ",".join(map(str, self._walk.homes)), "metadata.log.dir": str(self._walk.metadata)}
        return super()._places(controller_port) | dirs | _FAULT_SETTINGS

    def _format(self) -> None:
        """Everything is there."""


def judged() -> list[Fault]:
    """The faults on which the real broker died, of brokers whose metadata log is known."""
    return [fault for fault in walking.dying() if "/07-faults-4.3.1/" in fault.path]


def starts(libs: Path, corpus: Path, fault: Fault, into: Path) -> tuple[Walk, str]:
    """Walk over the disk of a fault and start the broker on it; the walk, and why the broker ended, or nothing."""
    walk = walking.lay(corpus, fault, into)
    walk.go()
    broker = Restarted(libs, into, walk)
    try:
        broker.start()
        broker.stop()
    except AssertionError as error:
        return walk, str(error)[-300:]
    finally:
        broker.close()
    return walk, ""


def main() -> None:
    """Walk over all of them, and keep a line of each."""
    libs = jars.fetch()
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch) / "corpus"
        corpus.mkdir()
        archives.unpack(archives.source(), corpus)
        for number, fault in enumerate(judged()):
            into = Path(scratch) / str(number)
            into.mkdir()
            walk, problem = starts(libs, corpus, fault, into)
            steps = " ; ".join(command.replace(f"{into}/", "") for command, _ in walk.steps)
            lines.append(f"{fault.path.split('/', 2)[2]}\t{'starts' if not problem else 'dies'}\t{steps}\n")
            sys.stderr.write(lines[-1] + problem)
    TABLE.write_text("".join(lines))


if __name__ == "__main__":
    main()
