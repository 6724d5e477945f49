"""What Kafka 4.3.1 and three clients do with wrong batches, by running them; `client_table.txt` has the results.

    python -m tests.integration.client_table [--work DIR] [WORD...]

Words choose the kinds that have one of them in their titles; the lines of the others are kept as they are.

Each batch of `tests/support/wrong_batches.py` is the content of a topic. Kafka's own log loader (`LogHarness`) starts
on it, as the first batch of the log and after a good one, after a clean shutdown and after an unclean one. Where a
broker starts on it after a clean shutdown, three clients with their default settings read the log, in which good
records are before and after the wrong batch. The batch alone, at offset 0, is what a producer sends to the broker.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import confluent_kafka

from tests.integration.broker import Broker
from tests.integration.clients import create_topic
from tests.integration.log_harness import HarnessError, running_harness
from tests.support import jars
from tests.support.asking import SocketClient
from tests.support.client_table import COLUMNS, FAILS, TABLE, key, lay, outcome_of_start, read
from tests.support.wrong_batches import AFTER, BEFORE, KINDS, NOW_MS, VALUES, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.integration.log_harness import LogHarness

HEAD: Final = """What Kafka 4.3.1 and its clients do with wrong batches, by `python -m tests.integration.client_table`.

A line for each kind of `tests/support/wrong_batches.py`, with tabs between the columns:
  magic, codec, kind   of the batch, which holds three records unless its kind says otherwise
  findings      what verify calls it
  first         how Kafka's own log loader starts where it is the first batch of the log: after a clean shutdown / after
                an unclean one; `loads`, `truncates` (at the batch), `empties` (the whole log) or `fails`
  later         the same where a good batch is before it
  produced      what a broker answers to a producer that sends it (error code 0: it appends the batch)
  java, librdkafka, kafka-python   what a consumer with default settings gets of the batch between two good ones:
                `all` its records, `2 of 3`, or `none`; then whether it `goes on` with the records after it, `stops`
                there (with the error that it raises, if any), `skips` good records, or reads the same records `again`
                and again. `others`: records with other values; `null`: one without a value. `-`: no broker starts
                on the log.
Java: kafka-clients 4.3.1. librdkafka: {librdkafka}. kafka-python: {kafka_python}, and xxhash, for lz4 of magic 0.
"""
_IDLE_S: Final = 2.5
_HANG_S: Final = 10
_MOST_RECORDS: Final = 60
_PRODUCE: Final = 9
_LINE: Final = 150
_NULL: Final = "null"
_AT_A_TIME: Final = 90
"""Kinds for which one broker has topics."""
_CLIENTS_AT_A_TIME: Final = 4
"""They mostly wait."""


class Got(NamedTuple):
    """What a consumer got of a topic: values in order, and why it stopped; it is at `position`."""

    values: tuple[str, ...]
    position: int
    error: str = ""


def describe(kind: Kind, got: Got) -> str:
    """What became of the wrong batch, in the words of the table."""
    good = sum(value == "good" for value in got.values)
    wrong = [value for value in got.values if value != "good"]
    known = [value.decode() for value in VALUES]
    found = [value for value in known if value in wrong]
    what = "all" if len(found) == len(known) else f"{len(found)} of {len(known)}" if found else "none"
    if set(wrong) - {*known, _NULL}:
        what += " and others"
    elif _NULL in wrong:
        what += f" and {_NULL}"
    repeats = len(got.values) > BEFORE + AFTER + len(known) or len(wrong) > len(set(wrong))
    error = f": {got.error}" if got.error else ""
    if len(got.values) >= _MOST_RECORDS:
        return f"{what}, again{error}"
    if good >= BEFORE + AFTER and not got.error:
        return f"{what}, twice, goes on" if repeats else f"{what}, goes on"
    if got.position >= BEFORE + kind.span + AFTER and not got.error:
        return f"{what}, skips {BEFORE + AFTER - good} after it"
    return f"{what}, stops{error}"


# --- the clients ------------------------------------------------------------------------------------------------------
def read_with_java(libs: Path, bootstrap: str, topics: Sequence[str]) -> list[Got]:
    """What the Java consumer of the release gets."""
    program = Path(__file__).parent / "java" / "ReadEach.java"
    command = ["java", *jars.QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", f"{libs}/*", str(program)]
    done = subprocess.run([*command, bootstrap, *topics], capture_output=True, text=True, check=True)
    found = []
    for line in done.stdout.splitlines():
        _, records, position, error = line.split("\t")
        values = tuple(each.partition("=")[2] for each in records.split())
        found.append(Got(values, int(position), error))
    return found


def read_apart(client: str, bootstrap: str, topic: str) -> Got:
    """What a client gets, in a process of its own: some never end at some batches."""
    command = [sys.executable, "-m", __spec__.name, "--read", client, bootstrap, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        values, position, error = json.loads(line) if line else ((), -1, "the process ends")
        try:
            process.wait(_HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            error = "it hangs, and does not close"
    return Got(tuple(values), position, error)


def _read_with_librdkafka(bootstrap: str, topic: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    consumer = confluent_kafka.Consumer(settings)
    values: list[str] = []
    error, position, until = "", 0, time.monotonic() + _IDLE_S
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    while time.monotonic() < until and len(values) < _MOST_RECORDS:
        message = consumer.poll(0.2)
        failure = None if message is None else message.error()
        if failure is not None:
            error = f"{failure.name()}: {failure.str()}"
        elif message is not None:
            values.append(_text(message.value()))
            position, until = message.offset() + 1, time.monotonic() + _IDLE_S
    _tell(values, position, error)
    consumer.close()


def _read_with_kafka_python(bootstrap: str, topic: str) -> None:
    kafka = import_module("kafka")  # with a warning, which is an error in tests
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, fetch_max_wait_ms=100)
    place = kafka.TopicPartition(topic, 0)
    values: list[str] = []
    error, until = "", time.monotonic() + _IDLE_S
    consumer.assign([place])
    consumer.seek(place, 0)
    try:
        while time.monotonic() < until and len(values) < _MOST_RECORDS:
            got = consumer.poll(timeout_ms=300).get(place, ())
            values += [_text(each.value) for each in got]
            until = time.monotonic() + _IDLE_S if got else until
    except Exception as problem:  # noqa: BLE001 - whatever it raises is what a program sees
        error = f"{type(problem).__name__}: {problem}"
    position = consumer.position(place)
    _tell(values, -1 if position is None else position, error)
    consumer.close()


def _text(value: bytes | None) -> str:
    return _NULL if value is None else value.decode(errors="replace")


def _tell(*got: object) -> None:
    """Say what was got before the client is closed, which may hang."""
    sys.stdout.write(json.dumps(got) + "\n")
    sys.stdout.flush()


_READERS: Final = {"librdkafka": _read_with_librdkafka, "kafka-python": _read_with_kafka_python}


# --- the broker -------------------------------------------------------------------------------------------------------
def start_of(harness: LogHarness, kind: Kind, work: Path, *, is_first: bool, is_clean: bool) -> str:
    """How Kafka's log loader starts on a log of this kind."""
    partition = work / "t-0"
    shutil.rmtree(partition, ignore_errors=True)
    lay(partition, kind, is_first=is_first)
    log = partition / f"{0:020d}.log"
    before = log.stat().st_size
    try:
        harness.run("start", partition, NOW_MS, {}, clean=int(is_clean), rp=0, start=0)
    except HarnessError:
        return FAILS
    return outcome_of_start(before, log.stat().st_size if log.exists() else 0, is_first=is_first)


def produce(bootstrap: str, topic: str, batch: bytes) -> str:
    """What a broker answers to a producer that sends a batch: the error code, and its text."""
    data = {"index": 0, "records": batch}
    body = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [{"name": topic, "partition_data": [data]}],
    }
    with SocketClient(bootstrap) as client:
        answer = client.ask("Produce", _PRODUCE, **body)
    (each,) = answer["responses"][0]["partition_responses"]
    reasons = [error["batch_index_error_message"] or "" for error in each["record_errors"] or ()]
    text = each["error_message"] or "; ".join(reasons)
    return f"{each['error_code']}" + (f" {text}" if text else "")


def run(kinds: Sequence[Kind], work: Path) -> Iterator[tuple[str, ...]]:
    """Run everything; the lines of the table."""
    for first in range(0, len(kinds), _AT_A_TIME):
        place = work / str(first)
        place.mkdir()
        yield from _run(kinds[first : first + _AT_A_TIME], place)
        shutil.rmtree(place)


def _run(kinds: Sequence[Kind], work: Path) -> list[tuple[str, ...]]:
    libs = jars.fetch()
    Broker.archive_classes(libs)
    rows = []
    starts: dict[str, tuple[str, str]] = {}
    with running_harness() as harness:
        for number, kind in enumerate(kinds):
            found = [
                "/".join(
                    start_of(harness, kind, work, is_first=is_first, is_clean=is_clean) for is_clean in (True, False)
                )
                for is_first in (True, False)
            ]
            starts[f"k{number}"] = (found[0], found[1])
    topics = {f"k{number}": kind for number, kind in enumerate(kinds)}
    served = [topic for topic in topics if not starts[topic][1].startswith(FAILS)]
    broker = Broker(libs, work)
    try:
        broker.start()
        asyncio.run(_create(broker, topics))
        produced = {
            topic: _shown(produce(broker.bootstrap, f"p-{topic}", kind.make(0))) for topic, kind in topics.items()
        }
        broker.stop()
        for topic in served:
            lay(broker.partition_dir(topic), topics[topic])
        broker.start()
        java = dict(zip(served, read_with_java(libs, broker.bootstrap, served), strict=True))
        with ThreadPoolExecutor(_CLIENTS_AT_A_TIME) as pool:
            others = {
                topic: [pool.submit(read_apart, each, broker.bootstrap, topic) for each in _READERS] for topic in served
            }
            for topic, kind in topics.items():
                got = ["-", "-", "-"]
                if topic in java:
                    all_got = [java[topic], *(each.result() for each in others[topic])]
                    got = [_shown(describe(kind, each)) for each in all_got]
                rows.append((*key(kind), kind.codes, *starts[topic], produced[topic], *got))
                sys.stderr.write("\t".join(rows[-1]) + "\n")
    finally:
        broker.close()
    return rows


async def _create(broker: Broker, topics: Iterable[str]) -> None:
    for topic in topics:
        await create_topic(broker, topic, {})
        await create_topic(broker, f"p-{topic}", {})


def _shown(text: str) -> str:
    """One line, without what differs from run to run: names of topics, addresses of objects."""
    text = re.sub(r"\b(?:p-)?k\d+(?=-0\b|')", "TOPIC", re.sub(r"\s+", " ", text))
    text = re.sub(r"@[0-9a-f]{6,8}\b|0x[0-9a-f]{8,}", "@", text)
    return text if len(text) <= _LINE else text[: _LINE - 3] + "..."


def main() -> None:
    """Run all kinds, or those whose name has one of some words in it, and keep the table of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--read", choices=sorted(_READERS))
    options = parser.parse_args()
    if options.read:
        _READERS[options.read](*options.words)
        return
    kinds = [kind for kind in KINDS if not options.words or any(word in kind.title for word in options.words)]
    kept = {} if not TABLE.exists() else {tuple(row.values())[:3]: tuple(row.values())[4:] for row in read()}
    with tempfile.TemporaryDirectory() as scratch:
        for row in run(kinds, options.work or Path(scratch)):
            kept[row[:3]] = row[4:]
    head = HEAD.format(
        librdkafka=confluent_kafka.libversion()[0], kafka_python=importlib.metadata.version("kafka-python")
    )
    rows = ((*key(kind), kind.codes, *kept[key(kind)]) for kind in KINDS if key(kind) in kept)
    lines = ["\t".join(row) for row in (COLUMNS, *rows)]
    TABLE.write_text(f"{head}\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
