"""Logs that a real broker has written from what its own producer sent: JSON records, and keyed ones.

Where Java or Kafka's jars are not at hand, records of `benchmarks.data` take their place; `LogSet.writer` says which.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from benchmarks.data import write_log
from benchmarks.keyed import write_keyed
from kafkalog_core.ops.bench import CODECS, Recipe
from kafkalog_core.structs import Struct, asdict
from tests.integration.broker import Broker
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["CODEC_NAMES", "LogSet", "write_logs"]

CODEC_NAMES: Final = ("none", "lz4", "zstd", "gzip", "snappy")
USERS: Final = 20_000
KEYS: Final = 1_000_000
_PORTION: Final = 10_000
_RECORDS: Final = {"none": 6_000_000, "keyed": 4_000_000}
_FEWER: Final = 3_000_000
_BROKER: Final = {
    "auto.create.topics.enable": "true",
    "num.partitions": "1",
    "log.segment.bytes": "1073741824",
    "log.index.interval.bytes": "4096",
    "log.index.size.max.bytes": "10485760",
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
}


class LogSet(Struct, frozen=True):
    """The path of a log by its name: one for each codec, and `keyed`; and who wrote them."""

    writer: str
    logs: dict[str, str]


def write_logs(directory: Path, share: float) -> LogSet:
    """Write the logs, or return those that are there. share: of the usual number of records, such as 0.1."""
    note = directory / f"produced-{share}.json"
    directory = directory / f"share-{share}"
    directory.mkdir(exist_ok=True)
    if note.exists():
        return LogSet(**json.loads(note.read_text()))
    try:
        made = _by_broker(directory, share)
    except jars.MissingError as error:
        made = _by_ourselves(directory, share, str(error))
    note.write_text(json.dumps(asdict(made)))
    return made


def _by_broker(directory: Path, share: float) -> LogSet:
    libs, work = jars.fetch(), directory / "broker"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    broker = Broker(libs, work)
    broker.configure(_BROKER)
    broker.start()
    try:
        for name in (*CODEC_NAMES, "keyed"):
            _produce(broker, name, int(_RECORDS.get(name, _FEWER) * share))
    finally:
        broker.stop()
    logs = {name: _log_of(broker, name) for name in (*CODEC_NAMES, "keyed")}
    return LogSet(f"a broker {jars.KAFKA_VERSION} and its console producer", logs)


def _log_of(broker: Broker, topic: str) -> str:
    """Return the only segment of a topic."""
    (log,) = broker.partition_dir(topic).glob("*.log")
    return str(log)


def _produce(broker: Broker, topic: str, records: int) -> None:
    is_keyed = topic == "keyed"
    options = ["--reader-property", "parse.key=true"] if is_keyed else []
    options.append(f"--compression-codec={topic if topic in CODEC_NAMES else 'none'}")
    options += ["--command-property", "batch.size=16384", "--command-property", "linger.ms=50"]
    command = [broker.java_command[0], "-Xmx512m", *broker.java_command[-2:], "org.apache.kafka.tools.ConsoleProducer"]
    command += ["--bootstrap-server", broker.bootstrap, "--topic", topic, *options]
    lines = _keyed_lines(records) if is_keyed else _json_lines(records)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        if run.stdin is None:
            raise SystemExit("the console producer has no input")
        for portion in lines:
            run.stdin.write(portion)
        run.stdin.close()
    if run.returncode:
        raise SystemExit(f"the console producer ended with {run.returncode} on {topic}")


def _json_lines(records: int) -> Iterator[bytes]:
    """Yield records of some 120 bytes, a portion of lines at a time; each user has one in twenty thousand."""
    chance = random.Random(20_261_127)
    for first in range(0, records, _PORTION):
        yield b"".join(
            b'{"id":%d,"user":"user%05d","action":"%s","amount":%d,"session":"%016x","note":"%08x"}\n'
            % (
                number,
                chance.randrange(USERS),
                chance.choice((b"view", b"click", b"purchase", b"refund")),
                chance.randrange(100_000),
                chance.getrandbits(64),
                chance.getrandbits(32),
            )
            for number in range(first, min(first + _PORTION, records))
        )


def _keyed_lines(records: int) -> Iterator[bytes]:
    """Yield keys and values of 90 bytes together; each key comes four times."""
    chance = random.Random(20_261_128)
    for first in range(0, records, _PORTION):
        yield b"".join(
            b"user-%09d\t%064x\n" % (chance.randrange(KEYS), chance.getrandbits(256))
            for _ in range(first, min(first + _PORTION, records))
        )


def _by_ourselves(directory: Path, share: float, reason: str) -> LogSet:
    size_bytes = int(800_000_000 * share)
    recipes = {codec: Recipe(format="v2", codec=codec, shape="16k", mixed=True) for codec in CODECS["v2"]}
    logs = {codec: write_log(recipe, directory, size_bytes).path for codec, recipe in recipes.items()}
    records = int(_RECORDS["keyed"] * share)
    logs["keyed"] = write_keyed(directory, records, records).path
    return LogSet(f"kafkalog itself ({reason})", logs)
