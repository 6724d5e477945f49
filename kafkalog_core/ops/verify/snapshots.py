"""Producer snapshots against the state that a replay of the log gives at their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.layout import SNAPSHOT_ENTRY, SNAPSHOT_HEADER
from kafkalog_core.format.snapshot import decode_snapshot, repeated_producers
from kafkalog_core.storage.file_codes import code_of_error
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from kafkalog_core.format.snapshot import ProducerEntry
    from kafkalog_core.ops.producing.producers import ProducerStates, SnapshotStyle
    from kafkalog_core.ops.sink import Sink

__all__ = ["MAX_SNAPSHOT_BYTES", "check_snapshot"]

_EARLIER_STYLES: Final[tuple[SnapshotStyle, ...]] = ("data-time", "marker-is-batch")
MAX_SNAPSHOT_BYTES: Final = 64 * 1024 * 1024
"""A million and a half of producers; a broker holds all of them in memory."""


def check_snapshot(
    path: str, offset: int | None, states: ProducerStates | None, start_offset: int, sink: Sink, differences: Sink
) -> None:
    """Check a snapshot by itself and, where `states` are known at its offset, against them.

    Args:
        path: of the file.
        offset: the number in its name; None: none.
        states: what a replay gives at its offset; None: not known.
        start_offset: from where on the replay knows the log; what producers did before only the snapshot knows.
        sink: takes what is wrong with the file itself.
        differences: takes what it says otherwise than the log, which compaction explains.
    """
    content = _read(path, sink)
    if content is None:
        return
    repeated, seen = repeated_producers(content), set[int]()
    for slot, entry in enumerate(decode_snapshot(content)):
        position = SNAPSHOT_HEADER.size + slot * SNAPSHOT_ENTRY.size
        if entry.producer_id in seen:
            sink.add("snapshot.repeated-producer", path, position=position, producer=entry.producer_id)
        elif entry.producer_id in repeated:
            seen.add(entry.producer_id)
        last = max(entry.last_offset, entry.current_txn_first_offset)
        if offset is not None and last >= offset:
            sink.add(
                "snapshot.later-producer",
                path,
                position=position,
                size_bytes=SNAPSHOT_ENTRY.size,
                offset=last,
                producer=entry.producer_id,
                name_offset=offset,
            )
            continue
        if states is not None:
            _compare(path, position, entry, states, start_offset, differences)


def _read(path: str, sink: Sink) -> memoryview | None:
    """Return the whole file, once it is checked by itself; None: something is wrong with it."""
    try:
        with Source.open(path) as source:
            if source.size_bytes > MAX_SNAPSHOT_BYTES:
                sink.add("file.too-large", path, size_bytes=source.size_bytes)
                return None
            content = source.window(0, source.size_bytes)
        decode_snapshot(content)
    except FormatError as error:
        sink.add("snapshot.corrupt", path, position=error.position or 0, problem=error.message)
    except StorageError as error:
        sink.add(code_of_error(error), path, reason=error.message)
    else:
        return content
    return None


def _compare(
    path: str, position: int, entry: ProducerEntry, states: ProducerStates, start_offset: int, sink: Sink
) -> None:
    state = states.entry(entry.producer_id)
    if state is None:
        if entry.last_offset >= start_offset or start_offset == 0:
            sink.add(
                "snapshot.unknown-producer",
                path,
                position=position,
                offset=entry.last_offset if entry.has_batch else None,
                producer=entry.producer_id,
            )
        return
    if _is_before(entry, state, start_offset):
        return
    differences = _differences(entry, state, start_offset)
    if differences and not _is_of_earlier_release(entry, states, start_offset):
        sink.add(
            "snapshot.wrong-state",
            path,
            position=position,
            size_bytes=SNAPSHOT_ENTRY.size,
            offset=entry.last_offset if entry.has_batch else None,
            producer=entry.producer_id,
            said=", ".join(f"{name} {said}" for name, said, _ in differences),
            meant=", ".join(f"{name} {meant}" for name, _, meant in differences),
        )


def _is_before(entry: ProducerEntry, state: ProducerEntry, start_offset: int) -> bool:
    """Whether a producer was last seen before the place from which on the replay knows the log."""
    if start_offset == 0:
        return False
    return max(entry.last_offset, state.last_offset) < start_offset


def _differences(entry: ProducerEntry, state: ProducerEntry, start_offset: int) -> list[tuple[str, int, int]]:
    """What a snapshot says otherwise than the log; what was before the start of the log only the snapshot knows."""
    names = ["producer_epoch", "timestamp_ms"]
    if state.has_batch or not entry.has_batch or start_offset == 0:
        names += ["last_sequence", "last_offset", "offset_delta"]
    if entry.coordinator_epoch >= 0 and (
        state.coordinator_epoch >= 0 or start_offset == 0
    ):  # -1 too where the producer had expired since its last marker
        names.append("coordinator_epoch")
    # A transaction that was open at a hole in the log is still open in the replay: its marker may be in the hole.
    firsts = (entry.current_txn_first_offset, state.current_txn_first_offset)
    if not any(0 <= first < start_offset for first in firsts):
        names.append("current_txn_first_offset")
    pairs = ((name, int(getattr(entry, name)), int(getattr(state, name))) for name in names)
    return [(name.removesuffix("_ms").replace("_", " "), said, meant) for name, said, meant in pairs if said != meant]


def _is_of_earlier_release(entry: ProducerEntry, states: ProducerStates, start_offset: int) -> bool:
    """Return whether a release before 2.4 writes this entry: its snapshots outlive the upgrade of the broker."""
    found = (states.entry(entry.producer_id, style) for style in _EARLIER_STYLES)
    return any(state is not None and not _differences(entry, state, start_offset) for state in found)
