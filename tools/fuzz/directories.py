"""Directories as inputs: bytes that hold files with their names, how they change, and where they are written."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tools.fuzz.mending import mended_log, mended_snapshot, mended_v07

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "ELSEWHERE",
    "MTIME_MS",
    "PARTITIONS",
    "SPOOL",
    "Packed",
    "empty_disk",
    "fill_disk",
    "mutated",
    "pack",
    "unpack",
    "written_paths",
]

PARTITIONS: Final = (
    "orders-0",
    "__consumer_offsets-7",
    "__cluster_metadata-0",
    "orders-0.0123456789abcdef0123456789abcdef-future",
)
MTIME_MS: Final = 1_700_000_000_000
_HEAD: Final = 2
_NAME_BYTES: Final = 255
_PREFIX: Final = "kafkalog-fuzzed-"
_SHM: Final = Path("/dev/shm")  # noqa: S108 -- where there is one: many files are written
_ROOM: Final = Path(os.environ.get("KAFKALOG_FUZZ_DISK", _SHM))
_SMALL_BYTES: Final = 64 * 1024 * 1024  # no larger disk is filled
_NAMES: Final = (
    b"00000000000000000000.log",
    b"00000000000000000000.index",
    b"00000000000000000000.timeindex",
    b"00000000000000000000.txnindex",
    b"00000000000000000005.log",
    b"00000000000000000005.snapshot",
    b"00000000000000000000.log.swap",
    b"00000000000000000000.index.swap",
    b"00000000000000000000.log.cleaned",
    b"00000000000000000000.log.deleted",
    b"00000000000000000000.kafka",
    b"00000000000000000005-0000000001.checkpoint",
    b"leader-epoch-checkpoint",
    b"partition.metadata",
    b"quorum-state",
    b"../meta.properties",
    b"../.kafka_cleanshutdown",
    b"../recovery-point-offset-checkpoint",
    b"../replication-offset-checkpoint",
    b"../log-start-offset-checkpoint",
    b"../cleaner-offset-checkpoint",
    b"../topic-0",
)


class Packed(NamedTuple):
    """One file: `switches` choose how it is written; a name that begins with `../` is next to the partition."""

    switches: int
    name: bytes
    data: bytes


def pack(options: bytes, files: Iterable[Packed]) -> bytes:
    """An input: two bytes of options, then the files."""
    out = bytearray(options[:_HEAD].ljust(_HEAD, b"\0"))
    for switches, name, data in files:
        out += bytes([switches, len(name)]) + name + len(data).to_bytes(2, "big") + data
    return bytes(out)


def unpack(data: bytes) -> tuple[bytes, list[Packed]]:
    """Options and files; the last one takes what is left."""
    files = []
    at = _HEAD
    while at + 2 < len(data):
        switches, name_bytes = data[at], data[at + 1]
        name = data[at + 2 : at + 2 + name_bytes]
        at += 2 + name_bytes
        size = int.from_bytes(data[at : at + 2], "big")
        files.append(Packed(switches, name, data[at + 2 : at + 2 + size]))
        at += 2 + size
    return data[:_HEAD], files


def mutated(data: bytes, max_bytes: int, seed: int, mutate: Callable[[bytes, int], bytes]) -> bytes:
    """One file of an input changed by `mutate`, or put away, doubled, renamed, written otherwise."""
    random = Random(seed)  # noqa: S311 -- the fuzzer's own seed
    options, files = unpack(data)
    kind = random.randrange(16)
    if kind == 0 or not files:
        options = bytes(random.randrange(256) for _ in range(_HEAD))
        files = files or [Packed(0, _NAMES[0], b"")]
    at = random.randrange(len(files))
    file = files[at]
    room = max_bytes - len(data) + len(file.data)
    if kind == 1:
        files[at] = file._replace(switches=random.randrange(256))
    elif kind == 2:
        files.insert(at, file._replace(name=random.choice(_NAMES)))
    elif kind == 3:
        del files[at]
    elif kind == 4:
        files[at] = file._replace(name=random.choice(_NAMES))
    elif kind == 5:
        files[at] = file._replace(name=mutate(file.name, 40)[:_NAME_BYTES])
    elif kind == 6:
        other = random.choice(files)
        files[at] = file._replace(data=other.data)
    elif kind > 6 and room > 0:
        files[at] = file._replace(data=mutate(file.data, min(room, 0xFFFF))[:0xFFFF])
    return pack(options, files)[:max_bytes]


def _scratch(room: Path) -> Path:
    """A directory of this process; those of processes that libFuzzer has ended go away."""
    room = room if room.is_dir() else Path(tempfile.gettempdir())
    for left in room.glob(f"{_PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(_PREFIX)).exists():
            shutil.rmtree(left, ignore_errors=True)
    scratch = room / f"{_PREFIX}{os.getpid()}"
    scratch.mkdir(exist_ok=True)
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


_SCRATCH: Final = _scratch(_ROOM)
SPOOL: Final = str(_SCRATCH)  # temporary files of a target may be made here
ELSEWHERE: Final = _scratch(Path(tempfile.gettempdir()) if _ROOM == _SHM else _SHM) / "elsewhere"
"""A directory on another file system, where there are two."""
_FILLER: Final = _SCRATCH / "filler"


def fill_disk() -> None:
    """Leave 0 bytes free on the small disk that `KAFKALOG_FUZZ_DISK` names."""
    status = os.statvfs(_SCRATCH)
    if status.f_blocks * status.f_frsize > _SMALL_BYTES:
        return
    with suppress(OSError), open(_FILLER, "ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def empty_disk() -> None:
    """Take away what filled it."""
    _FILLER.unlink(missing_ok=True)


def written_paths(partition: str, files: Iterable[Packed], which: int) -> list[str]:
    """Write the files and name the log directory, with bit 0 the partition, with bit 1 each file of it."""
    log_dir, path = _write_directory(partition, [(file.name, _mended(file)) for file in files])
    if which & 1:
        return [path]
    if which & 2:
        return sorted(os.path.join(path, name) for name in os.listdir(path)) or [path]
    return [log_dir]


def _mended(file: Packed) -> bytes:
    """Sizes and checksums in order, unless the file's switches say that it is raw (1); 2: records stand plain."""
    if file.switches & 1:
        return file.data
    if b".log" in file.name or b".checkpoint" in file.name:
        return mended_log(file.data, compresses=bool(file.switches & 2))
    if b".kafka" in file.name:
        return mended_v07(file.data, compresses=bool(file.switches & 2))
    return mended_snapshot(file.data) if b".snapshot" in file.name else file.data


def _write_directory(partition: str, files: Iterable[tuple[bytes, bytes]]) -> tuple[str, str]:
    """Write a log directory and return its path and that of its partition; files with impossible names are left out."""
    base = _SCRATCH / "data"
    shutil.rmtree(base, ignore_errors=True)
    (base / partition).mkdir(parents=True)
    for name, data in files:
        above = name.startswith(b"../")
        plain = name.removeprefix(b"../")
        if b"/" in plain or b"\0" in plain or plain in {b"", b".", b".."} or len(plain) > _NAME_BYTES:
            continue
        path = os.path.join(os.fsencode(base if above else base / partition), plain)
        if os.path.isdir(path):
            continue
        with open(path, "wb") as file:
            file.write(data)
        os.utime(path, ns=(MTIME_MS * 1_000_000, MTIME_MS * 1_000_000))
    return str(base), str(base / partition)
