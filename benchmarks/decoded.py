"""`dump --decode` on offset commits: `python -m benchmarks.decoded [--records 2000000] [--keys 100000] [--turns 3]`.

The log is one partition of `__consumer_offsets`: commits of version 4 with a topic id, drawn evenly from the keys, ten
in a batch. Measured are the codec alone (key and value of a record to Python objects), the decoder (to JSON text, with
keys that it knows, and with new ones), and whole processes: a dump with and without decoded columns, by one process and
by all cores. Prints records a second, the median of the turns and the best; decides nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Final

from benchmarks import machine
from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS
from kafkalog_core.topics.record_decoders import text_decoder_of
from kafkalog_core.wire.codec import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SEED: Final = 20_261_130
_TOPIC: Final = "__consumer_offsets"
_RECORDS_A_BATCH: Final = 10
_SEGMENT_BYTES: Final = 100 * 1024 * 1024  # offsets.topic.segment.bytes
_SAMPLE: Final = 200_000
_DUMP: Final = ("--records", "--output", "ndjson")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the log, measure, print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoded", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="offset commits (default 2000000)")
    parser.add_argument("--keys", type=int, default=100_000, help="distinct group, topic and partition")
    parser.add_argument("--turns", type=int, default=3, help="turns of each measure (default 3)")
    parser.add_argument("--dir", help="where the log is written and kept; else a temporary directory")
    options = parser.parse_args(arguments)
    for name, value in machine.description().items():
        print(f"{name}: {value}")
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        place = commit_log(Path(options.dir or scratch), options.records, options.keys)
        size_bytes = sum(file.stat().st_size for file in place.iterdir())
        print(f"{options.records} commits of {options.keys} keys, {size_bytes / 1e6:.0f} MB")
        print_heading()
        _measure_decoders(options)
        _measure_dumps(options, str(place))


# --- the log ----------------------------------------------------------------------------------------------------------
def commit_log(directory: Path, records: int, keys: int) -> Path:
    """Return the partition with the commits, which is written if it does not exist."""
    place = directory / f"commits-{records}-{keys}" / f"{_TOPIC}-0"
    if not place.exists():
        _write(place, records, keys)
    return place


def _write(place: Path, records: int, keys: int) -> None:
    place.mkdir(parents=True)
    data, base_offset, offset = bytearray(), 0, 0
    commits = _commits(records, keys)
    while batch := [record for _, record in zip(range(_RECORDS_A_BATCH), commits, strict=False)]:
        data += encode_batch(batch, BatchHeader(base_offset=offset, leader_epoch=0))
        offset += len(batch)
        if len(data) >= _SEGMENT_BYTES:
            (place / segment_file_name(base_offset, FileKind.LOG)).write_bytes(data)
            data, base_offset = bytearray(), offset
    (place / segment_file_name(base_offset, FileKind.LOG)).write_bytes(data)


def _commits(records: int, keys: int) -> Iterator[NewRecord]:
    chance = random.Random(_SEED)
    names = [*_keys(keys)]
    topic_ids = [chance.randbytes(16) for _ in range(100)]
    value_of = codec("OffsetCommitValue", 4)
    for number, key in enumerate(chance.choices(range(keys), k=records)):
        fields = {
            "offset": 1_000_000 + number,
            "leader_epoch": key % 40,
            "metadata": "",
            "commit_timestamp": FIRST_TIMESTAMP_MS + number,
            "topic_id": topic_ids[key % 100],
        }
        value = b"\0\4" + b"".join(map(bytes, value_of.encode(fields)))
        yield NewRecord(names[key], value, FIRST_TIMESTAMP_MS + number)


def _keys(count: int) -> Iterator[bytes]:
    key_of = codec("OffsetCommitKey", 0)
    for number in range(count):
        fields = {
            "group": f"payments-service-{number // 500:05d}",
            "topic": f"orders.events.{number // 20 % 25:03d}",
            "partition": number % 20,
        }
        yield b"\0\1" + b"".join(map(bytes, key_of.encode(fields)))


# --- in this process --------------------------------------------------------------------------------------------------
def measure_codec(keys: int, turns: int) -> None:
    """Print how fast keys and values of commits become Python objects."""
    sample = _sample(keys)
    key_of, value_of = codec("OffsetCommitKey", 0).decode_whole, codec("OffsetCommitValue", 4).decode_whole

    def codec_alone() -> None:
        for key, value in sample:
            key_of(memoryview(key)[2:])
            value_of(memoryview(value)[2:])

    print_passes("codec alone", _SAMPLE, [_seconds(codec_alone) for _ in range(turns)])


def _sample(keys: int) -> list[tuple[bytes, bytes]]:
    return [(bytes(each.key or b""), bytes(each.value or b"")) for each in _commits(_SAMPLE, keys)]


def _measure_decoders(options: argparse.Namespace) -> None:
    sample = _sample(options.keys)
    known = sample[:1000] * (_SAMPLE // 1000)
    new = [(key, sample[number][1]) for number, key in enumerate(_keys(_SAMPLE))]
    decode = text_decoder_of(_TOPIC)

    def decoded(records: Sequence[tuple[bytes, bytes]]) -> None:
        for key, value in records:
            if decode is None or decode(key, value).value is None:
                raise SystemExit("a commit does not decode")

    measure_codec(options.keys, options.turns)
    print_passes("to JSON, keys known", _SAMPLE, [_seconds(lambda: decoded(known)) for _ in range(options.turns)])
    print_passes("to JSON, keys new", _SAMPLE, [_seconds(lambda: decoded(new)) for _ in range(options.turns)])


def _seconds(work: Callable[[], None]) -> machine.ProcessPass:
    start, cpu_start = perf_counter(), process_time()
    work()
    return machine.ProcessPass(seconds=perf_counter() - start, cpu_seconds=process_time() - cpu_start, peak_rss_bytes=0)


# --- whole processes --------------------------------------------------------------------------------------------------
def _measure_dumps(options: argparse.Namespace, path: str) -> None:
    cores = str(os.cpu_count() or 1)
    machine.verify_process(path, "--jobs", "1")  # into the page cache
    passes: dict[str, list[machine.ProcessPass]] = {}
    for _ in range(options.turns):
        for decode in ("none", "auto"):
            for jobs in ("1", cores):
                done = machine.dump_process(path, *_DUMP, "--decode", decode, "--jobs", jobs)
                passes.setdefault(f"dump --decode {decode} --jobs {jobs}", []).append(done)
    for name, some in passes.items():
        print_passes(name, options.records, some)


def print_heading() -> None:
    """Print the titles of the columns."""
    print(f"{'':<28} {'records/s':>12} {'best':>12} {'of processor':>13} {'peak MB':>8}")


def print_passes(name: str, records: int, passes: Sequence[machine.ProcessPass]) -> None:
    """Print the figures of some turns of one measure."""
    wall, cpu = [one.seconds for one in passes], median(one.cpu_seconds for one in passes)
    peak = max(one.peak_rss_bytes for one in passes)
    # The time of the processes that a process starts is not among its own
    of_processor = f"{records / cpu:13,.0f}" if name.endswith("--jobs 1") or not peak else f"{'-':>13}"
    rates = f"{records / median(wall):12,.0f} {records / min(wall):12,.0f} {of_processor}"
    print(f"{name:<28} {rates} {peak / 1e6:8.0f}" if peak else f"{name:<28} {rates}", flush=True)


if __name__ == "__main__":
    main()
