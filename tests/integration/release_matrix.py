"""What kafkalog says of the disks of every minor release, cleanly stopped and killed, and what the release does itself.

    python -m tests.integration.release_matrix [--work DIR] [RELEASE...]

For each release a real broker writes transactions (aborted ones without data too), idempotent producers, compacted
topics with tombstones, retention, rolls and groups. Then it is stopped, and once more killed. `release_matrix.txt` is
the table of the results; what was made is kept in DIR, so that a second call only checks again (`--remake` makes all
again). Exit status 1: a line differs from what is right.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import traceback
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.kafka.sim.evidence import infer_release
from tests.integration.releases import QUIET, VERSIONS, broker_of, has_admin, make_topic, numbers_of, write
from tests.support.corpus import recovering
from tests.support.corpus.replaying import cut, foreseen, stops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.integration.broker import Broker

TABLE: Final = Path(__file__).with_suffix(".txt")
_CONFIGS: Final = (0, 8, 1)
_PRODUCERS: Final = (0, 11)
_GROUPS: Final = (0, 10)
_MODERN_GROUPS: Final = (4, 0)
_ZSTD: Final = (2, 1)
_OTHER_SEGMENT_BYTES: Final = (4, 1)
_PAUSE_SECONDS: Final = 4
_SEED: Final = 20
_HEAD: Final = """What kafkalog says of real brokers' disks, by `python -m tests.integration.release_matrix --table`.

verify clean, verify killed: exit status, then findings of severity error and warning by code; the transaction that
  txn.open names was left open on purpose.
reindex clean: exit status, and changes that are planned where there are any.
recovery: whether the simulated start and `truncate --as-broker` leave the files that the broker's next start left.
  Dies as foreseen: the broker did not start on its own disk, and the simulation says why.
inferred: the candidates without `--kafka`.
Brokers of 0.8 to 3.2 ran with ZooKeeper, of 3.3 and later as KRaft nodes; those before 2.8 on Java 11. Before 0.11
there are no transactions and idempotent producers, in 0.8.0 no compaction; before 0.10 the writer has no groups (its
clients are those of 0.8.2), before 0.11 nothing moves the log start but retention. Broker and client jars are those of
Maven Central; 2.4.1 and 2.5.1 are the builds for Scala 2.12.

Neighbours that prove a rule (see kafkalog_core/kafka/rules/releases.py, loader_rules.py, release_evidence.py):
  0.11.0.3 / 1.0.2  a snapshot takes a marker for a batch / it does not
  1.1.1 / 2.0.1     a broker dies of an emptied control batch (on the disk of 0.11.0.3) / it passes over it
  3.6.2 / 3.7.2     a partition that the metadata log does not assign is deleted / it is renamed to -stray
  2.3.1 / 2.4.1     a marker's time is not a producer's last timestamp / it is
  2.3.1 / 2.4.1     producers below the log's start are dropped / they are kept
  2.3.1 / 2.4.1     meta.properties without cluster.id / with it
  2.7.2 / 2.8.2     aborted transactions without data are in the .txnindex / they are not
  3.6.2 / 3.7.2     .kafka_cleanshutdown is empty / it is JSON; no directory.id / there is one
  4.3.1 / 4.4.0     a clean stop trims the metadata log's indexes / it leaves them preallocated

"""
DIED: Final = "died.txt"


@dataclass(kw_only=True)
class Line:
    """A release in the table. Numbers: partitions, findings of severity error or warning, changes, files."""

    release: str
    partitions: int = 0
    verify_clean: str = ""
    reindex_clean: str = ""
    verify_killed: str = ""
    recovery: str = ""
    inferred: str = ""

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        is_foreseen = self.recovery in {"equal", "dies as foreseen"}
        is_clean = (self.verify_clean, self.reindex_clean) == ("0", "0")
        killed = {"0", "0 txn.open:1"}
        if self.recovery == "dies as foreseen":
            killed = {"4 log.needs-later-release:1 txn.open:1"}
        return is_clean and is_foreseen and self.verify_killed in killed


# --- making -----------------------------------------------------------------------------------------------------------
def make(version: str, work: Path) -> None:
    """The disks of one release: `clean`, `killed` and `after` (the next start of the killed one)."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    broker = broker_of(version, work)
    try:
        broker.start()
        _make_topics(version, broker)
        write(version, broker.bootstrap, _SEED, _first_steps(version))
        time.sleep(_PAUSE_SECONDS)  # the cleaner, retention and the checkpoints
        write(version, broker.bootstrap, _SEED + 1, _more_steps(version))
        time.sleep(_PAUSE_SECONDS)
        broker.stop()
        _keep(broker, work / "clean")
        broker.start()
        write(version, broker.bootstrap, _SEED + 2, _more_steps(version))
        time.sleep(_PAUSE_SECONDS)
        write(version, broker.bootstrap, _SEED + 3, _last_steps(version))
        broker.kill()
        _keep(broker, work / "killed")
        broker.configure(QUIET)
        _start_again(broker, work)
    finally:
        broker.close()
    (work / "made").touch()


def _start_again(broker: Broker, work: Path) -> None:
    """The start after the kill, which the broker may not survive."""
    try:
        broker.start()
    except AssertionError as error:
        (work / DIED).write_text(str(error))
        return
    broker.kill()
    _keep(broker, work / "after")


def _keep(broker: Broker, place: Path) -> None:
    shutil.copytree(broker.log_dir, place)


def _topics(version: str) -> dict[str, dict[str, str]]:
    numbers = numbers_of(version)
    if numbers < _CONFIGS:
        return {"plain": {}, "deleted": {}}
    size = "internal.segment.bytes" if numbers >= _OTHER_SEGMENT_BYTES else "segment.bytes"
    limit = {"max.message.bytes": "4000"}
    cleaned = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"}
    topics = {
        "plain": {size: "4000"},
        "deleted": {size: "3000", "retention.bytes": "6000"},
        "compacted": {size: "3000"} | cleaned | limit,
    }
    if numbers >= _PRODUCERS:
        topics |= {"idempotent": {size: "4000"}, "txn": {size: "2500"} | limit}
    return topics


def _make_topics(version: str, broker: Broker) -> None:
    topics = _topics(version)
    if has_admin(version):
        words = [f"topic={name}:{','.join(f'{k}={v}' for k, v in each.items())}" for name, each in topics.items()]
        write(version, broker.bootstrap, _SEED, words)
    else:
        for name, configs in topics.items():
            make_topic(broker, name, configs)
    deadline = time.monotonic() + 30
    while not all(broker.partition_dir(name).is_dir() for name in topics):
        assert time.monotonic() < deadline, "the topics did not appear"
        time.sleep(0.1)


def _first_steps(version: str) -> list[str]:
    numbers = numbers_of(version)
    codecs = ["none", "gzip", "snappy", *(["lz4"] if numbers >= (0, 8, 2) else []), *(["zstd"] * (numbers >= _ZSTD))]
    steps = [f"plain={codec}" for codec in codecs] + _more_steps(version)
    return [*steps, *(["delete-records=plain"] if numbers >= _PRODUCERS else [])]


def _more_steps(version: str) -> list[str]:
    numbers = numbers_of(version)
    if numbers < _GROUPS:
        return ["plain=gzip", "deleted", *(["compacted"] if numbers >= _CONFIGS else [])]
    steps = ["plain=gzip", "compacted", "group", *(["modern-group"] if numbers >= _MODERN_GROUPS else [])]
    if numbers >= _PRODUCERS:
        steps += ["idempotent", "transactions", "compacted-transactions", "group-transactions", "transactions"]
    return steps


def _last_steps(version: str) -> list[str]:
    return ["abandon"] if numbers_of(version) >= _PRODUCERS else ["plain=none"]


# --- checking ---------------------------------------------------------------------------------------------------------
def check(version: str, work: Path) -> Line:
    """What kafkalog makes of the disks of a release."""
    clean, killed = work / "clean", work / "killed"
    line = Line(release=version, partitions=sum(path.is_dir() for path in clean.iterdir()))
    line.verify_clean = _verified(clean)
    line.verify_killed = _verified(killed)
    line.reindex_clean = _reindexed(clean)
    line.recovery = _recovered(version, work)
    line.inferred = _inferred(clean)
    return line


def _kafkalog(*words: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "kafkalog_cli", *words, "--output", "ndjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 4}:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.returncode, [json.loads(row) for row in done.stdout.splitlines()]


def _verified(log_dir: Path) -> str:
    """The exit status, and how many findings are errors or warnings, by code."""
    status, rows = _kafkalog("verify", str(log_dir))
    codes: dict[str, int] = {}
    for row in rows:
        if row["type"] == "finding" and row["severity"] != "info":
            codes[row["code"]] = codes.get(row["code"], 0) + 1
    return " ".join([str(status), *(f"{code}:{count}" for code, count in sorted(codes.items()))])


def _reindexed(log_dir: Path) -> str:
    status, rows = _kafkalog("reindex", str(log_dir))
    changes = [row for row in rows if row["type"] == "change"]
    if status or changes:
        return f"{status} {len(changes)} changes"
    return "0"


def _recovered(version: str, work: Path) -> str:
    """`equal`, `dies as foreseen`, or how many files differ from those that the broker left, and which."""
    place = work / "played"
    config = work / "server.properties"
    options = {"kafka": {"kafka": version, "config": str(config), "assignments": [], "topic_assignments": []}}
    if (work / DIED).exists():
        problems = stops(work / "killed", options, recovering.started_ms(work / "killed"))
        return "dies as foreseen" if problems else "dies, which was not foreseen"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(work / "killed", place / "before")
    shutil.copytree(work / "after", place / "after")
    now_ms = recovering.started_ms(place / "after")
    found = foreseen(place / "before", place / "after", options, now_ms)
    found += cut(place / "before", place / "after", options, now_ms)
    found = list(dict.fromkeys(found))
    shutil.rmtree(place)
    return "equal" if not found else f"{len(found)} differ: " + " ".join(f"{file}({how})" for file, how in found)


def _inferred(log_dir: Path) -> str:
    guess = infer_release(str(log_dir))
    return f"{guess.candidates[0]}-{guess.candidates[-1]}"


# --- the table --------------------------------------------------------------------------------------------------------
def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "kafkalog-releases")
    parser.add_argument("--remake", action="store_true", help="make the disks again")
    parser.add_argument("--table", action="store_true", help=f"write {TABLE.name}, where all releases are asked for")
    parser.add_argument("releases", nargs="*", default=list(VERSIONS))
    wanted = parser.parse_args()
    lines = []
    for version in wanted.releases:
        line = _line(version, wanted.work / version, remake=wanted.remake)
        lines.append(line)
        sys.stdout.write(f"{json.dumps(asdict(line))}\n")
        sys.stdout.flush()
    if wanted.table:
        TABLE.write_text(table_of(lines))
    raise SystemExit(not all(line.is_right for line in lines))


def table_of(lines: Sequence[Line]) -> str:
    """The text of the result file."""
    names = [field.name for field in fields(Line)]
    rows = [[str(getattr(line, name)).splitlines()[-1:] or [""] for name in names] for line in lines]
    cells = [[name.replace("_", " ") for name in names], *([cell[0] for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return _HEAD + "\n".join(text) + "\n"


def _line(version: str, work: Path, *, remake: bool) -> Line:
    try:
        if remake or not (work / "made").exists():
            make(version, work)
        return check(version, work)
    except Exception:  # noqa: BLE001 - the next release is no worse
        return Line(release=version, verify_clean=traceback.format_exc()[-3000:])


if __name__ == "__main__":
    main()
