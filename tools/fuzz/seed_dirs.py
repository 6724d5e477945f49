"""The seeds of `verify` and `dump`: small partitions, real and built, with the other files of their directories."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from tests.ops.verify.injected_files import build as build_flavour
from tests.ops.verify.injected_log import FLAVOURS
from tests.support import build
from tools.fuzz.directories import Packed, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["DUMP_OPTIONS", "REPAIR_OPTIONS", "VERIFY_OPTIONS", "directory_seeds", "repair_seeds"]

VERIFY_OPTIONS: Final = (
    b"\x00\x00",
    b"\x40\x00",
    b"\x20\x00",
    b"\x02\x00",
    b"\x03\x01",
    b"\x00\x02",
    b"\x44\x00",
    b"\x00\x41",
)
DUMP_OPTIONS: Final = (
    b"\x01\x00",
    b"\x25\x00",
    b"\x95\x00",
    b"\x28\x00",
    b"\x42\x00",
    b"\xa0\x04",
    b"\x15\x02",
)
REPAIR_OPTIONS: Final = tuple(
    bytes([command | way << 3 | is_full << 5, 40 * (command + way) % 256])
    for is_full in (0, 1)
    for way in (0, 1, 2)
    for command in range(8)
)
_MAX_FILE_BYTES: Final = 1000
_BUILT: Final = 2  # of each flavour
_SEGMENTS: Final = 2


def directory_seeds(
    real_files: Iterable[tuple[str, bytes]], options: Sequence[bytes], max_bytes: int
) -> Iterator[bytes]:
    """Seeds that are no larger than `max_bytes`; of `real_files` the name is the path; `options` take turns."""
    for number, files in enumerate(chain(_built(), _partitions(real_files))):
        yield pack(options[number % len(options)], _cut(files, max_bytes))


def repair_seeds(real_files: Iterable[tuple[str, bytes]], max_bytes: int) -> Iterator[bytes]:
    """Seeds of repairs: those of directories, and a keyed log of three segments, the last one with a torn end."""
    yield from directory_seeds(real_files, REPAIR_OPTIONS, max_bytes)
    logs = {base: b"".join(_keyed(offset) for offset in range(base, base + 4)) for base in (0, 4, 8)}
    top = build.offset_checkpoint([("orders", 0, 12)])
    tops = [
        Packed(0, name, top) for name in (b"../recovery-point-offset-checkpoint", b"../replication-offset-checkpoint")
    ]
    files = [Packed(1, f"{base:020}.log".encode(), data) for base, data in logs.items()]
    torn = [*files[:2], files[2]._replace(data=logs[8] + logs[8][:40])]
    for options in REPAIR_OPTIONS:
        yield pack(options, _cut([*(torn if options[0] & 1 else files), *tops], max_bytes))


def _keyed(offset: int) -> bytes:
    record = build.Record(offset=offset, timestamp_ms=1000 + offset, key=b"key-%d" % (offset % 3), value=bytes(20))
    return build.batch_v2([record])


def _built() -> Iterator[list[Packed]]:
    for flavour in FLAVOURS:
        for seed in range(_BUILT):
            with TemporaryDirectory(prefix="kafkalog-fuzz-") as name:
                path = Path(name)
                build_flavour(path, flavour, Random(seed))  # noqa: S311 -- the same each time
                files = [(str(file), file.read_bytes()) for file in sorted(path.rglob("*")) if file.is_file()]
            yield from _partitions(files)


def _partitions(files: Iterable[tuple[str, bytes]]) -> Iterator[list[Packed]]:
    """Of each directory with a log the files, and those of the directory around it."""
    by_directory: dict[str, list[tuple[str, bytes]]] = {}
    for name, data in files:
        directory, _, file = name.rpartition("/")
        by_directory.setdefault(directory, []).append((file, data))
    for directory, inside in sorted(by_directory.items()):
        if not any(name.endswith((".log", ".kafka")) for name, _ in inside):
            continue
        around = by_directory.get(directory.rpartition("/")[0], [])
        logs = sorted(name for name, _ in inside if name.endswith(".log"))
        behind = logs[_SEGMENTS] if len(logs) > _SEGMENTS else "~"
        yield [
            *(
                Packed(0, name.encode(), _plain(name, data))
                for name, data in sorted(inside)
                if not name[:1].isdigit() or name < behind
            ),
            *(Packed(0, f"../{name}".encode(), data) for name, data in sorted(around)),
        ]


def _plain(name: str, data: bytes) -> bytes:
    """Without the room at the end of an active segment's index."""
    if not name.endswith(("index", ".log")):
        return data
    size = {".index": 8, ".timeindex": 12}.get(name[name.rindex(".") :], 1)
    used = data.rstrip(b"\0")
    return data[: -(-len(used) // size) * size]


def _cut(files: list[Packed], max_bytes: int) -> Iterator[Packed]:
    """Small files first, as long as they fit; logs at the end, cut."""
    left = max_bytes - 2
    for file in sorted(files, key=lambda file: (file.name.endswith((b".log", b".kafka")), file.name)):
        room = left - len(file.name) - 4
        if room < 0:
            return
        data = file.data[: min(room, _MAX_FILE_BYTES)]
        left -= len(file.name) + 4 + len(data)
        yield file._replace(data=data)
