"""Random logs with keys and transactions over several segments, for compaction in several processes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kafkalog_core.format.index import encode_txn_entry
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_000_000_100_000
FIRST_MS = 1_000_000_000_000


class Writer:
    """Transactions of several producers, and batches of none, over several segments."""

    def __init__(self, seed: int, segments: int, keys: int = 40) -> None:
        self._rng = random.Random(seed)
        self._keys = keys
        self._offset = 0
        self._open: dict[int, int] = {}
        self.logs: dict[int, bytes] = {}
        self.aborted: dict[int, list[tuple[int, int, int, int]]] = {}
        for _ in range(segments):
            self._segment()
        base = max(self.logs)
        for producer_id in [*self._open]:  # an open one would hold the cleaner back
            self.logs[base] += self._end(base, producer_id)

    def _segment(self) -> None:
        base, data = self._offset, b""
        self.aborted[base] = []
        for _ in range(self._rng.randrange(1, 9)):
            producer_id = self._rng.choice((-1, 1, 2, 3))
            if producer_id in self._open and self._rng.random() < 0.4:
                data += self._end(base, producer_id)
            else:
                data += self._batch(producer_id)
        self.logs[base] = data

    def _batch(self, producer_id: int) -> bytes:
        records = [
            build.Record(
                offset=self._offset + i,
                timestamp_ms=FIRST_MS + self._offset + i,
                key=b"k%d" % self._rng.randrange(self._keys),
                value=self._rng.choice((None, b"value")),
            )
            for i in range(self._rng.randrange(1, 5))
        ]
        if producer_id >= 0:
            self._open.setdefault(producer_id, self._offset)
        self._offset += len(records) + self._rng.choice((0, 0, 2))
        if producer_id < 0:
            return build.batch_v2(records)
        return build.batch_v2(
            records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )

    def _end(self, base: int, producer_id: int) -> bytes:
        first, kind = self._open.pop(producer_id), self._rng.choice((build.ABORT, build.COMMIT))
        if kind == build.ABORT:
            stable = min(self._open.values(), default=self._offset + 1)
            self.aborted[base].append((producer_id, first, self._offset, stable))
        self._offset += 1
        return build.txn_marker(
            kind, offset=self._offset - 1, producer_id=producer_id, timestamp_ms=FIRST_MS + self._offset
        )

    def write(self, root: Path) -> Path:
        """As a log directory with one partition."""
        directory = root / "t-0"
        directory.mkdir()
        (root / "meta.properties").write_bytes(build.meta_properties({"version": "0", "broker.id": "1"}))
        for base, data in self.logs.items():
            name = f"{base:020}"
            (directory / f"{name}.log").write_bytes(data)
            (directory / f"{name}.index").write_bytes(b"")
            (directory / f"{name}.timeindex").write_bytes(build.time_index([(FIRST_MS + base, 0)]))
            if self.aborted[base]:
                entries = b"".join(encode_txn_entry(*entry) for entry in self.aborted[base])
                (directory / f"{name}.txnindex").write_bytes(entries)
        return root
