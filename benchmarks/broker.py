"""Seeded data with what a broker adds to it: producers, rising timestamps, indexes, segments, a whole log directory.

The batches are those of `benchmarks.data`; their headers are written anew, so that timestamps rise from batch to batch
and, where wanted, ten idempotent producers take turns with unbroken sequences. Indexes are written by the rule of a
4.x broker with `index.interval.bytes` 0: an entry of both kinds for every batch but the first, a time entry only where
the largest timestamp has risen.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from benchmarks.data import FIRST_SEGMENT, PARTITION, LogFile
from kafkalog_core.format import layout
from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.names import FileKind, fixed_file_name, segment_file_name
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS, SEED, Recipe, seeded_log
from kafkalog_core.structs import Struct, asdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.ops.bench import SeededPiece

__all__ = ["IndexedLog", "spread_segments", "write_indexed", "write_log_dir", "write_produced", "write_segments"]

PRODUCERS: Final = 10
_FIRST_PRODUCER: Final = 1000
_TOPIC_ID: Final = "dY86piI2T52nV-5FQRA3tA"
_TOPICS: Final = 100
_EPOCHS: Final = b"0\n1\n0 0\n"


class IndexedLog(Struct, frozen=True, kw_only=True):
    """The same log three times: alone, with its offset index, and with its time index too."""

    log: LogFile
    bare: str
    with_index: str
    with_both: str
    index_bytes: int
    timeindex_bytes: int


class _Headers:
    """Writes headers anew, batch after batch of one log of magic 2."""

    def __init__(self, *, producers: bool) -> None:
        self._sequences = [0] * PRODUCERS if producers else []
        self._time_ms = FIRST_TIMESTAMP_MS
        self._batches = 0

    def rewritten(self, piece: SeededPiece) -> Iterator[tuple[bytearray, int, int]]:
        """Each batch with its last offset and its largest timestamp."""
        head, at = layout.BATCH_V2.struct, 0
        while at < len(piece.data):
            fields = list(head.unpack_from(piece.data, at))
            end = at + layout.LOG_OVERHEAD + fields[1]
            batch = bytearray(piece.data[at:end])
            span = fields[8] - fields[7]
            fields[7], fields[8] = self._time_ms, self._time_ms + span
            self._time_ms += span + 1
            if self._sequences:
                number = self._batches % PRODUCERS
                fields[9:12] = _FIRST_PRODUCER + number, 0, self._sequences[number]
                self._sequences[number] = (self._sequences[number] + fields[12]) & layout.MAX_INT32
            head.pack_into(batch, 0, *fields)
            fields[4] = crc32c(memoryview(batch)[layout.V2_ATTRIBUTES :])
            head.pack_into(batch, 0, *fields)
            self._batches += 1
            yield batch, fields[0] + fields[6], fields[8]
            at = end


def write_produced(recipe: Recipe, directory: Path, size_bytes: int) -> LogFile:
    """A log of ten idempotent producers (magic 2 alone), or the one that is there."""
    home = directory / f"{recipe.name.replace('/', '-')}-producers-{size_bytes}"
    path = home / PARTITION / f"{FIRST_SEGMENT}.log"
    note = home / "note.json"
    if (known := _known(note, path)) is not None:
        return known
    path.parent.mkdir(parents=True, exist_ok=True)
    headers, records, batches = _Headers(producers=True), 0, 0
    with path.open("wb") as file:
        for piece in seeded_log(recipe, size_bytes):
            file.writelines(batch for batch, _, _ in headers.rewritten(piece))
            batches, records = batches + piece.batch_count, records + piece.record_count
    log = LogFile(path=str(path), size_bytes=path.stat().st_size, batch_count=batches, record_count=records)
    note.write_text(json.dumps({"seed": SEED.decode(), "log": asdict(log)}))
    return log


def write_indexed(recipe: Recipe, directory: Path, size_bytes: int) -> IndexedLog:
    """A log with an index entry for every batch, in three directories that share its file."""
    home = directory / f"{recipe.name.replace('/', '-')}-indexed-{size_bytes}"
    places = [home / name / PARTITION for name in ("bare", "index", "both")]
    log, index, timeindex = (places[2] / f"{FIRST_SEGMENT}{suffix}" for suffix in (".log", ".index", ".timeindex"))
    note = home / "note.json"
    known = _known(note, log)
    if known is None:
        for place in places:
            place.mkdir(parents=True, exist_ok=True)
            (place / fixed_file_name(FileKind.LEADER_EPOCH)).write_bytes(_EPOCHS)
        known = _write_indexed(recipe, size_bytes, log, index, timeindex)
        for place in places[:2]:
            _link(log, place)
        _link(index, places[1])
        note.write_text(json.dumps({"seed": SEED.decode(), "log": asdict(known)}))
    return IndexedLog(
        log=known,
        bare=str(places[0]),
        with_index=str(places[1]),
        with_both=str(places[2]),
        index_bytes=index.stat().st_size,
        timeindex_bytes=timeindex.stat().st_size,
    )


def _write_indexed(recipe: Recipe, size_bytes: int, log: Path, index: Path, timeindex: Path) -> LogFile:
    headers, records, batches, position = _Headers(producers=False), 0, 0, 0
    pack_offset, pack_time = layout.OFFSET_INDEX_ENTRY.struct.pack, layout.TIME_INDEX_ENTRY.struct.pack
    with log.open("wb") as log_file, index.open("wb") as index_file, timeindex.open("wb") as time_file:
        for piece in seeded_log(recipe, size_bytes):
            offsets, times = bytearray(), bytearray()
            for batch, last_offset, time_ms in headers.rewritten(piece):
                if position:
                    offsets += pack_offset(last_offset, position)
                    times += pack_time(time_ms, last_offset)
                position += log_file.write(batch)
            index_file.write(offsets)
            time_file.write(times)
            batches, records = batches + piece.batch_count, records + piece.record_count
    return LogFile(path=str(log), size_bytes=position, batch_count=batches, record_count=records)


def write_segments(
    recipe: Recipe, directory: Path, size_bytes: int, segment_bytes: int
) -> tuple[str, tuple[LogFile, ...]]:
    """A partition of some segments without indexes: its directory, and its logs."""
    home = directory / f"{recipe.name.replace('/', '-')}-segments-{size_bytes}-{segment_bytes}"
    place, note = home / PARTITION, home / "note.json"
    if note.exists():
        return str(place), tuple(LogFile(**one) for one in json.loads(note.read_text())["logs"])
    place.mkdir(parents=True, exist_ok=True)
    logs: list[LogFile] = []
    file: BinaryIO | None = None
    offset = written = batches = records = 0
    for piece in seeded_log(recipe, size_bytes):
        if file is None:
            file = (place / segment_file_name(offset, FileKind.LOG)).open("wb")
        written += file.write(piece.data)
        batches, records = batches + piece.batch_count, records + piece.record_count
        offset += piece.record_count
        if written >= segment_bytes:
            logs.append(_closed(file, written, batches, records))
            file, written, batches, records = None, 0, 0, 0
    if file is not None:
        logs.append(_closed(file, written, batches, records))
    note.write_text(json.dumps({"seed": SEED.decode(), "logs": [asdict(log) for log in logs]}))
    return str(place), tuple(logs)


def spread_segments(logs: Sequence[LogFile], home: Path) -> str:
    """A directory of partitions with one of the segments each, which share their files with those given."""
    for number, log in enumerate(logs):
        place = home / f"large-{number}"
        place.mkdir(parents=True, exist_ok=True)
        _link(Path(log.path), place)
    return str(home)


def _closed(file: BinaryIO, written: int, batches: int, records: int) -> LogFile:
    file.close()
    return LogFile(path=file.name, size_bytes=written, batch_count=batches, record_count=records)


# --- a log directory of many small partitions -------------------------------------------------------------------------
def write_log_dir(directory: Path, partitions: int) -> str:
    """A log directory that a KRaft broker has left by a clean stop; each partition has one segment of four batches."""
    home = directory / f"log-dir-{partitions}"
    if (home / "meta.properties").exists():
        return str(home)
    batches = []
    for piece in seeded_log(Recipe(format="v2", codec="none", shape="single"), 1000):
        batches += list(_Headers(producers=True).rewritten(piece))
    end_offset = batches[-1][1] + 1
    files = _partition_files(batches, end_offset)
    entries = []
    for number in range(partitions):
        topic, partition = f"topic-{number % _TOPICS:03d}", number // _TOPICS
        place = home / f"{topic}-{partition}"
        place.mkdir(parents=True)
        for name, data in files.items():
            (place / name).write_bytes(data)
        topic_id = f"{topic.replace('-', '_'):A<21}A"
        (place / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        entries.append(f"{topic} {partition} {end_offset}\n")
    checkpoint = f"0\n{len(entries)}\n" + "".join(entries)
    for kind in (FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK):
        (home / fixed_file_name(kind)).write_text(checkpoint)
    for kind in (FileKind.LOG_START_OFFSET, FileKind.CLEANER_OFFSET):
        (home / fixed_file_name(kind)).write_text("0\n0\n")
    (home / fixed_file_name(FileKind.CLEAN_SHUTDOWN)).write_text('{"version":0,"brokerEpoch":7}')
    (home / "meta.properties").write_text(
        "#\n#Thu Jan 01 00:00:00 UTC 1970\nversion=1\nnode.id=1\n"
        f"cluster.id=JP8dLpwyRqt7lTsK7P_TbQ\ndirectory.id={_TOPIC_ID}\n"
    )
    return str(home)


def _partition_files(batches: list[tuple[bytearray, int, int]], end_offset: int) -> dict[str, bytes]:
    """A segment, its indexes as a clean stop trims them, the snapshot of its producers and its leader epochs."""
    _, last_offset, time_ms = batches[-1]
    entries = bytearray()
    for number, (batch, last, last_time) in enumerate(batches):
        count = layout.BATCH_V2.struct.unpack_from(batch)[12]
        state = (_FIRST_PRODUCER + number, 0, count - 1, last, count - 1, last_time, -1, -1)
        entries += layout.SNAPSHOT_ENTRY.struct.pack(*state)
    covered = len(batches).to_bytes(4, "big") + entries
    head = layout.SNAPSHOT_HEADER.struct.pack(layout.SNAPSHOT_VERSION, crc32c(covered), len(batches))
    return {
        segment_file_name(0, FileKind.LOG): b"".join(batch for batch, _, _ in batches),
        segment_file_name(0, FileKind.OFFSET_INDEX): b"",
        segment_file_name(0, FileKind.TIME_INDEX): layout.TIME_INDEX_ENTRY.struct.pack(time_ms, last_offset),
        segment_file_name(end_offset, FileKind.SNAPSHOT): head + entries,
        fixed_file_name(FileKind.LEADER_EPOCH): _EPOCHS,
    }


def _known(note: Path, path: Path) -> LogFile | None:
    if not (note.exists() and path.exists()):
        return None
    known = json.loads(note.read_text())
    agrees = known["seed"] == SEED.decode() and path.stat().st_size == known["log"]["size_bytes"]
    return LogFile(**known["log"]) if agrees else None


def _link(file: Path, directory: Path) -> None:
    target = directory / file.name
    target.unlink(missing_ok=True)
    os.link(file, target)
