"""The corpus on disk: archives unpacked once a session, faults put together when a test asks for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.corpus import faults

if TYPE_CHECKING:
    from pathlib import Path

    from tests.corpus.snapshots import Snapshot


@dataclass(slots=True)
class Tree:
    """`corpus` is the unpacked corpus; `built` holds the faults."""

    corpus: Path
    built: Path
    _done: dict[str, Path] = field(default_factory=dict)

    def log_dir(self, snapshot: Snapshot) -> Path:
        """Where the log directory of a snapshot lies."""
        if snapshot.fault is None:
            return self.corpus / snapshot.log_dir
        state = f"{snapshot.fault.path}/{snapshot.state}"
        if state not in self._done:
            self._done[state] = self.built / state
            faults.build(self.corpus, snapshot.fault, snapshot.state, self._done[state])
        return self.built / snapshot.log_dir

    def partition_dir(self, snapshot: Snapshot) -> Path:
        """Where its partition directory lies."""
        return self.log_dir(snapshot) / snapshot.partition

    def log_start_offset(self, snapshot: Snapshot) -> int:
        """The partition's entry of log-start-offset-checkpoint, 0 where there is none: consumers see nothing below."""
        path = self.log_dir(snapshot) / "log-start-offset-checkpoint"
        for line in path.read_text().splitlines()[2:] if path.exists() else ():
            topic, number, offset = line.split()
            if f"{topic}-{number}" == snapshot.partition:
                return int(offset)
        return 0
