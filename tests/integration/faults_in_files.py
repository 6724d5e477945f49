"""Faults of what a partition has besides its logs: indexes, snapshots, epochs, topic id, files of other names.

Each function inflicts one, and describes it in a few words.
"""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING, Final

import crc32c

from tests.support.build import epoch_checkpoint, partition_metadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.faults import Faults

TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
_ENTRIES: Final = {".index": 8, ".timeindex": 12, ".txnindex": 34}
_FIELDS: Final = {
    ".index": ((0, 4), (4, 8)),
    ".timeindex": ((0, 8), (8, 12)),
    ".txnindex": ((2, 10), (10, 18), (18, 26)),
}
_EPOCHS: Final = "leader-epoch-checkpoint"
_METADATA: Final = "partition.metadata"
_SNAPSHOT_HEAD: Final = 10  # version, checksum, count
_PRODUCER: Final = struct.Struct(">qhiqiqiq")
_TORN: Final = 7


# --- indexes ----------------------------------------------------------------------------------------------------------
def _swapped(entries: list[bytes], faults: Faults) -> None:
    faults.rng.shuffle(entries)


def _last_zero(entries: list[bytes], _: Faults) -> None:
    entries[-1:] = [bytes(len(each)) for each in entries[-1:]]


def _random(entries: list[bytes], faults: Faults) -> None:
    entries[:] = [faults.rng.randbytes(len(each)) for each in entries]


def _emptied(entries: list[bytes], _: Faults) -> None:
    entries.clear()


def _torn(entries: list[bytes], faults: Faults) -> None:
    entries.append(faults.rng.choice((bytes, faults.rng.randbytes))(_TORN))


def _zero_tail(entries: list[bytes], faults: Faults) -> None:
    size = len(entries[0]) if entries else 1
    entries.append(bytes(size * faults.rng.choice((1, 3, 20))))


def _last_again(entries: list[bytes], _: Faults) -> None:
    entries += entries[-1:]


INDEX_CHANGES: Final = (_swapped, _last_zero, _random, _emptied, _torn, _zero_tail, _last_again)


def _index(faults: Faults, suffix: str) -> str:
    rng, size = faults.rng, _ENTRIES[suffix]
    there = [base for base in faults.bases if faults.log(base, suffix).exists()]
    if not there:
        return "nothing"
    base = there[-1] if rng.random() < 0.4 else rng.choice(there)
    path = faults.log(base, suffix)
    data = path.read_bytes()
    entries = [data[at : at + size] for at in range(0, len(data), size)]
    if rng.random() < 0.4 and entries:
        return f"{base}{suffix}: {_field_moved(faults, path, entries, suffix)}"
    change: Callable[[list[bytes], Faults], None] = rng.choice(INDEX_CHANGES)
    change(entries, faults)
    path.write_bytes(b"".join(entries))
    return f"{base}{suffix} {change.__name__[1:]}, {len(entries)} entries"


def _field_moved(faults: Faults, path: Path, entries: list[bytes], suffix: str) -> str:
    """A field of one entry, or of all, is higher or lower."""
    rng, (start, end) = faults.rng, faults.rng.choice(_FIELDS[suffix])
    step = rng.choice((1, 7, 61, 1000, 10**6, 2**31 - 1)) * rng.choice((1, -1))
    chosen = rng.choice((range(len(entries)), [rng.randrange(len(entries))]))
    for number in chosen:
        entry = bytearray(entries[number])
        moved = int.from_bytes(entry[start:end], "big", signed=True) + step
        entry[start:end] = (moved % 2 ** (8 * (end - start))).to_bytes(end - start, "big")
        entries[number] = bytes(entry)
    path.write_bytes(b"".join(entries))
    return f"bytes {start} to {end} of {len(chosen)} entries moved by {step}"


def offset_index(faults: Faults) -> str:
    """An offset index with wrong entries."""
    return _index(faults, ".index")


def time_index(faults: Faults) -> str:
    """A time index with wrong entries."""
    return _index(faults, ".timeindex")


def txn_index(faults: Faults) -> str:
    """A transaction index with wrong entries; one that begins with bytes of no entry where there was none."""
    if faults.bases and faults.rng.random() < 0.2:
        base = faults.some_base()
        data = faults.rng.choice((bytes(34), bytes([0, 1]) + bytes(32), bytes(10), faults.rng.randbytes(34)))
        faults.log(base, ".txnindex").write_bytes(data)
        return f"{base}.txnindex of {len(data)} bytes: {data[:2].hex()}..."
    return _index(faults, ".txnindex")


def indexes_gone(faults: Faults) -> str:
    """All indexes of a kind."""
    suffix = faults.rng.choice(list(_ENTRIES))
    for path in faults.dir.glob(f"*{suffix}"):
        path.unlink()
    return f"all {suffix} gone"


# --- snapshots --------------------------------------------------------------------------------------------------------
def _snapshots(faults: Faults) -> list[Path]:
    return sorted(faults.dir.glob("*.snapshot"))


def snapshot_bytes(faults: Faults) -> str:
    """A snapshot, or each of them, is torn, empty, of another version, or has a wrong byte."""
    rng, paths = faults.rng, _snapshots(faults)
    chosen = paths if rng.random() < 0.3 else paths[-1:] if rng.random() < 0.5 else paths[:1]
    how = rng.choice(("torn", "empty", "version", "flip", "longer"))
    for path in chosen:
        data = bytearray(path.read_bytes())
        if how == "torn":
            del data[rng.randrange(len(data) + 1) :]
        elif how == "empty":
            data.clear()
        elif how == "version":
            data[:2] = rng.choice((0, 2, 255)).to_bytes(2, "big")
        elif how == "longer":
            data += bytes(rng.choice((1, 46)))
        elif data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    return f"{how}: {[path.name for path in chosen]}"


def snapshot_elsewhere(faults: Faults) -> str:
    """A snapshot under the offset of another, of none, or beyond the end; the old one remains or not."""
    rng, paths = faults.rng, _snapshots(faults)
    if not paths:
        return "nothing"
    path = rng.choice(paths)
    offsets = (*(int(each.stem) for each in paths), int(path.stem) + 1, int(paths[-1].stem) + 1000, 0)
    other = faults.log(rng.choice(offsets), ".snapshot")
    if other != path:
        shutil.copyfile(path, other)
        if rng.random() < 0.4:
            path.unlink()
    return f"{path.name} as {other.name}, and {'there' if path.exists() else 'not there'} any more"


def snapshot_fields(faults: Faults) -> str:
    """A snapshot says something else of a producer, its checksum right."""
    rng, paths = faults.rng, [path for path in _snapshots(faults) if path.stat().st_size > _SNAPSHOT_HEAD]
    if not paths:
        return "nothing"
    path = rng.choice(paths)
    data = bytearray(path.read_bytes())
    producers = [list(each) for each in _PRODUCER.iter_unpack(data[_SNAPSHOT_HEAD:])] if _is_even(data) else []
    if not producers:
        return "nothing"
    chosen, field = rng.randrange(len(producers)), rng.randrange(1, 8)
    producers[chosen][field] = rng.choice((-1, 0, 1, 5, 1000))
    body = struct.pack(">i", len(producers)) + b"".join(_PRODUCER.pack(*each) for each in producers)
    path.write_bytes(data[:2] + crc32c.crc32c(body).to_bytes(4, "big") + body)
    return f"{path.name}: field {field} of producer {producers[chosen][0]} is {producers[chosen][field]}"


def _is_even(data: bytes) -> bool:
    return (len(data) - _SNAPSHOT_HEAD) % _PRODUCER.size == 0


def snapshots_gone(faults: Faults) -> str:
    """All snapshots, the latest, or all but the first."""
    paths = _snapshots(faults)
    chosen = faults.rng.choice((paths, paths[-1:], paths[1:], paths[:-1]))
    for path in chosen:
        path.unlink()
    return f"{len(chosen)} of {len(paths)} snapshots gone"


# --- epochs, topic id -------------------------------------------------------------------------------------------------
def epochs(faults: Faults) -> str:
    """The file of leader epochs has other entries, or is none."""
    rng, path = faults.rng, faults.dir / _EPOCHS
    end = faults.bases[-1] if faults.bases else 0
    one = [(0, 0)]
    texts = (
        b"",
        b"0\n",
        b"0\n0\n",
        b"1\n1\n0 0\n",
        b"0\n-1\n",
        b"0\n1\n0\n",
        b"0\n1\n0 x\n",
        b"0\nx\n0 0\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0 -1\n",
        b"0\n1\n0  0\n",
        b"0\n1\n0 99999999999999999999\n",
        b"\xff\xfe\n1\n0 0\n",
        epoch_checkpoint(one, count=2),
        epoch_checkpoint([(0, 0), (1, 5)], count=1),
        epoch_checkpoint([*one, (7, end + 1_000_000)]),
        epoch_checkpoint([(9, 0)]),
        epoch_checkpoint([(0, 3), (2, end)]),
        epoch_checkpoint([(3, 0), (1, end // 2)]),
        epoch_checkpoint([(0, 0), (1, end), (2, end // 2)]),
        epoch_checkpoint([(0, 0), (0, end // 2)]),
        None,
    )
    text = rng.choice(texts)
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(text)
    return f"epochs {text!r}"


def topic_id(faults: Faults) -> str:
    """The partition.metadata has another content, or is gone."""
    path = faults.dir / _METADATA
    texts = (
        b"",
        b"garbage",
        b"version: 0\n",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: short",
        b"version: x\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version:0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"topic_id: AAAAAAAAAAAAAAAAAAAAAQ\nversion: 0\n",
        partition_metadata("BBBBBBBBBBBBBBBBBBBBBQ"),
        partition_metadata(TOPIC_ID) + b"\nmore\n",
        None,
    )
    text = faults.rng.choice(texts)
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(text)
    return f"partition.metadata {text!r}"


# --- names ------------------------------------------------------------------------------------------------------------
def odd_names(faults: Faults) -> str:
    """A file or directory of another name."""
    rng = faults.rng
    base = faults.some_base() if faults.bases else 0
    name = rng.choice(
        (
            f"{base:020d}.log.bak",
            f"{base:020d}.bak",
            f"{base + 1}.log",
            f"{base + 1}.index",
            f"{base + 1:020d}.index",
            f"{base + 1:020d}.timeindex",
            f"{base + 1:020d}.txnindex",
            "foo.log",
            "foo.snapshot",
            "foo.index",
            "foo.swap",
            "foo.cleaned",
            "foo.deleted",
            "notes.txt",
            f"{_EPOCHS}.tmp",
            f"{_METADATA}.tmp",
            f"{base:020d}.txnindex.swap",
            f"{base:020d}.txnindex.cleaned",
            f"{base:020d}.snapshot.deleted",
            f"{base:020d}.log.deleted",
        )
    )
    path = faults.dir / name
    if path.exists():
        return "nothing"
    if rng.random() < 0.2 and not name.endswith(".tmp"):
        path.mkdir()
        return f"directory {name}"
    path.write_bytes(rng.choice((b"", b"x", bytes(34))))
    return f"file {name} of {path.stat().st_size} bytes"


FILE_FAULTS: Final = (
    *[offset_index] * 3,
    *[time_index] * 2,
    *[txn_index] * 2,
    indexes_gone,
    snapshot_bytes,
    snapshot_elsewhere,
    snapshot_fields,
    snapshots_gone,
    *[epochs] * 2,
    topic_id,
    odd_names,
)
