"""What verify, dump, seek, retain, `truncate --as-broker` and the reader of serve say about one log directory.

A log has two ends. What can be *read* ends after the last batch that is right, and verify, dump and serve say that. A
*broker* takes the last batch that it finds for the end, and seek, retain and the simulated start say that. The two are
the same wherever the last batch is right.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.findings.logs import DAMAGE_REASONS
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.serve.logs.partition_view import ServedPartition
from kafkalog_core.storage.partition import read_partition
from tests.corpus import agreeing
from tests.corpus.verifying import NOW_MS
from tests.livebroker.consuming import consumed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["contradictions"]

_NOW: Final = "2027-11-29T00:00"
_FETCH_BYTES: Final = 1 << 20
_STOPS: Final = frozenset({"truncate.broker-stops", "log.needs-later-release", "log.first-offset-back"})
_REASONS: Final = frozenset({"torn-tail", "zero-filled", "bad-length", "unknown-magic", "crc-mismatch"})
_MISPLACED: Final = "batch.offset-order"

Row = dict[str, Any]
Key = tuple[str, int]


def contradictions(log_dir: Path, kafka: str) -> Iterator[str]:
    """Yield where two commands contradict each other about a log directory under a release."""
    is_broker_dir = (log_dir / "meta.properties").exists()
    verified = rows("verify", log_dir, "--kafka", kafka)
    if is_broker_dir:
        yield from _starts(log_dir, kafka, verified)
    yield from _damage(log_dir, verified)
    yield from _reading(log_dir, verified)
    yield from _ends(log_dir, kafka, verified, is_broker_dir=is_broker_dir)


def rows(*words: object) -> list[Row]:
    """The rows of a command, which may find or lose something, and may not fail."""
    done = CliRunner().invoke(cli, [*map(str, words), "--output", "ndjson"], catch_exceptions=False)
    assert done.exit_code in {0, 4}, (words, done.exit_code, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _key(row: Row) -> Key:
    return row["topic"], row["partition"]


# --- the start --------------------------------------------------------------------------------------------------------
def _starts(log_dir: Path, kafka: str, verified: list[Row]) -> Iterator[str]:
    """Whether the broker starts, and what it truncates: verify and `truncate --as-broker`."""
    yield from agreeing.disagreements(log_dir, kafka)
    planned = rows("truncate", log_dir, "--as-broker", "--kafka", kafka)
    stopped = {_key(row): row for row in planned if row["type"] == "finding" and row["code"] in _STOPS}
    told = {_key(row) for row in verified if row["type"] == "finding" and row["severity"] == "error" and _stops(row)}
    for key, row in stopped.items():
        if key not in told:
            yield f"start: {key}: verify does not say that the broker does not start: {row['message']}"


def _stops(row: Row) -> bool:
    action = row["broker_action"] or ""
    return any(text in action for text in ("Does not start", "log directory offline", "does not start"))


# --- damage -----------------------------------------------------------------------------------------------------------
def _damage(log_dir: Path, verified: list[Row]) -> Iterator[str]:
    """Which bytes form no batch: verify and dump."""
    ours = {
        (*_key(row), row["file"].rpartition("/")[2], row["position"], DAMAGE_REASONS[row["code"]])
        for row in verified
        if row["type"] == "finding" and DAMAGE_REASONS.get(row["code"]) in _REASONS
    }
    theirs = {
        (*_key(row), row["segment"], row["position"], row["reason"])
        for row in rows("dump", log_dir, "--batches", "--resync")
        if row["type"] == "damage" and row["reason"] in _REASONS
    }
    if ours != theirs:
        yield f"damage: verify alone {sorted(ours - theirs)}, dump alone {sorted(theirs - ours)}"


# --- reading ----------------------------------------------------------------------------------------------------------
def _reading(log_dir: Path, verified: list[Row]) -> Iterator[str]:
    """Which records a consumer gets: dump shows all that is there, and serve leaves out what verify calls an error."""
    wrong = {
        (*_key(row), row["file"].rpartition("/")[2], row["position"])
        for row in verified
        if row["type"] == "finding" and row["severity"] == "error" and row["file"].endswith(".log")
    }
    dumped: dict[Key, list[int]] = {}
    for row in rows("dump", log_dir, "--records", "--committed", "--resync"):
        if row["type"] == "record" and (*_key(row), row["segment"], row["position"]) not in wrong:
            dumped.setdefault(_key(row), []).append(row["offset"])
    for key, partition in _served(log_dir).items():
        ours = consumed(partition, _FETCH_BYTES, is_committed=True)
        theirs = dumped.get(key, [])
        if ours != theirs:
            alone = sorted(set(ours) ^ set(theirs))
            yield f"reading: {key}: serve {len(ours)} records, dump {len(theirs)}, in one of both {alone[:10]}"


def _served(log_dir: Path) -> dict[Key, ServedPartition]:
    found = {}
    for directory in sorted({path.parent for path in log_dir.glob("*/*.log")}):
        topic, _, number = directory.name.rpartition("-")
        found[topic, int(number)] = ServedPartition.open(str(directory))
    return found


# --- both ends --------------------------------------------------------------------------------------------------------
def _ends(log_dir: Path, kafka: str, verified: list[Row], *, is_broker_dir: bool) -> Iterator[str]:
    """Where the log starts and ends."""
    ends = {_key(row): row for row in verified if row["type"] == "partition"}
    found = {_key(row): row for row in rows("seek", "--latest", log_dir, "--kafka", kafka) if row["type"] == "seek"}
    kept = {
        _key(row): row
        for row in rows("retain", log_dir, "--now", _NOW, "--kafka", kafka)
        if row["type"] == "retained_segment" and row["is_active"]
    }
    misplaced = {_key(row) for row in verified if row["type"] == "finding" and row["code"] == _MISPLACED}
    for key, partition in _served(log_dir).items():
        start, end = ends[key]["log_start_offset"], ends[key]["log_end_offset"]
        starts = {"verify": start, "serve": partition.log_start_offset, "seek": found[key]["log_start_offset"]}
        if len(set(starts.values())) > 1:
            yield f"start offset: {key}: {starts}"
        # verify does not know an end that damage hides; the others say what is before the damage
        right = {"serve": partition.log_end_offset} | ({} if end is None else {"verify": end})
        last = {"seek": found[key]["log_end_offset"]}
        taken = {"retain": kept[key]["next_offset"]}
        started = _end_after_start(partition.path, kafka) if is_broker_dir else None
        if started is not None:
            taken["start"] = started
        # a misplaced batch at the end, after which a broker ends the log, and verify too
        if key in misplaced and started in {None, end} and end != partition.log_end_offset:
            right.pop("verify", None)
        groups = [right, last] if key in misplaced else [right | last]
        for group in (*groups, taken):
            if len(set(group.values())) > 1:
                yield f"log end: {key}: {group}"


def _end_after_start(path: str, kafka: str) -> int | None:
    """The log end offset that a broker knows after its start; null: it does not start."""
    given = {"kafka": kafka, "config": None, "assignments": [], "topic_assignments": []}
    request = PlanRequest(target=target_dir([path]), options={"kafka": given}, now_ms=NOW_MS)
    partition = read_partition(path)
    facts = request.context().facts(partition.name, as_loaded=True)
    load = PartitionLoad(partition, facts.context, facts.load_options)
    deque(load.run(), maxlen=0)
    return None if load.result.problem is not None else load.result.end_offset
