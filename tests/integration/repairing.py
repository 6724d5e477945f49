"""A broker's log directory that was killed and damaged, what kafkalog makes of it, and what can be seen of a start."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.format import layout
from tests.integration import clients
from tests.integration.records import KAFKALOG, Record, dump

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.integration.broker import Broker

TOPICS: Final = ("torn", "cut", "misindexed", "untouched")
COUNT: Final = 50
INDEXES: Final = (".index", ".timeindex", ".txnindex")
CLEAN: Final = "clean shutdown file was found"
UNCLEAN: Final = "no clean shutdown file was found"
RECOVERS: Final = ("Recovering unflushed", "recovering segment", "rebuilding index")
CUTS: Final = ("Corruption found", "Deleting segment", "Truncating to offset", "truncating", "scheduled for deletion")
MARKED_CLEAN: Final = ("checkpoint", "--mark-clean")
_TOO_EARLY: Final = re.compile(
    r"^.*ERROR .*ControllerApis.* error handling request RequestHeader\(apiKey=CONTROLLER_REGISTRATION,.*\n"
    r".*NotControllerException.*\n",
    re.MULTILINE,
)
REPAIRS: Final = (("checkpoint",), ("truncate", "--as-broker"), ("reindex",))
"""In this order: a checkpoint that cannot be read says where recovery begins, and recovery where a log ends."""

Contents = dict[str, str]
"""Hash of each file's content, by its path below the log directory."""


@dataclass(frozen=True, slots=True)
class Done:
    """One run of a command."""

    status: int
    rows: list[dict[str, object]]
    errors: str


@dataclass(frozen=True, slots=True)
class Patient:
    """A broker that is not running, and copies of its log directory: damaged, and repaired since."""

    broker: Broker
    damaged: Path
    repaired: Path

    def restore(self, state: Path) -> Broker:
        """The broker, with one of the states in the place of its log directory."""
        self.broker.kill()
        put(state, self.broker.log_dir)
        return self.broker

    def options(self) -> tuple[str, ...]:
        """What a command has to be told of the broker."""
        return "--config", str(self.broker.config), "--kafka", self.broker.release

    def repair(self, *command: str) -> Done:
        """Apply a command to the broker's log directory; it must come to its end."""
        done = run(*command, self.broker.log_dir, *self.options(), "--apply")
        assert done.status == 0, (done.rows, done.errors)
        return done


def make_patient(broker: Broker) -> Patient:
    """Let a running broker write, kill it, damage what it leaves, and repair that."""
    asyncio.run(_write(broker))
    _wait_for_high_watermarks(broker)
    broker.kill()
    _damage(broker)
    patient = Patient(broker, broker.work_dir / "damaged", broker.work_dir / "repaired")
    put(broker.log_dir, patient.damaged)
    for command in REPAIRS:
        patient.repair(*command)
    put(broker.log_dir, patient.repaired)
    return patient


def put(source: Path, target: Path) -> None:
    """Make a directory the copy of another."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def run(*arguments: str | Path) -> Done:
    """Run `kafkalog` in a process of its own."""
    command = [*KAFKALOG, *map(str, arguments), "--output", "ndjson"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)


async def _write(broker: Broker) -> None:
    for topic in TOPICS:
        await clients.create_topic(broker, topic, {broker.segment_bytes: broker.roll_bytes})
        await clients.send_everything(broker, random.Random(topic), topic, COUNT)
        await clients.settle_transactions(broker, topic)


def _wait_for_high_watermarks(broker: Broker) -> None:
    """Until the broker has written them, which it does every five seconds: a truncation then changes them too."""
    checkpoint = broker.log_dir / "replication-offset-checkpoint"
    deadline = time.monotonic() + 60
    while True:
        lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
        last = {line.split()[0]: int(line.split()[2]) for line in lines}
        if all(last.get(topic, 0) > int(segments(broker, topic)[-1].stem) for topic in TOPICS):
            return
        assert time.monotonic() < deadline, lines
        time.sleep(0.2)


def segments(broker: Broker, topic: str, suffix: str = ".log") -> list[Path]:
    """Files of a topic's segments."""
    return sorted(broker.partition_dir(topic).glob(f"*{suffix}"))


def _damage(broker: Broker) -> None:
    """A torn tail, a bad batch before it, indexes that lie or are gone, rubbish in snapshots and in a checkpoint."""
    last = segments(broker, "torn")[-1]
    content = last.read_bytes()
    last.write_bytes(content + content[: _first_batch_bytes(content) - 9])
    segments(broker, "torn", ".index")[1].unlink()
    bad = segments(broker, "cut")[-3]
    content = bytearray(bad.read_bytes())
    content[len(content) // 2] ^= 0xFF
    bad.write_bytes(content)
    for number, suffix in enumerate((".index", ".timeindex")):
        lying = segments(broker, "misindexed", suffix)[number]
        lying.write_bytes(b"\xff" * lying.stat().st_size)
    segments(broker, "misindexed", ".index")[2].unlink()
    for snapshot in segments(broker, "misindexed", ".snapshot"):
        snapshot.write_bytes(b"no snapshot")
    _set_recovery_points(broker, {"cut": 0}, "torn zero 1\n")


def recover_all(broker: Broker) -> None:
    """Let the next start look at every segment of the topics."""
    _set_recovery_points(broker, dict.fromkeys(TOPICS, 0))


def _set_recovery_points(broker: Broker, wanted: dict[str, int], rubbish: str = "") -> None:
    checkpoint = broker.log_dir / "recovery-point-offset-checkpoint"
    kept = [line for line in checkpoint.read_text().splitlines()[2:] if line.split()[0] not in wanted]
    lines = [*kept, *(f"{topic} 0 {offset}" for topic, offset in wanted.items())]
    checkpoint.write_text("".join(f"{line}\n" for line in (0, len(lines), *lines)) + rubbish)


def _first_batch_bytes(log: bytes) -> int:
    return layout.LOG_OVERHEAD + int.from_bytes(log[8:12], "big")


def promised(broker: Broker, *, committed: bool = False) -> dict[str, list[Record]]:
    """The records that a dump of the log directory shows."""
    options = ("--records", *(("--committed",) if committed else ()))
    return {topic: dump(*options, broker.partition_dir(topic)).records() for topic in TOPICS}


async def consumed(broker: Broker, *, committed: bool = False) -> dict[str, list[Record]]:
    """The records that a consumer gets."""
    return {topic: await clients.read_all(broker, topic, committed=committed) for topic in TOPICS}


def contents(broker: Broker, suffixes: Iterable[str]) -> Contents:
    """Of the topics' files with these suffixes."""
    paths = [path for topic in TOPICS for suffix in suffixes for path in segments(broker, topic, suffix)]
    return {str(path.relative_to(broker.log_dir)): _hash(path) for path in paths}


def journals(broker: Broker) -> Contents:
    """Of everything in the log directory that is kafkalog's own."""
    paths = [path for path in broker.log_dir.rglob("*") if "kafkalog-" in str(path.relative_to(broker.log_dir))]
    return {str(path.relative_to(broker.log_dir)): _hash(path) for path in paths if path.is_file()}


def lines_with(broker: Broker, words: Iterable[str]) -> list[str]:
    """Of its output since its last start; the log of the cluster's metadata, which is never clean, is left out.

    So is the registration of a node with itself that came before it led the quorum, as on a busy machine: it is refused
    and sent again (Kafka's ControllerRegistrationManager).
    """
    wanted = tuple(words)
    lines = [line for line in _TOO_EARLY.sub("", broker.output).splitlines() if "__cluster_metadata" not in line]
    return [line for line in lines if any(word in line for word in wanted)]


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
