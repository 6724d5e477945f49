"""A partition as a running broker leaves it between two looks: it grows, rolls, and loses its oldest segments.

What was ever appended is kept next to it, by offset: the truth that an export is held against. Bytes come from
`tests.support.build`, which shares nothing with kafkalog.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.build import ABORT, COMMIT, FRAMINGS, Record, batch_v2, txn_marker

if TYPE_CHECKING:
    from pathlib import Path

_CODECS = sorted(FRAMINGS)
_START_MS = 1_700_000_000_000


@dataclass
class GrowingLog:
    """One partition directory with a writer of its own. `truth` has every record that was ever appended, by offset."""

    directory: Path
    seed: int = 0
    end: int = 0
    truth: dict[int, Record] = field(default_factory=dict)
    half: bytes = b""
    """What is left to write of a batch that is being written."""

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        self.chance = random.Random(self.seed)
        self.roll()

    @property
    def bases(self) -> list[int]:
        """Base offsets of its segments."""
        return sorted(int(path.stem) for path in self.directory.glob("*.log"))

    @property
    def start(self) -> int:
        """The first offset that may be there."""
        return self.bases[0]

    # --- what a broker does -------------------------------------------------------------------------------------------
    def append(self, batches: int = 1) -> None:
        """Append batches: plain, compressed, of transactions with their markers."""
        for _ in range(batches):
            self._write(self._batch())

    def begin(self) -> None:
        """Write a batch up to its middle, as somebody sees it who looks meanwhile."""
        data = self._batch()
        cut = self.chance.randrange(1, len(data))
        self._write(data[:cut])
        self.half = data[cut:]

    def roll(self) -> None:
        """A new active segment."""
        self._finish()
        for suffix in ("log", "index", "timeindex"):
            (self.directory / f"{self.end:020}.{suffix}").touch()

    def retain(self, segments: int = 1) -> None:
        """Take the oldest segments away, never the active one."""
        for base in self.bases[:-1][:segments]:
            for path in self.directory.glob(f"{base:020}.*"):
                path.unlink()

    # --- bytes --------------------------------------------------------------------------------------------------------
    def _finish(self) -> None:
        half, self.half = self.half, b""
        if half:
            self._write(half)

    def _write(self, data: bytes) -> None:
        self._finish()
        with (self.directory / f"{self.bases[-1]:020}.log").open("ab") as file:
            file.write(data)

    def _batch(self) -> bytes:
        self._finish()
        first = self.end
        records = [self._record(first + number) for number in range(self.chance.randrange(1, 30))]
        self.truth |= {record.offset: record for record in records}
        self.end += len(records)
        codec = self.chance.choice(_CODECS)
        if self.chance.random() > 0.2:
            return batch_v2(records, codec=codec)
        data = batch_v2(records, codec=codec, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        self.end += 1
        return data + txn_marker(
            self.chance.choice([COMMIT, ABORT]),
            offset=self.end - 1,
            producer_id=7,
            timestamp_ms=records[-1].timestamp_ms,
        )

    def _record(self, offset: int) -> Record:
        chance = self.chance
        return Record(
            offset=offset,
            timestamp_ms=_START_MS + offset * 10 + chance.randrange(10),
            key=chance.choice([None, b"", b"k%d" % chance.randrange(50), b"\xff\x00"]),
            value=chance.choice([None, b"", chance.randbytes(chance.randrange(200))]),
            headers=tuple((b"h%d" % n, chance.choice([None, b"", b"v"])) for n in range(chance.randrange(3))),
        )
