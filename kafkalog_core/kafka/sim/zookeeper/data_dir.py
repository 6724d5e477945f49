"""The data directory of a ZooKeeper server: snapshots and logs in the order of zxids, and the epochs next to them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import (
    DeniedError,
    FieldError,
    FormatError,
    LimitError,
    StorageError,
    UnknownFileError,
)
from kafkalog_core.format.decompression import decompress
from kafkalog_core.format.names import ZOOKEEPER_DIR
from kafkalog_core.format.streams import OddStreamError
from kafkalog_core.format.zookeeper.snapshots import decode_snapshot
from kafkalog_core.storage.listing import list_directory, names_in, stat_path
from kafkalog_core.storage.logdir import is_broker_dir
from kafkalog_core.storage.paths import exists, is_directory
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.zookeeper.snapshots import Snapshot

__all__ = ["DataDir", "ZxidFile", "is_data_dir", "read_data_dir", "read_snapshot"]

_FILE: Final = re.compile(r"(snapshot|log)\.([0-9a-fA-F]{1,16})(?:\.(gz|snappy))?")
"""Util.getZxidFromName; SnapStream.StreamMode has the endings, since 3.6."""
_CODECS: Final = {"": 0, "gz": 1, "snappy": 2}
MAX_SNAPSHOT_BYTES: Final = 4 * 1024**3
"""The largest tree that is read: ZooKeeper keeps it in memory."""
_SMALL_BYTES: Final = 64
_SIGNED: Final = 2**63


class ZxidFile(Struct, frozen=True, kw_only=True):
    """A snapshot or a log.

    Args:
        path: of the file.
        zxid: in its name: of a log the first transaction; of a snapshot the last one when it was begun.
        codec: `gz` or `snappy`; empty: not compressed.
    """

    path: str
    zxid: int
    codec: str = ""


class DataDir(Struct, frozen=True, kw_only=True):
    """The files of one server.

    Args:
        path: as it was named.
        snapshots: by zxid, the newest first.
        logs: by zxid, the oldest first.
        server_id: myid; None: there is none, as with a single server.
        current_epoch: the epoch of the leader that the server followed last; None: there is no such file (before 3.4,
            or a single server).
    """

    path: str
    snapshots: tuple[ZxidFile, ...]
    logs: tuple[ZxidFile, ...]
    server_id: int | None = None
    current_epoch: int | None = None


def is_data_dir(path: str) -> bool:
    """Return whether a path is a data directory of ZooKeeper, or its version-2; a partition may have that name too."""
    try:
        return next(_files(path), None) is not None or next(_files(f"{path}/{ZOOKEEPER_DIR}"), None) is not None
    except DeniedError:
        # A version-2 that is closed to this user: the reading then says so.
        return is_directory(f"{path}/{ZOOKEEPER_DIR}") and not is_broker_dir(path)
    except StorageError:
        return False


def read_data_dir(path: str, log_dir: str | None = None) -> DataDir:
    """Return the files of a data directory.

    Args:
        path: dataDir, or version-2 in it.
        log_dir: dataLogDir, or version-2 in it; None: the logs are with the snapshots.

    Raises NotFoundError, AccessError, and UnknownFileError if there is neither a snapshot nor a log.
    """
    inner = _version_dir(path)
    found = list(_files(inner))
    if log_dir is not None:
        found = [each for each in found if each[0] != "log"]
        found += (each for each in _files(_version_dir(log_dir)) if each[0] == "log")
    if not found:
        what = "no snapshot and no transaction log of ZooKeeper is here"
        inside = tuple(each.path for each in list_directory(path).directories if exists(f"{each.path}/{ZOOKEEPER_DIR}"))
        if inside:
            raise UnknownFileError(f"{what}, but directories in it have {ZOOKEEPER_DIR}", path=path, inside=inside)
        raise UnknownFileError(f"{what}; name dataDir, which has the directory version-2", path=path)
    return DataDir(
        path=path,
        snapshots=tuple(sorted((file for kind, file in found if kind == "snapshot"), key=_zxid, reverse=True)),
        logs=tuple(sorted((file for kind, file in found if kind == "log" and not file.codec), key=_zxid)),
        server_id=_number(f"{inner.removesuffix(ZOOKEEPER_DIR)}myid"),
        current_epoch=_number(f"{inner}/currentEpoch"),
    )


def read_snapshot(file: ZxidFile) -> Snapshot:
    """Return what a snapshot holds. Raises FormatError for damage, StorageError for what the disk cannot read."""
    with Source.open(file.path) as source:
        if source.size_bytes > MAX_SNAPSHOT_BYTES:
            raise LimitError(f"the snapshot has {source.size_bytes} bytes, more than any tree", path=file.path)
        data = source.window(0, source.size_bytes)
        if len(data) < source.size_bytes:
            raise FieldError(f"the disk cannot read it from byte {len(data)} on")
        try:
            content = decompress(_CODECS[file.codec], data, magic=0, limit_bytes=MAX_SNAPSHOT_BYTES)
        except OddStreamError as error:
            raise FieldError(error.detail, position=error.position) from error
        return decode_snapshot(memoryview(content))


def _version_dir(path: str) -> str:
    """Return the directory with the files: the one that was named, or version-2 in it."""
    path = path.rstrip("/") or "/"
    if exists(path) and not is_directory(path):
        stat_path(path)  # a link that leads nowhere or in a circle
        raise UnknownFileError("not a directory; name dataDir, which has the directory version-2", path=path)
    names = set(names_in(path))
    return path if ZOOKEEPER_DIR not in names else f"{path}/{ZOOKEEPER_DIR}"


def _files(path: str) -> Iterator[tuple[str, ZxidFile]]:
    """Yield the kinds and files of a directory. Raises StorageError."""
    for name in names_in(path):
        match = _FILE.fullmatch(name)
        if match is not None:
            kind, digits, codec = match.groups(default="")
            zxid = int(digits, 16)
            # Java reads 16 digits as a signed number, and names are written from one.
            signed = zxid - 2 * _SIGNED if zxid >= _SIGNED else zxid
            yield kind, ZxidFile(path=f"{path}/{name}", zxid=signed, codec=codec)


def _zxid(file: ZxidFile) -> int:
    return file.zxid


def _number(path: str) -> int | None:
    """Return the number in a small text file; None: there is none that can be read."""
    try:
        with Source.open(path) as source:
            return int(source.read(0, _SMALL_BYTES).decode("ascii").strip())
    except (StorageError, FormatError, ValueError):
        return None
