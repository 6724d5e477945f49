"""What can take the place of a damaged batch, the one that keeps most first.

1. The batch itself, if its checksum shows that all records are there: the fields that no checksum covers, and a last
   offset that no record has, are set to what the batches around it leave room for. At a batch that contradicts an open
   transaction of its producer a broker stops: it is kept without the producer. Two exchanged batches change places.
2. The transaction marker that was there, if its outcome is proved.
3. An empty batch, as the cleaner leaves one. It has the header's own fields as far as these can be right, else those
   of the producer that a later snapshot names, else none.
4. Nothing: for messages of magic 0 and 1, which leave a gap as compaction does, and where no offset is missing.

Whether a broker accepts a choice is not decided here: `excision` simulates its recovery.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.format.batch_writer import BatchHeader, encode_empty, encode_marker
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.layout import (
    CODEC_MASK,
    LEGACY_ATTRIBUTES,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V0,
    MAGIC_V2,
    MAX_INT32,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    V2_ATTRIBUTES,
    V2_BASE_TIMESTAMP,
    V2_CRC,
    V2_LAST_OFFSET_DELTA,
    V2_LEADER_EPOCH,
    V2_PRODUCER_ID,
    V2_RECORDS_COUNT,
)
from kafkalog_core.kafka.rules.batch_checks import FUTURE_MS
from kafkalog_core.ops.recover.order import in_order, offsets_in, with_offsets_from, with_right_end
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.format.snapshot import ProducerEntry
    from kafkalog_core.kafka.sim.logdir.leader_epochs import EpochStart
    from kafkalog_core.ops.recover.headers import PlaceHeader
    from kafkalog_core.ops.recover.places import DamagedPlace

__all__ = ["Clues", "LostBatch", "ProvedMarker", "Substitute", "Way", "choices"]

Way = Literal["emptied", "removed", "mended", "ordered", "moved", "unlinked", "marker"]
"""`emptied`: an empty batch takes its place. `removed`: its bytes are removed. `mended`: fields of the header are
corrected, and every record is kept. `ordered`: two batches are exchanged. `moved`: batches get the offsets back that
they had. `unlinked`: every record is kept, and the batch names no producer. `marker`: the transaction marker is
rebuilt."""

_AROUND: Final = "from the batches around it"
_NO_PRODUCER: Final = "no producer, whose fields cannot be right"


class LostBatch(NamedTuple):
    """The last batch of a producer in a place, as a later producer snapshot names it."""

    entry: ProducerEntry
    snapshot_offset: int


class ProvedMarker(NamedTuple):
    """A transaction marker whose outcome is proved: at which offset, of which producer, and by what."""

    offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    proof: str


class Clues(Struct, frozen=True, kw_only=True):
    """What is known of a place besides its bytes.

    Args:
        epochs: the entries of the leader-epoch-checkpoint.
        batches: the last batches of producers that were in the place, ascending by their last offset.
        markers: the markers in the place that are proved, ascending.
        reads_empty_markers: whether the release reads a control batch without records.
        now_ms: the time that counts as now, in milliseconds since 1970.
    """

    epochs: Sequence[EpochStart]
    batches: tuple[LostBatch, ...] = ()
    markers: tuple[ProvedMarker, ...] = ()
    reads_empty_markers: bool = True
    now_ms: int


class Substitute(NamedTuple):
    """What may take the place.

    `reconstructed` has a clause for each field that was not taken from the header; `keeps_sequence` is whether the
    producer that wrote there remains known with its last sequence number, if there was one.
    """

    way: Way
    content: bytes
    reconstructed: tuple[str, ...] = ()
    proof: str = ""
    keeps_sequence: bool = True


def choices(place: DamagedPlace, clues: Clues) -> list[Substitute]:
    """Return what can take a place, the best one first; at least one. Raises UnreadableError."""
    return [*_choices(place, clues)]


def _choices(place: DamagedPlace, clues: Clues) -> Iterator[Substitute]:
    first, last = place.first_offset, place.last_offset
    if place.kind == "exchanged":
        yield Substitute("ordered", in_order(place.path, place.segment.base_offset, place.start, place.end))
        return
    if place.kind == "moved" and first is not None:
        with Source.open(place.path) as source:
            content = with_offsets_from(first, source.read(place.start, place.size_bytes))
        yield Substitute("moved", content)
        return
    if place.is_whole and place.kind in {"damage", "misplaced", "overlong"} and first is not None and last is not None:
        yield from _mended(place, first, last, clues)
    if place.kind == "refused":
        yield from _unlinked(place)
    if first is None or last is None or place.magic < MAGIC_V2:
        yield Substitute("removed", b"")
        return
    header = _usable(place, first, last)
    if header is not None:
        marker = next((each for each in clues.markers if each.offset == last == first), None)
        if marker is not None and header.is_control:
            yield _marked(place, [(first, last)], clues, header)
        yield from _emptied_by_header(place, header, first, last, clues)
    elif clues.markers or clues.batches:
        yield from _emptied_by_clues(place, first, last, clues)
    else:
        yield from _emptied_by_first(place, first, last, clues)
    yield _plain(place, first, last, clues)


# --- mended -----------------------------------------------------------------------------------------------------------
def _mended(place: DamagedPlace, first: int, last: int, clues: Clues) -> Iterator[Substitute]:
    """Yield the batch of a place with the offsets, length and magic that it has to have, if these are certain."""
    with Source.open(place.path) as source:
        entry = bytearray(source.read(place.start, place.size_bytes))
    length, header = (place.size_bytes - LOG_OVERHEAD).to_bytes(4, "big"), place.header
    if header is None or not header.is_whole:
        old = bytes(entry[:LOG_OVERHEAD])
        entry[8:LOG_OVERHEAD] = length
        offset = _offset_of_message(entry, first, last)
        if offset is not None:
            entry[:8] = offset.to_bytes(8, "big")
            changed = (
                *_changed(old[:8], entry[:8], "its offset"),
                *_changed(old[8:], entry[8:LOG_OVERHEAD], "its size"),
            )
            yield Substitute("mended", bytes(entry), changed)
        return
    # In a log without gaps the batch fills what is missing; in a compacted one only its own offset can say where it is
    if place.kind == "overlong":
        content = with_right_end(bytes(entry), last - first + 1) if header.base_offset == first else None
        if content is not None:
            delta, count = (
                slice(V2_LAST_OFFSET_DELTA, V2_BASE_TIMESTAMP),
                slice(V2_RECORDS_COUNT, RECORD_BATCH_OVERHEAD),
            )
            corrected = (
                *_changed(entry[delta], content[delta], "its last offset delta"),
                *_changed(entry[count], content[count], "its record count"),
            )
            yield Substitute("mended", content, corrected)
        return
    if last - first != header.last_offset_delta:
        return
    epoch, _ = _epoch(place, first, clues)
    old = bytes(entry[:V2_CRC])
    entry[:8], entry[8:LOG_OVERHEAD] = first.to_bytes(8, "big"), length
    entry[V2_LEADER_EPOCH : V2_LEADER_EPOCH + 4] = epoch.to_bytes(4, "big", signed=True)
    entry[V2_CRC - 1] = MAGIC_V2
    fields = ((0, 8, "its base offset"), (8, 12, "its length"), (12, 16, "its leader epoch"), (16, 17, "its magic"))
    changed = tuple(text for start, end, what in fields for text in _changed(old[start:end], entry[start:end], what))
    if changed:
        yield Substitute("mended", bytes(entry), changed)


def _unlinked(place: DamagedPlace) -> Iterator[Substitute]:
    """Yield a batch outside of transactions without its producer, if it has one.

    A consumer reads it as before: it drops batches of aborted transactions alone, which are transactional ones
    (`CompletedFetch.isBatchAborted`). A broker appends nothing to the state of a producer for it
    (`DefaultRecordBatch.hasProducerId`).
    """
    header = place.header
    if header is None or not header.is_whole or header.producer_id < 0:
        return
    if header.is_control or header.attributes & TRANSACTIONAL_BIT:
        return
    with Source.open(place.path) as source:
        batch = bytearray(source.read(place.start, place.size_bytes))
    batch[V2_PRODUCER_ID:V2_RECORDS_COUNT] = b"\xff" * (V2_RECORDS_COUNT - V2_PRODUCER_ID)  # id, epoch, sequence: -1
    batch[V2_CRC:V2_ATTRIBUTES] = crc32c(memoryview(batch)[V2_ATTRIBUTES:]).to_bytes(4, "big")
    yield Substitute("unlinked", bytes(batch), keeps_sequence=False)


def _offset_of_message(entry: bytearray, first: int, last: int) -> int | None:
    """Return the offset that a message of magic 0 or 1 has to have to hold missing offsets; None: it is not certain.

    That of a compressed one is the last of the messages in it. In magic 0 these have their own offsets, in magic 1 they
    are numbered from the first one on (KIP-31).
    """
    magic = entry[MAGIC_POSITION]
    if not entry[LEGACY_ATTRIBUTES] & CODEC_MASK:
        return first if first == last else None
    offsets = offsets_in(entry)
    if not offsets:
        return None
    if magic == MAGIC_V0:
        return offsets[-1] if first <= offsets[0] <= offsets[-1] <= last else None
    return last if offsets[-1] - offsets[0] == last - first else None


def _changed(old: bytes | bytearray, new: bytes | bytearray, what: str) -> Iterator[str]:
    if old != new:
        was, now = (int.from_bytes(each, "big", signed=True) for each in (old, new))
        yield f"{what}, {now} in place of {was}"


# --- emptied ----------------------------------------------------------------------------------------------------------
def _usable(place: DamagedPlace, first: int, last: int) -> PlaceHeader | None:
    """Return the header of a place if its producer and attributes can be right; None: they cannot."""
    header = place.header
    if header is None or header.magic != MAGIC_V2 or not header.has_valid_producer:
        return None
    return header if last - first == header.last_offset_delta and header.record_count >= 0 else None


def _emptied_by_header(
    place: DamagedPlace, header: PlaceHeader, first: int, last: int, clues: Clues
) -> Iterator[Substitute]:
    if header.is_control and not clues.reads_empty_markers:
        return
    reconstructed = [] if header.base_offset == first else [f"base offset {first} {_AROUND}"]
    epoch, source = _epoch(place, first, clues)
    max_timestamp_ms = header.max_timestamp_ms
    if not _is_time(place, max_timestamp_ms, clues):
        max_timestamp_ms = _max_timestamp(place)
        reconstructed.append(f"largest timestamp {max_timestamp_ms} {_AROUND}")
    content = encode_empty(
        BatchHeader(
            base_offset=first,
            leader_epoch=epoch,
            attributes=header.attributes,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        ),
        last_offset_delta=last - first,
        max_timestamp_ms=max_timestamp_ms,
    )
    yield Substitute("emptied", bytes(content), (*reconstructed, *source))


def _emptied_by_clues(place: DamagedPlace, first: int, last: int, clues: Clues) -> Iterator[Substitute]:
    """Yield empty batches of the producers that a later snapshot names, and the markers that are proved.

    Each known batch has its own offsets; what is between them becomes empty batches without a producer.
    """
    marks = {each.offset: each for each in clues.markers if first <= each.offset <= last}
    spans: list[tuple[int, int]] = [(offset, offset) for offset in marks]
    known = {}
    for each in clues.batches:
        begin = max(first, each.entry.last_offset - max(0, each.entry.offset_delta))
        known[begin] = each
        spans.append((begin, each.entry.last_offset))
    spans.sort()
    # Two that overlap contradict each other, so neither counts
    if any(one[1] >= other[0] for one, other in pairwise(spans)):
        return
    cuts = [*_cuts(spans, first, last)]
    if marks and not known:
        yield _marked(place, cuts, clues, None)
    for transactional in (0, TRANSACTIONAL_BIT) if known else ():
        parts, names = [], []
        for begin, end in cuts:
            if begin in marks and begin == end:
                parts.append(_marker(place, marks[begin], clues))
                names.append(f"the marker at offset {begin} by {marks[begin].proof}")
            elif begin in known:
                entry = known[begin].entry
                delta = end - begin
                header = BatchHeader(
                    base_offset=begin,
                    leader_epoch=_epoch(place, begin, clues)[0],
                    attributes=_time_type(place) | transactional,
                    producer_id=entry.producer_id,
                    producer_epoch=entry.producer_epoch,
                    base_sequence=(entry.last_sequence - delta) & MAX_INT32,
                )
                parts.append(_empty(header, delta, entry.timestamp_ms))
                names.append(
                    f"producer {entry.producer_id}, epoch {entry.producer_epoch} and sequence {entry.last_sequence} at "
                    f"offset {end} from the producer snapshot of offset {known[begin].snapshot_offset}"
                )
            else:
                parts.append(_plain(place, begin, end, clues).content)
        around = f"offsets {first} to {last} {_AROUND}"
        yield Substitute("marker" if marks else "emptied", b"".join(parts), (around, *names), _proofs(marks.values()))


def _emptied_by_first(place: DamagedPlace, first: int, last: int, clues: Clues) -> Iterator[Substitute]:
    """Yield an empty batch by the header that begins a place of several batches, and one of no producer for the rest.

    A header that begins with the first missing offset was written there, whatever has become of what follows it.
    """
    header = place.header
    if header is None or header.magic != MAGIC_V2 or not header.has_valid_producer or header.record_count < 0:
        return
    if header.base_offset != first or not first <= header.last_offset < last:
        return
    rest = f"offsets {header.last_offset + 1} to {last} {_AROUND}"
    for choice in _emptied_by_header(place, header, first, header.last_offset, clues):
        plain = _plain(place, header.last_offset + 1, last, clues)
        content = choice.content + plain.content
        yield Substitute("emptied", content, (*choice.reconstructed, rest, _NO_PRODUCER), keeps_sequence=False)


def _cuts(spans: Sequence[tuple[int, int]], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield all offsets from first to last, divided into the spans and what is between them."""
    for begin, end in spans:
        if first < begin:
            yield first, begin - 1
        yield begin, end
        first = end + 1
    if first <= last:
        yield first, last


def _marked(
    place: DamagedPlace, cuts: Sequence[tuple[int, int]], clues: Clues, header: PlaceHeader | None
) -> Substitute:
    """Return the markers that are proved, with empty batches of no producer between them."""
    marks = {each.offset: each for each in clues.markers}
    parts = [
        _marker(place, marks[begin], clues, header) if begin in marks else _plain(place, begin, end, clues).content
        for begin, end in cuts
    ]
    proved = [marks[begin] for begin, _ in cuts if begin in marks]
    return Substitute("marker", b"".join(parts), (), _proofs(proved))


def _proofs(markers: object) -> str:
    return "; ".join(
        f"{'COMMIT' if each.is_commit else 'ABORT'} of producer {each.producer_id} at offset {each.offset}, as "
        f"{each.proof}"
        for each in markers  # type: ignore[attr-defined]
    )


def _marker(place: DamagedPlace, marker: ProvedMarker, clues: Clues, header: PlaceHeader | None = None) -> bytes:
    """Return a transaction marker (`MemoryRecords.withEndTransactionMarker`)."""
    time_ms = _max_timestamp(place)
    if header is not None and _is_time(place, header.max_timestamp_ms, clues):
        time_ms = header.max_timestamp_ms
    content = encode_marker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_commit=marker.is_commit,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp_ms=time_ms,
    )
    # Neither is covered by the checksum
    content[:8] = marker.offset.to_bytes(8, "big")
    epoch, _ = _epoch(place, marker.offset, clues)
    content[V2_LEADER_EPOCH : V2_LEADER_EPOCH + 4] = epoch.to_bytes(4, "big", signed=True)
    return bytes(content)


def _plain(place: DamagedPlace, first: int, last: int, clues: Clues) -> Substitute:
    """Return an empty batch without a producer."""
    epoch, source = _epoch(place, first, clues)
    header = BatchHeader(base_offset=first, leader_epoch=epoch, attributes=_time_type(place))
    content = _empty(header, last - first, _max_timestamp(place))
    found = place.header
    is_header = found is not None and found.is_framed(place.size_bytes)
    had_producer = found is None or not is_header or not found.names_no_producer
    what = (*source, _NO_PRODUCER) if had_producer else source
    if place.offsets_from != "header":
        what = (f"offsets {first} to {last} {_AROUND}" if first < last else f"offset {first} {_AROUND}", *what)
    return Substitute("emptied", content, what, keeps_sequence=not had_producer)


def _empty(header: BatchHeader, delta: int, max_timestamp_ms: int) -> bytes:
    return bytes(encode_empty(header, last_offset_delta=delta, max_timestamp_ms=max_timestamp_ms))


# --- single fields ----------------------------------------------------------------------------------------------------
def _epoch(place: DamagedPlace, offset: int, clues: Clues) -> tuple[int, tuple[str, ...]]:
    """Return the leader epoch of what takes a place, and how it is known, if not from the header.

    Leader epochs never decrease in a log (KIP-101): it is between those of the batches around the place.
    """
    low = NO_LEADER_EPOCH if place.before is None else place.before.leader_epoch
    high = MAX_INT32 if place.after is None or place.after.leader_epoch < 0 else place.after.leader_epoch
    header = place.header
    is_batch = header is not None and header.magic == MAGIC_V2
    if header is not None and is_batch and low <= header.leader_epoch <= high:
        return header.leader_epoch, ()
    in_file = max((each.epoch for each in clues.epochs if each.start_offset <= offset), default=NO_LEADER_EPOCH)
    if low <= in_file <= high and in_file >= 0:
        return in_file, (f"leader epoch {in_file} from leader-epoch-checkpoint",)
    epoch = low if low >= 0 else NO_LEADER_EPOCH if high == MAX_INT32 else high
    return epoch, (f"leader epoch {epoch} {_AROUND}",)


def _time_type(place: DamagedPlace) -> int:
    beside = place.before or place.after
    return 0 if beside is None or beside.magic < MAGIC_V2 else beside.attributes & TIMESTAMP_TYPE_BIT


def _max_timestamp(place: DamagedPlace) -> int:
    """Return the largest timestamp of a batch next to a place: one of the future would hold back retention."""
    beside = place.before or place.after
    return NO_TIMESTAMP if beside is None else beside.max_timestamp_ms


def _is_time(place: DamagedPlace, timestamp_ms: int, clues: Clues) -> bool:
    """Return whether a timestamp whose checksum is wrong can be right: it is not far after now and its neighbours."""
    latest = max((each.max_timestamp_ms for each in (place.before, place.after) if each is not None), default=0)
    return place.is_whole or NO_TIMESTAMP <= timestamp_ms <= max(clues.now_ms + FUTURE_MS, latest)
