"""`serve` beside a real broker on the same data: `python -m benchmarks.serve DATE [--megabytes 500] [--rounds 5]`.

Parts, all of them unless `--part` names some:
  fetch       one, four and sixteen raw clients, each with one Fetch of 1 MiB in flight, over the same topic
  librdkafka  four consumers of librdkafka, each reading one partition of the same topic
  latency     the 99th percentile of a small request (ApiVersions) while four clients fetch at full speed
  produce     Kafka's ProducerPerformance (1 KB, acks=all, idempotent) into a real broker and into `serve --read-write`;
              with fewer than a thousand megabytes half of what is measured is the compiler of the producer's JVM
  segments    a directory of ten thousand segments: from the start to a record of the first and of the last segment

Rounds of the two servers take turns, so that a machine that is busy meanwhile slows both. Clients are processes of
their own. CPU seconds are those of the server. Prints tables, writes `results/DATE-serve.json`, decides nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.run import RESULTS
from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.frames import encode_request
from tests.integration.broker import Broker
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOPIC: Final = "bench"
RECORD_BYTES: Final = 1000
FETCH_VERSION: Final = 11
MIB: Final = 1 << 20
USUAL: Final = {
    "log.index.interval.bytes": "4096",
    "log.index.size.max.bytes": "10485760",
    "log.retention.check.interval.ms": "300000",
    "log.initial.task.delay.ms": "30000",
    "log.cleaner.backoff.ms": "15000",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "log.segment.delete.delay.ms": "1000",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
}
"""Kafka's defaults, in the place of what the tests set; but the files of a deleted topic go after a second."""
DELETED_S: Final = 2.0
"""After that they are gone."""
PARTS: Final = ("fetch", "librdkafka", "latency", "produce", "segments")
TICKS: Final = os.sysconf("SC_CLK_TCK")


class Client:
    """One connection with one request in flight."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._room = bytearray(3 * MIB)

    def ask(self, name: str, version: int, body: dict[str, Any]) -> memoryview:
        """The response after its length; valid until the next request."""
        pieces = encode_request(name, version, body, correlation_id=1, client_id="bench")
        self._socket.sendall(b"".join(bytes(piece) for piece in pieces))  # type: ignore[call-overload]
        view = memoryview(self._room)
        self._fill(view[:4])
        (size,) = struct.unpack(">i", view[:4])
        self._fill(view[:size])
        return view[:size]

    def _fill(self, view: memoryview) -> None:
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionError("the server closed the connection")
            view = view[count:]

    def fetch(self, partition: int, offset: int) -> tuple[int, int]:
        """Bytes of records from an offset on, and the offset after the last whole batch."""
        place = {"partition": partition, "fetch_offset": offset, "log_start_offset": -1, "partition_max_bytes": MIB}
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 50 * MIB,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": TOPIC, "partitions": [place | {"current_leader_epoch": -1}]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        answer, _ = codec("FetchResponse", FETCH_VERSION).decode(self.ask("Fetch", FETCH_VERSION, body), 4)
        records = memoryview(answer["responses"][0]["partitions"][0]["records"] or b"")
        position, following = 0, offset
        while position + 27 <= len(records):
            base, size = struct.unpack_from(">qi", records, position)
            if position + 12 + size > len(records):
                break
            following = base + struct.unpack_from(">i", records, position + 23)[0] + 1
            position += 12 + size
        return len(records), following


def drain(address: str, megabytes: int, partition: int) -> float:
    """Fetch that much, and return MB/s."""
    client = Client(address)
    wanted, offset, got, start = megabytes * 1_000_000, 0, 0, time.perf_counter()
    while got < wanted:
        size, following = client.fetch(partition, offset)
        offset = following if size and following > offset else 0
        got += size
    return got / 1e6 / (time.perf_counter() - start)


def drained(address: str, clients: int, megabytes: int) -> float:
    """MB/s of all clients together."""
    with multiprocessing.Pool(clients) as pool:
        start = time.perf_counter()
        pool.starmap(drain, [(address, megabytes // clients, number % 4) for number in range(clients)])
        return megabytes / (time.perf_counter() - start)


def consume(address: str, megabytes: int, partition: int) -> None:
    """Read that much of a partition with librdkafka, from its start on as often as needed."""
    start = TopicPartition(TOPIC, partition, 0)
    settings = {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    consumer.assign([start])
    wanted, got = megabytes * 1_000_000, 0
    while got < wanted:
        messages = consumer.consume(10_000, timeout=1)
        got += sum(len(each) for each in messages if each.error() is None)
        if messages and messages[-1].error() is not None:  # the end of the partition
            consumer.seek(start)
    consumer.close()


def consumed(address: str, clients: int, megabytes: int) -> float:
    """MB/s of all consumers together."""
    with multiprocessing.Pool(clients) as pool:
        start = time.perf_counter()
        pool.starmap(consume, [(address, megabytes // clients, number % 4) for number in range(clients)])
        return megabytes / (time.perf_counter() - start)


def small_requests(address: str, until: Callable[[], bool]) -> float:
    """The 99th percentile of ApiVersions in milliseconds, one after the other."""
    client = Client(address)
    times = []
    while not until():
        start = time.perf_counter()
        client.ask("ApiVersions", 0, {"client_software_name": "", "client_software_version": ""})
        times.append(time.perf_counter() - start)
        time.sleep(0.002)
    return sorted(times)[int(len(times) * 0.99)] * 1000


def latency(address: str) -> float:
    """The same, while four clients fetch."""
    with multiprocessing.Pool(4) as pool:
        work = pool.starmap_async(drain, [(address, 600, number % 4) for number in range(4)])
        found = small_requests(address, work.ready)
        work.wait()
    return found


class Server:
    """A server in a process of its own."""

    def __init__(self, name: str, address: str, pid: int) -> None:
        self.name, self.address, self.pid = name, address, pid

    def cpu_s(self) -> float:
        """Its CPU seconds so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def serving(path: Path, *options: str) -> Iterator[Server]:
    """`kafkalog serve`."""
    command = [sys.executable, "-m", "kafkalog_cli", "serve", str(path), "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        line = process.stdout.readline() if process.stdout is not None else ""
        try:
            yield Server("kafkalog", line.split()[-1], process.pid)
        finally:
            process.terminate()


@contextmanager
def real(work_dir: Path) -> Iterator[tuple[Server, Broker]]:
    """A broker of 4.3.1 with the memory, the compiler and the settings of a usual one."""
    broker = Broker(jars.fetch(), work_dir)
    broker.configure(USUAL)
    broker.java_command = [*broker.java_command[:1], "-Xmx1g", *broker.java_command[-2:]]
    broker.start()
    try:
        yield Server("broker 4.3.1", broker.bootstrap, broker.pid), broker
    finally:
        broker.stop()


def tool(broker_java: list[str], *arguments: str) -> str:
    """The output of one of Kafka's tools."""
    command = [broker_java[0], "-Xmx512m", *broker_java[-2:], *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def fill(java: list[str], address: str, megabytes: int, compression: str = "none") -> float:
    """Produce records of 1 KB; MB/s as ProducerPerformance says."""
    output = tool(
        java,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", TOPIC, "--num-records", str(megabytes * 1000), "--record-size", str(RECORD_BYTES)),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={address}", "acks=all"),
        *("enable.idempotence=true", f"compression.type={compression}"),
    )
    return float(re.findall(r"\(([\d.]+) MB/sec\)", output)[-1])


def fill_new(java: list[str], address: str, megabytes: int) -> float:
    """Produce into a new topic, and delete it: later rounds use the memory of the page cache that it had.

    Where a virtual machine gets memory for the first time, a write takes four times as long.
    """
    client = Client(address)
    topic = {"name": TOPIC, "num_partitions": 4, "replication_factor": 1, "assignments": [], "configs": []}
    client.ask("CreateTopics", 2, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
    try:
        return fill(java, address, megabytes)
    finally:
        client.ask("DeleteTopics", 1, {"topic_names": [TOPIC], "timeout_ms": 30_000})
        time.sleep(DELETED_S)


def create(java: list[str], address: str) -> None:
    """Create the topic."""
    tool(
        java,
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", address, "--create", "--topic", TOPIC, "--partitions", "4"),
    )


def compare(rounds: int, servers: list[Server], measure: Any) -> dict[str, Any]:
    """Medians of rounds in turn, the CPU seconds of all of them, and the ratio of the first to the second."""
    rows: dict[str, list[float]] = {each.name: [] for each in servers}
    cpu = {each.name: -each.cpu_s() for each in servers}
    for _ in range(rounds):
        for each in servers:
            rows[each.name].append(measure(each.address))
    result: dict[str, Any] = {
        name: {"median": round(median(values), 2), "all": [round(v, 2) for v in values]}
        for name, values in rows.items()
    }
    for each in servers:
        result[each.name]["cpu_s"] = round(cpu[each.name] + each.cpu_s(), 2)
    first, second = (median(rows[each.name]) for each in servers)
    return result | {"ratio": round(first / second, 2)}


def measure_reads(work: Path, megabytes: int, rounds: int, parts: list[str], compression: str) -> dict[str, Any]:
    """Fetch throughput and latency."""
    results: dict[str, Any] = {}
    with real(work / "real") as (server, broker):
        create(broker.java_command, server.address)
        fill(broker.java_command, server.address, megabytes, compression)
        copy = work / "copy"
        shutil.copytree(broker.log_dir, copy)
        with serving(copy) as ours:
            for clients in (1, 4, 16) if "fetch" in parts else ():
                results[f"fetch, {clients} clients, MB/s"] = compare(
                    rounds, [ours, server], lambda address, n=clients: drained(address, n, 4 * megabytes)
                )
                print(clients, results[f"fetch, {clients} clients, MB/s"], flush=True)
            if "librdkafka" in parts:
                results[f"librdkafka, 4 consumers, {compression}, MB/s"] = compare(
                    rounds, [ours, server], lambda address: consumed(address, 4, 4 * megabytes)
                )
                print(results[f"librdkafka, 4 consumers, {compression}, MB/s"], flush=True)
            if "latency" in parts:
                results["99th percentile while four fetch, ms"] = compare(rounds, [ours, server], latency)
                print(results["99th percentile while four fetch, ms"], flush=True)
    return results


def measure_produce(work: Path, megabytes: int, rounds: int) -> dict[str, Any]:
    """Produce throughput."""
    (work / "live").mkdir()
    with real(work / "real2") as (server, broker), serving(work / "live", "--read-write") as ours:
        for each in (ours, server):  # a broker's compiler has done its work after a gigabyte
            fill_new(broker.java_command, each.address, max(megabytes, 1000))
        result = compare(rounds, [ours, server], lambda address: fill_new(broker.java_command, address, megabytes))
    print("produce", result, flush=True)
    return {"produce 1 KB, acks=all, idempotent, MB/s": result}


def measure_segments(work: Path) -> dict[str, Any]:
    """Seconds until the first and the last of ten thousand segments are served."""
    path = work / "segments" / f"{TOPIC}-0"
    path.mkdir(parents=True)
    for base in range(10_000):
        batch = encode_batch([NewRecord(b"k", b"v" * 100, 1)], BatchHeader(base_offset=base))
        (path / f"{base:020d}.log").write_bytes(batch)
    start = time.perf_counter()
    with serving(path.parent) as ours:
        client = Client(ours.address)
        sizes = [client.fetch(0, offset)[0] for offset in (0, 9_999)]
        seconds = time.perf_counter() - start
    if not min(sizes):
        raise SystemExit("a record was not served")
    print("segments", seconds, flush=True)
    return {"10,000 segments, first and last record, s": round(seconds, 2)}


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("date")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--compression", default="none", help="of the topic that is read")
    given = parser.parse_args()
    parts = given.part or list(PARTS)
    path = RESULTS / f"{given.date}-serve.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as place:
        work = Path(place)
        results["load average at the start"] = os.getloadavg()[0]
        for name in ("real", "real2"):
            (work / name).mkdir()
        if "segments" in parts:
            results |= measure_segments(work)
        if "produce" in parts:
            results |= measure_produce(work, given.megabytes, given.rounds)
        if {"fetch", "librdkafka", "latency"} & set(parts):
            results |= measure_reads(work, given.megabytes, given.rounds, parts, given.compression)
    path.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
