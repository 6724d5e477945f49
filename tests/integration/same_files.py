"""How two directories of one partition differ. What a codec makes of the same records counts as the same."""

from __future__ import annotations

import gzip
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import lz4.frame
import snappy
import zstandard

from tests.support.framing import FAULTY_LZ4_CHECKSUM, GZIP, LZ4, SNAPPY, XERIAL_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ENVELOPE: Final = struct.Struct(">qi")
_V2: Final = struct.Struct(">qiibIhiqqqhii")
_MAGIC: Final = 16
_V2_MAGIC: Final = 2
_WRAPPED: Final = (22, 30)  # where the value of a message without a key begins, its size in front
_CODEC: Final = 7
_LZ4_MAGIC: Final = bytes.fromhex("04224d186040")
_LZ4_CHECKSUM: Final = 6
_RIGHT_CHECKSUM: Final = b"\x82"
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_SNAPSHOT_HEAD: Final = 10  # version, checksum, count
_PRODUCER: Final = 46
_FILES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")


class _Batch(NamedTuple):
    """`content`: all of it; without the size and the checksum where it is compressed, as a codec's bytes may differ."""

    position: int
    last_offset: int
    content: tuple[object, ...]


def differences(real_dir: Path, our_dir: Path) -> list[str]:
    """What differs, a sentence each, by the files' names; their times of change count for logs."""
    real, ours = _files(real_dir), _files(our_dir)
    found = [f"{name} is not in {'ours' if name in real else 'the real one'}" for name in sorted(real ^ ours)]
    resized: set[str] = set()
    for name in sorted(real & ours, key=lambda name: (not name.endswith(".log"), name)):
        found += _file_differences(real_dir / name, our_dir / name, resized)
    return found


def split_batches(log: bytes) -> list[bytes]:
    """The batches of a log, or messages of the old formats, each by itself."""
    starts = [*(batch.position for batch in _batches(log)), len(log)]
    return [log[start:end] for start, end in pairwise(starts)]


def _files(partition_dir: Path) -> set[str]:
    """Without empty indexes of empty logs: Kafka makes them when they are used first, and misses them at a start."""
    empty = {path.stem for path in partition_dir.glob("*.log") if not path.stat().st_size}
    unused = {f"{stem}{kind}" for stem in empty for kind in (".index", ".timeindex")}
    names = {each.name for each in partition_dir.iterdir() if each.name.endswith(_FILES)}
    return {name for name in names if name not in unused or (partition_dir / name).stat().st_size}


def _file_differences(real: Path, ours: Path, resized: set[str]) -> Iterator[str]:
    """`resized`: the logs of which a codec made other sizes, so that their index entries stand elsewhere."""
    theirs, mine = real.read_bytes(), ours.read_bytes()
    if real.suffix == ".log":
        times = [each.stat().st_mtime_ns // 1_000_000 for each in (real, ours)]
        if times[0] != times[1]:
            yield f"{real.name}: changed at {times[0]}, ours at {times[1]}"
        if theirs != mine:
            resized.add(real.stem)
            yield from _log_differences(real.name, list(_batches(theirs)), list(_batches(mine)))
    elif real.suffix == ".index" and real.stem in resized:
        yield from _misled(ours, mine)
    elif real.suffix == ".timeindex" and real.stem in resized:
        return
    elif _normal(real.name, theirs) != _normal(real.name, mine):
        yield f"{real.name}: {theirs.hex()}, ours {mine.hex()}"


def _normal(name: str, content: bytes) -> bytes:
    """Without the order of a snapshot's producers, which is that of a hash map; an empty epoch checkpoint is none."""
    if name.endswith(".snapshot"):
        entries = content[_SNAPSHOT_HEAD:]
        return b"".join(sorted(entries[at : at + _PRODUCER] for at in range(0, len(entries), _PRODUCER)))
    return b"" if content == b"0\n0\n" else content


def _misled(path: Path, index: bytes) -> Iterator[str]:
    """Entries from whose positions on a reader would not find what he looks for."""
    batches = list(_batches(path.with_suffix(".log").read_bytes()))
    before = dict(
        zip((batch.position for batch in batches), (-1, *(batch.last_offset for batch in batches)), strict=False)
    )
    for relative, position in _OFFSET_ENTRY.iter_unpack(index):
        if position not in before or before[position] >= int(path.stem) + relative:
            yield f"{path.name}: entry {relative}@{position} leads to no batch, or behind the one that it is for"


def _log_differences(name: str, real: list[_Batch], ours: list[_Batch]) -> Iterator[str]:
    if len(real) != len(ours):
        yield f"{name}: {len(real)} batches, ours {len(ours)}"
    for one, other in zip(real, ours, strict=False):
        if one.content != other.content:
            yield f"{name}: at {one.position} {one.content}, ours at {other.position} {other.content}"
            return


def _batches(log: bytes) -> Iterator[_Batch]:
    position = 0
    while position < len(log):
        offset, size = _ENVELOPE.unpack_from(log, position)
        end = position + _ENVELOPE.size + size
        magic = log[position + _MAGIC]
        if magic == _V2_MAGIC:
            head = _V2.unpack_from(log, position)
            payload, codec = log[position + _V2.size : end], head[5] & _CODEC
            shown = (head[0], head[2], *head[5:], _expanded(codec, payload).hex())
            yield _Batch(position, offset + head[6], shown if codec else (*shown, head[4]))
        else:
            codec = log[position + _MAGIC + 1] & _CODEC
            value = position + _WRAPPED[magic]  # wrappers have no key
            content = _expanded(codec, _mended(log[value + 4 : end])) if codec else b""
            shown = (
                (offset, log[position + _MAGIC : value].hex(), content.hex()) if codec else (log[position:end].hex(),)
            )
            yield _Batch(position, offset, shown)
        position = end


def _mended(frame: bytes) -> bytes:
    """With the right header checksum where it is the faulty one of lz4 in magic 0."""
    is_faulty = frame.startswith(_LZ4_MAGIC) and frame[_LZ4_CHECKSUM] == FAULTY_LZ4_CHECKSUM
    return frame[:_LZ4_CHECKSUM] + _RIGHT_CHECKSUM + frame[_LZ4_CHECKSUM + 1 :] if is_faulty else frame


def _expanded(codec: int, payload: bytes) -> bytes:
    if not codec:
        return payload
    if codec == GZIP:
        return gzip.decompress(payload)
    if codec == LZ4:
        return bytes(lz4.frame.decompress(payload))
    if codec == SNAPPY:
        return b"".join(_snappy_blocks(payload))
    with zstandard.ZstdDecompressor().stream_reader(payload, read_across_frames=True) as reader:
        return reader.read()


def _snappy_blocks(payload: bytes) -> Iterator[bytes]:
    """Of a raw body the one block that it is; headers may stand between the blocks of a stream too."""
    if not payload.startswith(XERIAL_HEADER):
        yield bytes(snappy.decompress(payload))
        return
    position = 0
    while position < len(payload):
        if payload.startswith(XERIAL_HEADER, position):
            position += len(XERIAL_HEADER)
            continue
        (size,) = struct.unpack_from(">i", payload, position)
        yield bytes(snappy.decompress(payload[position + 4 : position + 4 + size]))
        position += 4 + size
