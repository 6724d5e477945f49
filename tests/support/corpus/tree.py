"""The corpus on disk: archives unpacked once a session, faults put together on demand. Nobody writes to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.corpus import faults

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.snapshots import Snapshot


@dataclass(slots=True)
class Tree:
    """`corpus` is the unpacked corpus; `built` is for the faults."""

    corpus: Path
    built: Path
    _done: dict[str, Path] = field(default_factory=dict)

    def partition_dir(self, snapshot: Snapshot) -> Path:
        """Where the partition directory of a snapshot lies; of a fault it and the files next to it are put together."""
        if snapshot.fault is None:
            return self.corpus / snapshot.id
        if snapshot.id not in self._done:
            partition = snapshot.id.removeprefix(f"{snapshot.fault.path}/{snapshot.state}/")
            directory = self.built / str(len(self._done))
            faults.build(self.corpus, snapshot.fault, snapshot.state, directory, partition)
            self._done[snapshot.id] = directory / partition
        return self._done[snapshot.id]

    def log_start_offset(self, snapshot: Snapshot) -> int:
        """The partition's entry of log-start-offset-checkpoint, 0 where there is none: consumers see nothing below."""
        path = self.partition_dir(snapshot).parent / "log-start-offset-checkpoint"
        for line in path.read_text().splitlines()[2:] if path.exists() else ():
            topic, number, offset = line.split()
            if f"{topic}-{number}" == snapshot.partition:
                return int(offset)
        return 0
