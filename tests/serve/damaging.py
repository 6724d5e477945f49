"""Log directories that are damaged at random, by a seed: what `tests/ops/verify/injection.py` does, and more of it.

Added is what a client meets and a checksum does not: batches whose header or records were changed and sealed again,
bytes that are lost, added or overwritten, and segments of other logs within the range of a log.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import crc32c

from tests.ops.verify import injection
from tests.ops.verify.injected_files import build
from tests.ops.verify.injected_log import FLAVOURS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["damaged_directory"]

Files = dict[str, bytes]
Damage = tuple[str, dict[str, bytes | None]]
_CRC: Final = 17
_CHECKED: Final = 21  # the first byte that the checksum of a batch covers
_ATTRIBUTES: Final = 21
_LAST_DELTA: Final = 23
_COUNT: Final = 57
_PAYLOAD: Final = 61
_MAGIC: Final = 16


def damaged_directory(path: Path, seed: int) -> list[str]:
    """Write a log directory with one to three damages, and return what was done."""
    random = Random(seed)
    broker = build(path, random.choice(FLAVOURS), random)
    words = [broker.flavour]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        files = injection.contents(broker)
        kind = random.choice((*injection.KINDS, *_KINDS))
        if kind in injection.KINDS:
            found = injection.inject(kind, broker, files, random)
            damage = None if found is None else (found.words, dict(found.changes))
        else:
            damage = _KINDS[kind](files, random)
        if damage is None:
            continue
        words.append(damage[0])
        for name, data in damage[1].items():
            if data is None:
                (path / name).unlink(missing_ok=True)
            else:
                (path / name).write_bytes(data)
    return words


def _log(files: Files, random: Random) -> str:
    return random.choice(sorted(name for name in files if name.endswith(".log")))


def _batches(data: bytes) -> list[tuple[int, int]]:
    """Start and end of each batch, by the lengths."""
    found, at = [], 0
    while at + _PAYLOAD <= len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if not at + _PAYLOAD <= end <= len(data):
            break
        found.append((at, end))
        at = end
    return found


def _resealed(files: Files, random: Random) -> Damage | None:
    """A field of a header or a byte of the records is changed, and the checksum is right again."""
    name = _log(files, random)
    data = bytearray(files[name])
    batches = [(start, end) for start, end in _batches(data) if data[start + _MAGIC] == 2]
    if not batches:
        return None
    start, end = random.choice(batches)
    at, size, values = random.choice(
        (
            (_COUNT, 4, (0, 1, 2, 7, -1, -5, 2**31 - 1)),
            (_LAST_DELTA, 4, (0, 1, 5, -1, -7, 2**31 - 1)),
            (_ATTRIBUTES + 1, 1, (1, 2, 3, 4, 5, 7)),
            (_PAYLOAD, 5, (-1, 0xFFFFFFFF0F)),  # the length of the first record, or a snappy header of 4 GiB
            (_PAYLOAD, 1, (0, 1, 0x7F, 0x80)),
            (random.randrange(_PAYLOAD, end - start), 1, (0, 1, 0x40, 0xFF)),
        )
    )
    size = min(size, end - start - at)
    value = random.choice(values) & (1 << 8 * size) - 1
    data[start + at : start + at + size] = value.to_bytes(size, "big")
    data[start + _CRC : start + _CHECKED] = crc32c.crc32c(bytes(data[start + _CHECKED : end])).to_bytes(4, "big")
    return f"{value:#x} at byte {at} of the batch at {start} of {name}, sealed again", {name: bytes(data)}


def _base_offset(files: Files, random: Random) -> Damage | None:
    """A base offset, which no checksum covers, and perhaps the end of the batch before it."""
    name = _log(files, random)
    data = bytearray(files[name])
    batches = _batches(data)
    if not batches:
        return None
    start, _ = random.choice((batches[0], batches[-1], random.choice(batches)))
    old = int.from_bytes(data[start : start + 8], "big")
    new = random.choice((-1, 0, 2**63 - 1, -(2**63), 2**60, old + 512, old + 1, old - 1, old - 512))
    data[start : start + 8] = (new & 2**64 - 1).to_bytes(8, "big")
    before = random.choice((0, 0, 4)) if start else 0
    data[start - before : start] = b"\x11" * before
    return f"base offset {old} of the batch at {start} of {name} is {new}", {name: bytes(data)}


def _bytes(files: Files, random: Random) -> Damage | None:
    """A range of any file is lost, added, zeroed or overwritten."""
    name = random.choice((_log(files, random), random.choice(sorted(files))))
    data = files[name]
    if not data:
        return None
    at = random.randrange(len(data))
    size = random.choice((1, 12, 60, 300))
    what = random.choice(("lost", "added", "zeroed", "overwritten"))
    new = {"lost": b"", "zeroed": bytes(size)}.get(what, random.randbytes(size))
    end = at if what == "added" else at + size
    return f"{size} bytes at {at} of {name} {what}", {name: data[:at] + new + data[end:]}


def _stray(files: Files, random: Random) -> Damage | None:
    """The log of a segment, or a part of it, under the name of another segment that is not there."""
    name = _log(files, random)
    directory, _, file = name.rpartition("/")
    base = int(file.removesuffix(".log"))
    number = random.choice((0, 1, 5, 7, base + 1, base + 3, base + 1000, 10**19))
    new = f"{directory}/{number:020d}.log"
    if new in files:
        return None
    data = files[random.choice((name, _log(files, random)))]
    size = random.choice((0, 40, len(data), random.randint(0, len(data))))
    return f"{size} bytes of {name} as {new}", {new: data[:size]}


_KINDS: Final[dict[str, Callable[[Files, Random], Damage | None]]] = {
    "resealed": _resealed,
    "base-offset": _base_offset,
    "bytes": _bytes,
    "stray": _stray,
}
