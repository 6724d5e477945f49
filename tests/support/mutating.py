"""Seeded harm to a log directory: flips, cuts, zeros, doubled and moved batches, and lost or wrong small files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

__all__ = ["mutate", "mutate_text"]

_SIZE: Final = slice(8, 12)
_BASE_OFFSET: Final = 8
_COMPANIONS: Final = (".index", ".timeindex", ".txnindex", ".snapshot")


def mutate(log_dir: Path, rng: Random) -> str:
    """Harm one to three places of a log directory; return what was done, in a few words."""
    partitions = sorted({path.parent for path in log_dir.glob("*/*.log") if path.stat().st_size})
    kinds: tuple[Callable[[Path, Random], str], ...] = (
        *(_flip, _flip, _cut, _zero, _zero_tail, _garbage_tail, _double, _swap, _drop, _offset, _size),
        *(_lose_companion, _lose_companion, _harm_companion, _lose_segment),
    )
    told = [rng.choice(kinds)(rng.choice(partitions), rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    if rng.random() < 0.3:
        told.append(_mark(log_dir))
    return "; ".join(told)


def _mark(log_dir: Path) -> str:
    mark = log_dir / ".kafka_cleanshutdown"
    if mark.exists():
        mark.unlink()
        return "unclean"
    mark.touch()
    return "clean"


def _log(partition: Path, rng: Random) -> Path:
    return rng.choice(sorted(partition.glob("*.log")))


def batches_of(data: bytes) -> list[bytes]:
    """The batches and messages of a log, as far as their sizes lead."""
    found, position = [], 0
    while position + _SIZE.stop <= len(data):
        size = int.from_bytes(data[position + _SIZE.start : position + _SIZE.stop], "big", signed=True)
        if size <= 0 or position + _SIZE.stop + size > len(data):
            break
        found.append(data[position : position + _SIZE.stop + size])
        position += _SIZE.stop + size
    return found


def _edited(log: Path, edit: Callable[[bytearray], str]) -> str:
    data = bytearray(log.read_bytes())
    if not data:
        return f"{log.name} is empty"
    told = edit(data)
    log.write_bytes(data)
    return f"{log.parent.name}/{log.name}: {told}"


# --- bytes ------------------------------------------------------------------------------------------------------------
def _flip(partition: Path, rng: Random) -> str:
    def edit(data: bytearray) -> str:
        position, mask = rng.randrange(len(data)), rng.choice((0xFF, 1, 0x80))
        data[position] ^= mask
        return f"byte {position} flipped by {mask:#x}"

    return _edited(_log(partition, rng), edit)


def _cut(partition: Path, rng: Random) -> str:
    def edit(data: bytearray) -> str:
        size = rng.randrange(len(data))
        del data[size:]
        return f"cut to {size}"

    return _edited(_log(partition, rng), edit)


def _zero(partition: Path, rng: Random) -> str:
    def edit(data: bytearray) -> str:
        position, size = rng.randrange(len(data)), rng.choice((1, 16, 100, 4096))
        end = min(position + size, len(data))
        data[position:end] = bytes(end - position)
        return f"zeros from {position} to {end}"

    return _edited(_log(partition, rng), edit)


def _zero_tail(partition: Path, rng: Random) -> str:
    return _tail(partition, bytes(rng.choice((1, 12, 61, 4096))), "zeros")


def _garbage_tail(partition: Path, rng: Random) -> str:
    return _tail(partition, rng.randbytes(rng.choice((1, 17, 100))), "garbage")


def _tail(partition: Path, tail: bytes, what: str) -> str:
    log = max(partition.glob("*.log"))
    log.write_bytes(log.read_bytes() + tail)
    return f"{partition.name}/{log.name}: {len(tail)} bytes of {what} at the end"


# --- batches ----------------------------------------------------------------------------------------------------------
def _of_batches(partition: Path, rng: Random, edit: Callable[[list[bytes], int], str]) -> str:
    log = _log(partition, rng)
    batches = batches_of(log.read_bytes())
    if not batches:
        return f"{partition.name}/{log.name} has no batches"
    told = edit(batches, rng.randrange(len(batches)))
    log.write_bytes(b"".join(batches))
    return f"{partition.name}/{log.name}: {told}"


def _double(partition: Path, rng: Random) -> str:
    def edit(batches: list[bytes], number: int) -> str:
        batches.insert(number, batches[number])
        return f"batch {number} twice"

    return _of_batches(partition, rng, edit)


def _swap(partition: Path, rng: Random) -> str:
    def edit(batches: list[bytes], number: int) -> str:
        other = rng.randrange(len(batches))
        batches[number], batches[other] = batches[other], batches[number]
        return f"batches {number} and {other} changed places"

    return _of_batches(partition, rng, edit)


def _drop(partition: Path, rng: Random) -> str:
    def edit(batches: list[bytes], number: int) -> str:
        del batches[number]
        return f"batch {number} is gone"

    return _of_batches(partition, rng, edit)


def _offset(partition: Path, rng: Random) -> str:
    """No checksum protects the base offset of a batch."""

    def edit(batches: list[bytes], number: int) -> str:
        batch = batches[number]
        before = int.from_bytes(batch[:_BASE_OFFSET], "big", signed=True)
        after = before + rng.choice((-5, -1, 1, 5, 100, 2**31, -(2**31)))
        batches[number] = after.to_bytes(_BASE_OFFSET, "big", signed=True) + batch[_BASE_OFFSET:]
        return f"batch {number} at offset {after}, not {before}"

    return _of_batches(partition, rng, edit)


def _size(partition: Path, rng: Random) -> str:
    def edit(batches: list[bytes], number: int) -> str:
        size = rng.choice((0, 5, 14, 48, 49, 10**6, 2**31 - 1, -1))
        batch = batches[number]
        batches[number] = batch[: _SIZE.start] + size.to_bytes(4, "big", signed=True) + batch[_SIZE.stop :]
        return f"batch {number} of size {size}"

    return _of_batches(partition, rng, edit)


# --- files ------------------------------------------------------------------------------------------------------------
def _companion(partition: Path, rng: Random) -> Path | None:
    found = sorted(path for path in partition.iterdir() if path.suffix in _COMPANIONS)
    return rng.choice(found) if found else None


def _lose_companion(partition: Path, rng: Random) -> str:
    path = _companion(partition, rng)
    if path is None:
        return "nothing"
    path.unlink()
    return f"{partition.name}/{path.name} is gone"


def _harm_companion(partition: Path, rng: Random) -> str:
    path = _companion(partition, rng)
    if path is None:
        return "nothing"
    data = path.read_bytes()
    size = rng.choice((0, 8, 12, 24))
    path.write_bytes(rng.choice((data[: len(data) // 2], data + bytes(size), rng.randbytes(len(data)))))
    return f"{partition.name}/{path.name} is another"


def _lose_segment(partition: Path, rng: Random) -> str:
    logs = sorted(partition.glob("*.log"))
    if len(logs) == 1:
        return "nothing"
    log = rng.choice(logs)
    log.unlink()
    return f"{partition.name}/{log.name} is gone"


def mutate_text(log_dir: Path, rng: Random) -> str:
    """Harm one text file of a log directory: a digit, a line, the end or all of it; return what was done."""
    names = ("*-checkpoint", "*/leader-epoch-checkpoint", "*/partition.metadata")
    file = rng.choice(sorted(path for name in names for path in log_dir.glob(name)))
    lines = file.read_text().splitlines()
    digits = [at for at, letter in enumerate(file.read_text()) if letter.isdigit()]
    kind = rng.choice(("digit", "digit", "line", "end", "all", "garbage"))
    if kind == "digit" and digits:
        at, text = rng.choice(digits), file.read_text()
        file.write_text(f"{text[:at]}{rng.randrange(10)}{text[at + 1 :]}")
    elif kind == "line" and lines:
        del lines[rng.randrange(len(lines))]
        file.write_text("".join(f"{line}\n" for line in lines))
    elif kind == "end":
        file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size + 1)])
    elif kind == "garbage":
        file.write_bytes(rng.randbytes(rng.randrange(1, 40)))
    else:
        file.unlink()
        kind = "all"
    return f"{file.relative_to(log_dir)}: {kind}"
