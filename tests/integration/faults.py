"""Random faults of a partition directory, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.support.build import offset_index

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

_MAGIC: Final = 16
_SIZE: Final = 8
_ENTRY: Final = 8


@dataclass(frozen=True, kw_only=True)
class Stop:
    """How the broker stopped, and what its checkpoints say."""

    is_clean: bool
    recovery_point: int
    log_start: int


class Faults:
    """What is done to a copy of a partition directory, drawn one after another.

    `told` describes each fault in a few words; `others`: kinds of faults besides those of this class.
    """

    def __init__(self, rng: random.Random, partition_dir: Path, others: Sequence[Callable[[Faults], str]] = ()) -> None:
        self.rng = rng
        self.dir = partition_dir
        self.told: list[str] = []
        self._others = others

    @property
    def bases(self) -> list[int]:
        """Base offsets of the segments that are there."""
        return sorted(int(path.stem) for path in self.dir.glob(f"{'[0-9]' * 20}.log") if path.is_file())

    def inflict(self) -> None:
        """Up to three faults."""
        kinds: list[Callable[[], str]] = [
            *[self._swap] * 4,
            self._cleaned,
            self._deleted,
            *[self._tail] * 2,
            *[self._field] * 3,
            self._magic,
            *[self._index] * 2,
            self._missing,
            self._flip,
        ]
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            if self._others and self.rng.random() < 0.8:
                self.told.append(self.rng.choice(self._others)(self))
            elif self.bases:
                self.told.append(self.rng.choice(kinds)())

    def stop(self, end_offset: int) -> Stop:
        """A stop of any kind; the log start is 0 more often than not."""
        rng = self.rng
        start = rng.choice((0, 0, 0, 0, rng.randrange(end_offset + 1), end_offset + rng.choice((0, 1, 10))))
        points = (0, rng.randrange(end_offset + 1), end_offset)
        if self._others:
            points = (*points, rng.randrange(end_offset + 1), end_offset + 100, -1)
        point = rng.choice(points)
        return Stop(is_clean=rng.random() < 0.5, recovery_point=point, log_start=start)

    # --- leftovers ---------------------------------------------------------------------------------------------------
    def _swap(self) -> str:
        """A replacement of one to three segments, in any state."""
        rng, bases = self.rng, self.bases
        first = rng.randrange(len(bases))
        taken = bases[first : first + rng.choice((1, 1, 2, 3))]
        batches = [each for base in taken for each in split_entries(self.log(base).read_bytes())]
        share = rng.choice((1.0, 1.0, 0.7, 0.3, 0.0))
        batches = [each for each in batches if rng.random() < share]
        if rng.random() < 0.2:
            batches = batches[: rng.randrange(len(batches) + 1)]
        data = bytearray(b"".join(batches))
        what = f"swap of {taken} with {len(batches)} batches"
        if data and rng.random() < 0.25:
            what += self._spoil(data)
        base = taken[0] + rng.choice((0, 0, 0, 0, 0, 1, 7))
        self.log(base, ".log.swap").write_bytes(data)
        if rng.random() < 0.8:
            index = self.log(taken[0], ".index")
            entries = index.read_bytes() if index.exists() else b""
            count = rng.choice((0, 0, 1, len(entries) // _ENTRY))
            self.log(base, ".index.swap").write_bytes(entries[: count * _ENTRY])
            what += f", {count} index entries"
        if rng.random() < 0.8:
            self.log(base, ".timeindex.swap").write_bytes(b"")
        if rng.random() < 0.3:
            gone = taken if rng.random() < 0.5 else taken[:1]
            for each in gone:
                for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                    self.log(each, suffix).unlink(missing_ok=True)
            what += f", {gone} gone"
        return f"{what}, at {base}"

    def _cleaned(self) -> str:
        base = self.some_base() + self.rng.choice((0, 0, 1))
        suffix = self.rng.choice((".log", ".index"))
        self.log(base, f"{suffix}.cleaned").write_bytes(b"x")
        return f"{base}{suffix}.cleaned"

    def _deleted(self) -> str:
        base, suffix = self.some_base(), self.rng.choice((".log", ".index", ".timeindex", ".snapshot"))
        path = self.log(base, suffix)
        if path.exists():
            path.rename(self.log(base, f"{suffix}.deleted"))
        return f"{base}{suffix}.deleted"

    # --- bytes -------------------------------------------------------------------------------------------------------
    def _tail(self) -> str:
        """The last log is cut anywhere, or bytes follow its end."""
        path, rng = self.log(self.bases[-1]), self.rng
        data = path.read_bytes()
        if rng.random() < 0.5 and data:
            size = rng.randrange(len(data))
            path.write_bytes(data[:size])
            return f"last log cut to {size} of {len(data)}"
        count = rng.choice((1, 11, 12, 16, 17, 18, 40, 61, 500))
        tail = rng.choice((bytes(count), rng.randbytes(count), data[-count:]))
        path.write_bytes(data + tail)
        return f"{len(tail)} bytes after byte {len(data)} of the last log"

    def _field(self) -> str:
        """A size of a batch in the last segments; often of the one that the last index entry leads to."""
        rng = self.rng
        base = self.bases[-1] if rng.random() < 0.8 else self.some_base()
        data = bytearray(self.log(base).read_bytes())
        position = self.some_batch(base, data)
        if position is None:
            return "nothing"
        size = rng.choice((0, 5, 13, 14, 48, 49, len(data), 2**31 - 1, -1, rng.randrange(2000)))
        data[position + _SIZE : position + _SIZE + 4] = size.to_bytes(4, "big", signed=True)
        self.log(base).write_bytes(data)
        return f"size {size} at byte {position} of {base}, of {len(data)} bytes"

    def _magic(self) -> str:
        base = self.bases[-1] if self.rng.random() < 0.8 else self.some_base()
        data = bytearray(self.log(base).read_bytes())
        position = self.some_batch(base, data)
        if position is None:
            return "nothing"
        magic = self.rng.choice((0, 1, 1, 2, 3, 127, 128, 255))
        before, data[position + _MAGIC] = data[position + _MAGIC], magic
        self.log(base).write_bytes(data)
        return f"magic {before} to {magic} at byte {position} of {base}"

    def _flip(self) -> str:
        base = self.some_base()
        data = bytearray(self.log(base).read_bytes())
        if not data:
            return "nothing"
        what = self._spoil(data)
        self.log(base).write_bytes(data)
        return f"{base}{what}"

    def _spoil(self, data: bytearray) -> str:
        if self.rng.random() < 0.3:
            size = self.rng.randrange(len(data))
            del data[size:]
            return f", torn at {size}"
        position = self.rng.randrange(len(data))
        data[position] ^= self.rng.choice((0xFF, 1, 0x80))
        return f", byte {position} flipped"

    # --- indexes -----------------------------------------------------------------------------------------------------
    def _index(self) -> str:
        rng = self.rng
        base = self.bases[-1] if rng.random() < 0.8 else self.some_base()
        path = self.log(base, ".index")
        if not path.exists() or rng.random() < 0.2:
            path.unlink(missing_ok=True)
            return f"{base}.index gone"
        entries, size = path.read_bytes(), self.log(base).stat().st_size
        kind = rng.choice(("cut", "zeros", "beyond", "within", "uneven"))
        if kind == "cut":
            entries = entries[: _ENTRY * rng.randrange(len(entries) // _ENTRY + 1)]
        elif kind == "zeros":
            entries += bytes(_ENTRY * rng.choice((1, 3, 10)))
        elif kind == "beyond":
            entries += offset_index([(100_000, size + rng.choice((-1, 0, 1, 1000)))])
        elif kind == "within":
            entries += offset_index([(rng.choice((1, 50, 100_000)), rng.randrange(size + 1))])
        else:
            entries += bytes(rng.choice((1, 7)))
        path.write_bytes(entries)
        return f"{base}.index {kind}"

    def _missing(self) -> str:
        base, suffix = self.some_base(), self.rng.choice((".log", ".index", ".timeindex", ".txnindex", ".snapshot"))
        if suffix != ".log" or len(self.bases) > 1:
            self.log(base, suffix).unlink(missing_ok=True)
        return f"{base}{suffix} gone"

    # --- places ------------------------------------------------------------------------------------------------------
    def log(self, base: int, suffix: str = ".log") -> Path:
        return self.dir / f"{base:020d}{suffix}"

    def some_base(self) -> int:
        return self.rng.choice(self.bases)

    def some_batch(self, base: int, data: bytes) -> int | None:
        """Position of a batch, in half of the cases of the one at the last index entry; none in a log without one."""
        index = self.log(base, ".index")
        entries = index.read_bytes() if index.exists() else b""
        last = int.from_bytes(entries[-4:], "big") if len(entries) >= _ENTRY else len(data)
        if self.rng.random() < 0.5 and last + _MAGIC < len(data):
            return last
        found = [0]
        for each in split_entries(data):
            found.append(found[-1] + len(each))
        return self.rng.choice(found[:-1]) if len(found) > 1 else None


def split_entries(log: bytes) -> list[bytes]:
    """The batches and messages of a log, as far as their sizes lead."""
    found, position = [], 0
    while position + _MAGIC < len(log):
        size = int.from_bytes(log[position + _SIZE : position + _SIZE + 4], "big", signed=True)
        if size < 0:
            break
        found.append(log[position : position + size + _SIZE + 4])
        position += size + _SIZE + 4
    return found
