"""A partition of several segments with idempotent and transactional producers, as a broker writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TIME_MS", "PartitionWriter"]

TIME_MS = 1_700_000_000_000
PLAIN_ID, TRANSACTIONAL_ID = 7, 8


@dataclass
class PartitionWriter:
    """Writes as a broker does: batches to the active segment, a snapshot at every roll, aborted transactions."""

    path: Path
    value_bytes: int = 10
    offset: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    bases: list[int] = field(default_factory=list)
    states: dict[int, build.Producer] = field(default_factory=dict)

    def begin(self) -> None:
        """Make the directory."""
        self.path.mkdir(parents=True)
        (self.path / "leader-epoch-checkpoint").write_bytes(build.epoch_checkpoint([(0, 0)]))

    def segment(self, *, rounds: int = 3) -> None:
        """One more segment: in each round a plain batch, a committed and an aborted transaction."""
        base = self.offset
        if self.bases:
            (self.path / f"{base:020d}.snapshot").write_bytes(build.snapshot(list(self.states.values())))
            last = (TIME_MS + base - 1, base - 1 - self.bases[-1])
            (self.path / f"{self.bases[-1]:020d}.timeindex").write_bytes(build.time_index([last]))
        self.bases.append(base)
        for extension in ("log", "index", "timeindex"):
            (self.path / f"{base:020d}.{extension}").touch()
        self.append(rounds=rounds)

    def append(self, *, rounds: int = 1) -> None:
        """More batches in the active segment."""
        aborted = []
        with (self.path / f"{self.bases[-1]:020d}.log").open("ab") as log:
            for _ in range(rounds):
                log.write(self._batch(PLAIN_ID))
                for kind in (build.COMMIT, build.ABORT):
                    first = self.offset
                    log.write(self._batch(TRANSACTIONAL_ID, is_transactional=True))
                    if kind == build.ABORT:
                        aborted.append((TRANSACTIONAL_ID, first, self.offset, self.offset + 1))
                    log.write(self._marker(kind))
        with (self.path / f"{self.bases[-1]:020d}.txnindex").open("ab") as index:
            index.write(build.txn_index(aborted))

    def _batch(self, producer_id: int, **fields) -> bytes:
        sequence = self.sequences.get(producer_id, 0)
        time_ms = TIME_MS + self.offset
        record = build.Record(offset=self.offset, timestamp_ms=time_ms, key=b"k", value=b"v" * self.value_bytes)
        batch = build.batch_v2([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **fields)
        self.sequences[producer_id] = sequence + 1
        known = self.states.get(producer_id)
        self.states[producer_id] = build.Producer(
            producer_id=producer_id,
            last_sequence=sequence,
            last_offset=self.offset,
            timestamp_ms=time_ms,
            coordinator_epoch=-1 if known is None else known.coordinator_epoch,
            current_txn_first_offset=self.offset if fields else -1,
        )
        self.offset += 1
        return batch

    def _marker(self, kind: int) -> bytes:
        time_ms = TIME_MS + self.offset
        known = self.states[TRANSACTIONAL_ID]
        self.states[TRANSACTIONAL_ID] = build.Producer(
            producer_id=TRANSACTIONAL_ID,
            last_sequence=known.last_sequence,
            last_offset=known.last_offset,
            timestamp_ms=time_ms,
            coordinator_epoch=0,
        )
        marker = build.txn_marker(kind, offset=self.offset, producer_id=TRANSACTIONAL_ID, timestamp_ms=time_ms)
        self.offset += 1
        return marker
