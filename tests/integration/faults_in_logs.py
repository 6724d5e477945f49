"""Faults of the segments of a partition: fields with the right checksum, offsets, whole batches and whole segments.

Each function inflicts one, and describes it in a few words.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from typing import TYPE_CHECKING, Final

import crc32c

from tests.integration.faults import split_entries
from tests.support.build import empty_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.faults import Faults

_OFFSET: Final = struct.Struct(">q")
_MAGIC: Final = 16
_V2: Final = 2
_HEADER: Final = 61
_CHECKED: Final = {0: 16, 1: 16, 2: 21}  # where the bytes below the checksum begin
_EPOCH_AT: Final = (12, 16)
_DELTA_AT: Final = (23, 27)
_ATTRIBUTES_AT: Final = 22  # the low byte
_PRODUCER_AT: Final = (43, 51)
_MARKER_TIME: Final = 63
_FIELDS: Final = {
    "leader epoch": _EPOCH_AT,
    "magic": (16, 17),
    "attributes": (21, 23),
    "last offset delta": _DELTA_AT,
    "base timestamp": (27, 35),
    "max timestamp": (35, 43),
    "producer id": _PRODUCER_AT,
    "producer epoch": (51, 53),
    "base sequence": (53, 57),
    "record count": (57, 61),
}
_OLD_FIELDS: Final = {"magic": (16, 17), "attributes": (17, 18), "timestamp or key": (18, 26), "key size": (26, 30)}
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_STEPS: Final = (1, 1, 2, 5, 100, 100_000, 2**31, 2**33)
_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def _put(batch: bytearray, place: tuple[int, int], value: int) -> None:
    start, end = place
    bits = 8 * (end - start)
    batch[start:end] = (value % 2**bits).to_bytes(end - start, "big")


def _get(batch: bytearray, place: tuple[int, int]) -> int:
    return int.from_bytes(batch[place[0] : place[1]], "big", signed=True)


def _sealed(batch: bytearray) -> bytes:
    """With the checksum that it needs."""
    magic = batch[_MAGIC]
    covered = bytes(batch[_CHECKED.get(magic, _CHECKED[_V2]) :])
    if magic < _V2:
        batch[12:16] = zlib.crc32(covered).to_bytes(4, "big")
    else:
        batch[17:21] = crc32c.crc32c(covered).to_bytes(4, "big")
    return bytes(batch)


def _is_whole_v2(batch: bytes) -> bool:
    return len(batch) >= _HEADER and batch[_MAGIC] == _V2


def _change(faults: Faults, change: Callable[[list[bytes], int], str], *, fits: Callable[[bytes], bool] = bool) -> str:
    """Let `change` have the batches of a log, often of the last, and the number of one of those that fit."""
    rng = faults.rng
    if not faults.bases:
        return "nothing"
    base = faults.bases[-1] if rng.random() < 0.5 else faults.some_base()
    batches = split_entries(faults.log(base).read_bytes())
    chosen = [number for number, each in enumerate(batches) if fits(each)]
    if not chosen:
        return "nothing"
    number = rng.choice(chosen)
    at = sum(map(len, batches[:number]))
    told = change(batches, number)
    faults.log(base).write_bytes(b"".join(batches))
    return f"{told} at byte {at} of {base}"


# --- fields -----------------------------------------------------------------------------------------------------------
def wrong_field(faults: Faults) -> str:
    """A field of a batch of magic 2, its checksum right; the times of a marker and of its record stay the same."""
    rng = faults.rng

    def change(batches: list[bytes], number: int) -> str:
        batch = bytearray(batches[number])
        is_control = batch[_ATTRIBUTES_AT] & _CONTROL
        name = rng.choice([each for each in _FIELDS if not (is_control and "timestamp" in each)])
        before = _get(batch, _FIELDS[name])
        step = rng.choice((1, -1, 2, 7, 100, 2**31))
        value = rng.choice((0, -1, before + step, before ^ 1 << rng.randrange(8), 3, 2**15 - 1, 2**31 - 1))
        _put(batch, _FIELDS[name], value)
        batches[number] = _sealed(batch)
        return f"{name} {before} to {_get(batch, _FIELDS[name])}, sealed,"

    return _change(faults, change, fits=_is_whole_v2)


def wrong_attribute(faults: Faults) -> str:
    """One of the flags of a batch: a codec, a transaction, a control batch; often of a producer's."""
    rng, is_any = faults.rng, faults.rng.random() < 0.3

    def change(batches: list[bytes], number: int) -> str:
        batch, flag = (
            bytearray(batches[number]),
            rng.choice((1, 2, 3, 4, 7, 0x08, *[0x10] * 4, *[0x20] * 2, 0x40, 0x80)),
        )
        batch[_ATTRIBUTES_AT] ^= flag
        batches[number] = _sealed(batch)
        return f"attributes ^ {flag:#x}, sealed,"

    return _change(faults, change, fits=lambda each: _is_whole_v2(each) and (is_any or _producer(each) >= 0))


def _producer(batch: bytes) -> int:
    return int.from_bytes(batch[_PRODUCER_AT[0] : _PRODUCER_AT[1]], "big", signed=True)


def wrong_message(faults: Faults) -> str:
    """A field of a message of magic 0 or 1, its checksum right."""
    rng = faults.rng

    def change(batches: list[bytes], number: int) -> str:
        message = bytearray(batches[number])
        name = rng.choice(list(_OLD_FIELDS))
        before = _get(message, _OLD_FIELDS[name])
        value = rng.choice((0, -1, before + 1, before ^ 1 << rng.randrange(8), 3, 1000))
        _put(message, _OLD_FIELDS[name], value)
        batches[number] = _sealed(message)
        return f"{name} of a message {before} to {value}, sealed,"

    return _change(faults, change, fits=lambda each: len(each) >= 30 and each[_MAGIC] < _V2)


def wrong_marker(faults: Faults) -> str:
    """A byte of the record of a control batch, its checksum right.

    The record's time stays that of the batch, which is what kafkalog takes for it; no broker writes another.
    """
    rng = faults.rng

    def change(batches: list[bytes], number: int) -> str:
        batch = bytearray(batches[number])
        places = [at for at in range(_HEADER, len(batch)) if at != _MARKER_TIME] or [_HEADER - 1]
        at = rng.choice(places)
        value = rng.choice((0, 1, 2, 5, 127, 255))
        before, batch[at] = batch[at], value
        batches[number] = _sealed(batch)
        return f"byte {at} of a control batch {before} to {value}, sealed,"

    return _change(faults, change, fits=lambda each: _is_whole_v2(each) and bool(each[_ATTRIBUTES_AT] & _CONTROL))


# --- offsets ----------------------------------------------------------------------------------------------------------
def offset_moved(faults: Faults) -> str:
    """The offset of one batch, or of all from it on, forward or back; no checksum covers it."""
    rng = faults.rng

    def change(batches: list[bytes], number: int) -> str:
        step = rng.choice(_STEPS) * rng.choice((1, -1))
        last = len(batches) if rng.random() < 0.5 else number + 1
        for at in range(number, last):
            (offset,) = _OFFSET.unpack_from(batches[at])
            batches[at] = _OFFSET.pack(max(-(2**63), min(2**63 - 1, offset + step))) + batches[at][8:]
        return f"offsets of {last - number} batches moved by {step}"

    return _change(faults, change)


def batch_twice(faults: Faults) -> str:
    """A batch once more: behind itself, or at the end."""
    rng = faults.rng

    def change(batches: list[bytes], number: int) -> str:
        at = rng.choice((number + 1, len(batches)))
        batches.insert(at, batches[number])
        return f"a batch once more as number {at}"

    return _change(faults, change)


def batches_exchanged(faults: Faults) -> str:
    """Two neighbours in the wrong order."""

    def change(batches: list[bytes], number: int) -> str:
        other = max(0, number - 1)
        batches[number], batches[other] = batches[other], batches[number]
        return "two batches exchanged"

    return _change(faults, change)


def batches_gone(faults: Faults) -> str:
    """One or more batches are missing, as after compaction."""
    rng = faults.rng

    def change(batches: list[bytes], number: int) -> str:
        count = rng.choice((1, 1, 2, 5))
        del batches[number : number + count]
        return f"{count} batches gone"

    return _change(faults, change)


def batch_emptied(faults: Faults) -> str:
    """Nothing but the header is left of a batch, as the cleaner leaves it; a marker too, which it never does so."""

    def change(batches: list[bytes], number: int) -> str:
        batch = bytearray(batches[number])
        (first,) = _OFFSET.unpack_from(batch)
        empty = bytearray(empty_batch(first, first + _get(batch, _DELTA_AT)))
        empty[_EPOCH_AT[0] : _EPOCH_AT[1]] = batch[_EPOCH_AT[0] : _EPOCH_AT[1]]
        empty[_ATTRIBUTES_AT] = batch[_ATTRIBUTES_AT] & ~7
        empty[35:57] = batch[35:57]
        batches[number] = _sealed(empty)
        return "a batch emptied"

    return _change(faults, change, fits=_is_whole_v2)


# --- bytes ------------------------------------------------------------------------------------------------------------
def zeros(faults: Faults) -> str:
    """Zeros in place of bytes: a part, all from a byte on, or a page that a file system lost."""
    rng = faults.rng
    if not faults.bases:
        return "nothing"
    base = faults.bases[-1] if rng.random() < 0.5 else faults.some_base()
    data = bytearray(faults.log(base).read_bytes())
    if not data:
        return "nothing"
    start = rng.choice((0, rng.randrange(len(data)), rng.randrange(len(data)) // 512 * 512))
    end = min(len(data), rng.choice((len(data), start + 512, start + 12, start + 61)))
    data[start:end] = bytes(end - start)
    data += bytes(rng.choice((0, 0, 0, 10_000)))
    faults.log(base).write_bytes(data)
    return f"zeros from byte {start} to {end} of {base}, now {len(data)} bytes"


def half_batch(faults: Faults) -> str:
    """A batch breaks off, and whole ones follow; or a log breaks off that is not the last."""
    rng = faults.rng

    def change(batches: list[bytes], number: int) -> str:
        size = rng.randrange(len(batches[number]))
        batches[number] = batches[number][:size]
        if rng.random() < 0.3:
            del batches[number + 1 :]
        return f"{size} bytes of a batch, and {len(batches) - number - 1} after it,"

    return _change(faults, change)


def log_emptied(faults: Faults) -> str:
    """A log without bytes, its indexes as they were."""
    if not faults.bases:
        return "nothing"
    base = faults.some_base()
    faults.log(base).write_bytes(b"")
    return f"{base}.log emptied"


# --- segments ---------------------------------------------------------------------------------------------------------
def segment_gone(faults: Faults) -> str:
    """One segment with all of its files."""
    if not faults.bases:
        return "nothing"
    base = faults.some_base()
    for suffix in _SUFFIXES:
        faults.log(base, suffix).unlink(missing_ok=True)
    return f"segment {base} gone"


def _other_base(faults: Faults, base: int) -> int:
    return base + faults.rng.choice((1, 1, 2, 10, 1000, -1 if base else 1))


def segment_copied(faults: Faults) -> str:
    """A segment once more under another offset, with its indexes or without them."""
    if not faults.bases:
        return "nothing"
    base = faults.some_base()
    other = _other_base(faults, base)
    for suffix in _SUFFIXES[: faults.rng.choice((1, 2, 4))]:
        if faults.log(base, suffix).exists():
            shutil.copyfile(faults.log(base, suffix), faults.log(other, suffix))
    return f"segment {base} once more at {other}"


def segment_renamed(faults: Faults) -> str:
    """A segment under another offset."""
    if not faults.bases:
        return "nothing"
    base = faults.some_base()
    other = _other_base(faults, base)
    for suffix in _SUFFIXES[:4]:
        path: Path = faults.log(base, suffix)
        if path.exists():
            path.rename(faults.log(other, suffix))
    return f"segment {base} renamed to {other}"


def segment_prolonged(faults: Faults) -> str:
    """The batches of the next segment, or some of them, behind a segment's own."""
    rng, bases = faults.rng, faults.bases
    if len(bases) < 2:
        return "nothing"
    number = rng.randrange(len(bases) - 1)
    batches = split_entries(faults.log(bases[number + 1]).read_bytes())
    taken = batches[: rng.randrange(len(batches) + 1)]
    with faults.log(bases[number]).open("ab") as file:
        file.write(b"".join(taken))
    return f"{len(taken)} batches of the next segment behind {bases[number]}"


LOG_FAULTS: Final = (
    *[wrong_field] * 3,
    *[wrong_attribute] * 2,
    wrong_message,
    wrong_marker,
    *[offset_moved] * 2,
    batch_twice,
    batches_exchanged,
    batches_gone,
    batch_emptied,
    zeros,
    half_batch,
    log_emptied,
    segment_gone,
    segment_copied,
    segment_renamed,
    segment_prolonged,
)
