"""The small files: indexes, snapshots, checkpoints, properties; control records; names; recognition by content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError
from kafkalog_core.format import index, snapshot
from kafkalog_core.format.checkpoint import read_epoch_checkpoint, read_offset_checkpoint
from kafkalog_core.format.control import decode_control_key, decode_control_value
from kafkalog_core.format.names import (
    FileKind,
    FileState,
    is_redpanda_directory_name,
    kraft_snapshot_file_name,
    parse_directory_name,
    parse_file_name,
    topic_name_problem,
)
from kafkalog_core.format.sniff import sniff
from kafkalog_core.ops.dump.entries import entries
from tools.fuzz.memory import check, memory_path
from tools.fuzz.mending import mended_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["checkpoints", "control", "indexes", "names", "properties", "sniffing"]

INDEXES: Final = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT)
CHECKPOINTS: Final = (FileKind.RECOVERY_POINT, FileKind.LEADER_EPOCH)
PROPERTIES: Final = (
    FileKind.META_PROPERTIES,
    FileKind.PARTITION_METADATA,
    FileKind.CLEAN_SHUTDOWN,
    FileKind.QUORUM_STATE,
)
_DECODERS: Final = (
    (index.decode_offset_entry, index.iter_offset_entries),
    (index.decode_time_entry, index.iter_time_entries),
    (index.decode_txn_entry, index.iter_txn_entries),
)


def indexes(data: bytes) -> object:
    """Decode indexes and snapshots; the first byte: the kind (2 bits), whether a snapshot is corrected (1 bit)."""
    switches, file = _split(data)
    kind = INDEXES[switches & 3]
    if kind is FileKind.SNAPSHOT:
        if not switches & 4:
            file = mended_snapshot(file)
        return repr(_value(lambda: tuple(snapshot.decode_snapshot(file)))), _entry_rows(file, kind)
    decode, iterate = _DECODERS[switches & 3]
    whole = list(iterate(file))
    position = 0
    for fields in whole:
        entry, position = decode(file, position)
        check(tuple(getattr(entry, name) for name in entry.__struct_fields__) == fields, "an entry read in two ways")
    check(isinstance(_value(lambda: decode(file, position)), str), "an entry after the last one")
    return whole, _entry_rows(file, kind)


def checkpoints(data: bytes) -> object:
    """Offset and epoch checkpoints, whole and in chunks; the first byte: the kind (1 bit), the size of chunks."""
    switches, file = _split(data)
    read = (read_offset_checkpoint, read_epoch_checkpoint)[switches & 1]
    size = (switches >> 1 & 15) + 1
    whole = repr(list(read([file])))
    pieces = repr(list(read(file[at : at + size] for at in range(0, len(file), size))))
    check(whole == pieces, f"whole {whole}, in pieces of {size} {pieces}")
    return whole, _entry_rows(file, CHECKPOINTS[switches & 1])


def properties(data: bytes) -> object:
    """meta.properties, partition.metadata, .kafka_cleanshutdown, quorum-state; the first byte: the kind (2 bits)."""
    switches, file = _split(data)
    return _entry_rows(file, PROPERTIES[switches & 3])


def control(data: bytes) -> object:
    """Control records; the first byte: the type of the value, or 255 for the key."""
    switches, record = _split(data)
    if switches == 255:
        return repr(_value(lambda: decode_control_key(record)))
    return repr(_value(lambda: decode_control_value(switches - 1, record)))


def names(data: bytes) -> object:
    """Names of files and directories as the system gives them: any bytes, those that are not UTF-8 as surrogates."""
    name = data.decode("utf-8", "surrogateescape")
    file, directory = parse_file_name(name), parse_directory_name(name)
    check(file.raw == name and directory.raw == name, "another name")
    is_whole = file.base_offset is not None and file.epoch is not None
    if is_whole and file.canonical and file.state is FileState.LIVE:
        spelled = kraft_snapshot_file_name(file.base_offset or 0, file.epoch or 0)
        check(spelled == name, f"a canonical name that is spelled {spelled}")
    check(not directory.canonical or directory.problem is None, "a canonical name with a problem")
    return repr((file, directory, directory.canonical, topic_name_problem(name), is_redpanda_directory_name(name)))


def sniffing(data: bytes) -> object:
    """Recognize a file by its content; the first two bytes: how much larger the file is than the bytes that follow."""
    beyond, head = int.from_bytes(data[:2], "big"), data[2:]
    return repr(sniff(head, len(head) + beyond))


def _split(data: bytes) -> tuple[int, bytes]:
    return data[:1].ljust(1, b"\0")[0], data[1:]


def _value(decode: Callable[[], object]) -> object:
    """What a decoder gives, or its error as text."""
    try:
        return decode()
    except FormatError as error:
        return f"{type(error).__name__}: {error}"


def _entry_rows(file: bytes, kind: FileKind) -> Iterable[bytes]:
    """The rows of a file as JSON lines: nothing is raised, and each line is JSON."""
    chunks = entries(memory_path(file), kind, topic="orders", partition=3, base_offset=5)
    text = [chunk.ndjson("auto") for chunk in chunks]
    for part in text:
        for line in part.split(b"\n")[:-1]:
            json.loads(line)
    return text
