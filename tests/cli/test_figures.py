"""Commands that read, on clean log directories of real brokers: no finding, and every figure is that of the files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests import plain_log
from tests.cli.figures import (
    DEMO,
    batch_row,
    check,
    check_all,
    of_logs,
    partitions,
    place,
    record_rows,
    run,
    segment_row,
    stats_row,
    summary,
)
from tests.plain_log import log_of, segments

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.figures import Row

LOGS = partitions(DEMO)
CLOSED = [path for path in LOGS if path.name != "payments-0"]
"""Without the partition that has an open transaction, of which there is something to say."""


# --- dump -------------------------------------------------------------------------------------------------------------
def test_dump_of_batches() -> None:
    ran = run("dump", DEMO)
    check_all(ran.of("batch"), [batch_row(path, batch) for path in LOGS for batch in log_of(path)])
    figures = of_logs(*LOGS)
    summary(ran, **figures, unopened_batches=figures["batches"])


def test_dump_of_records() -> None:
    ran = run("dump", "--records", "--bytes", "hex", DEMO)
    check_all(ran.of("record"), [row for path in LOGS for batch in log_of(path) for row in record_rows(path, batch)])
    summary(ran, **of_logs(*LOGS))


def test_dump_of_committed_records() -> None:
    """The third transaction is aborted, the last one open; the markers say so."""
    (path,) = set(LOGS) - set(CLOSED)
    expected: list[Row] = []
    pending: list[Row] = []
    for batch in log_of(path):
        assert batch.is_transactional
        rows = record_rows(path, batch)
        if rows[0]["control_type"] == "commit":
            expected += pending
        pending = [] if batch.is_control else [*pending, *rows]
    assert pending, "none is open"
    ran = run("dump", "--records", "--committed", "--bytes", "hex", path)
    assert [row["offset"] for row in ran.of("record") if not row["control_type"]] == [row["offset"] for row in expected]


def test_dump_of_segments() -> None:
    ran = run("dump", "--segments", DEMO)
    check_all(ran.of("segment"), [segment_row(path, log) for path in LOGS for log in segments(path).values()])
    figures = of_logs(*LOGS)
    summary(ran, **figures, unopened_batches=figures["batches"])


def test_dump_of_figures() -> None:
    ran = run("dump", "--stats", DEMO)
    check_all(ran.of("stats"), [stats_row(path) for path in LOGS])
    figures = of_logs(*LOGS)
    summary(ran, **figures, unopened_batches=figures["batches"])


def test_the_last_line_of_dump() -> None:
    figures = of_logs(*LOGS)
    text = run("dump", "--records", DEMO, output="table").text
    assert text.splitlines()[-1] == (
        f"clean | {figures['batches']} batches, {figures['records']} records; {figures['bytes'] / 1024:.1f} KiB of log "
        f"read from {figures['files']} files in {figures['partitions']} partitions; {figures['records']} rows shown | "
        "exit status 0"
    )


def _entries(directory: Path) -> list[Row]:
    """The `index_entry` rows of a partition, file by file."""
    rows = []
    for path in sorted(directory.glob("*index")):
        base = int(path.stem)
        known = place(directory) | {"segment": path.name}
        if path.suffix == ".index":
            found = [
                {"kind": "offset", "relative_offset": relative, "offset": base + relative, "log_position": position}
                for relative, position in plain_log.offset_entries(path)
            ]
        elif path.suffix == ".timeindex":
            found = [
                {"kind": "time", "relative_offset": relative, "offset": base + relative, "timestamp_ms": time_ms}
                for time_ms, relative in plain_log.time_entries(path)
            ]
        else:
            names = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
            found = [{"kind": "txn", **dict(zip(names, entry, strict=True))} for entry in plain_log.txn_entries(path)]
        size = {".index": 8, ".timeindex": 12, ".txnindex": 34}[path.suffix]
        rows += [known | {"slot": slot, "position": slot * size} | entry for slot, entry in enumerate(found)]
    names = {
        "slot", "position", "offset", "relative_offset", "log_position", "timestamp_ms", "version", "producer_id",
        "first_offset", "last_offset", "last_stable_offset",
    }  # fmt: skip
    return [dict.fromkeys(names) | row for row in rows]


def _producers(directory: Path) -> list[Row]:
    """The `producer` rows of a partition."""
    names = (
        "producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta", "timestamp_ms",
        "coordinator_epoch", "current_txn_first_offset",
    )  # fmt: skip
    return [
        place(directory) | {"segment": path.name, "position": 10 + 46 * number} | dict(zip(names, entry, strict=True))
        for path in sorted(directory.glob("*.snapshot"))
        for number, entry in enumerate(plain_log.producers(path))
    ]


def _checkpoints(directory: Path) -> list[Row]:
    """The `checkpoint` rows at the top of a log directory."""
    kinds = {
        "cleaner-offset": "cleaner_offset",
        "log-start-offset": "log_start_offset",
        "recovery-point-offset": "recovery_point",
        "replication-offset": "high_watermark",
    }
    return [
        {
            "file": str(path),
            "kind": kind,
            "line": line,
            "topic": topic,
            "partition": int(partition),
            "offset": int(offset),
            "leader_epoch": None,
        }
        for name, kind in kinds.items()
        if (path := directory / f"{name}-checkpoint").stat().st_size
        for line, (topic, partition, offset) in enumerate(plain_log.text_entries(path), start=3)
    ]


def _epochs(directory: Path) -> list[Row]:
    path = directory / "leader-epoch-checkpoint"
    return [
        place(directory)
        | {"file": str(path), "kind": "leader_epoch", "line": line, "leader_epoch": int(epoch), "offset": int(start)}
        for line, (epoch, start) in enumerate(plain_log.text_entries(path), start=3)
    ]


def test_dump_of_files() -> None:
    ran = run("dump", "--files", DEMO)
    check_all(
        sorted(ran.of("index_entry"), key=lambda row: (row["topic"], row["partition"])),
        sorted((row for path in LOGS for row in _entries(path)), key=lambda row: (row["topic"], row["partition"])),
    )
    check_all(ran.of("producer"), [row for path in LOGS for row in _producers(path)])
    check_all(ran.of("checkpoint"), [*_checkpoints(DEMO), *(row for path in LOGS for row in _epochs(path))])
    for name in ("meta.properties", "orders-0/partition.metadata"):
        found = {row["key"]: row["value"] for row in ran.of("property") if row["file"] == str(DEMO / name)}
        assert found == plain_log.properties(DEMO / name)
    for name in (".kafka_cleanshutdown", "__cluster_metadata-0/quorum-state"):
        found = {row["key"]: row["value"] for row in ran.of("property") if row["file"] == str(DEMO / name)}
        assert found == {key: str(value) for key, value in json.loads((DEMO / name).read_text()).items()}
    snapshots = [DEMO / "bootstrap.checkpoint", *DEMO.glob("__cluster_metadata-0/*.checkpoint")]
    kept = [batch for path in snapshots for batch in plain_log.batches_of(path)]
    figures = of_logs(*LOGS)
    every = [path for path in DEMO.rglob("*") if path.is_file()]
    summary(
        ran,
        files=len(every),
        partitions=len(LOGS),
        bytes=figures["bytes"] + sum(batch.size_bytes for batch in kept),
        batches=figures["batches"] + len(kept),
        records=figures["records"] + sum(len(batch.records) for batch in kept),
        unopened_batches=figures["batches"] + len(kept),
    )


# --- verify -----------------------------------------------------------------------------------------------------------
def _partition(path: Path) -> Row:
    """The `partition` row of a clean partition of a broker that was stopped in order."""
    found = log_of(path)
    figures = of_logs(path)
    return place(path) | {
        "path": str(path),
        "state": "clean",
        "segments": figures["files"],
        "bytes": figures["bytes"],
        "batches": figures["batches"],
        "records": figures["records"],
        "log_start_offset": min(segments(path)),
        "log_end_offset": found[-1].last_offset + 1,
        "first_timestamp_ms": found[0].max_timestamp_ms,
        "max_timestamp_ms": max(batch.max_timestamp_ms or -1 for batch in found),
        "at_risk_bytes": 0,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
    }


@pytest.mark.parametrize("level", ["headers", "checksums", "records"])
def test_verify(level: str) -> None:
    ran = run("verify", "--jobs", 1, "--level", level, *CLOSED)
    assert [row["type"] for row in ran.rows[:-1]] == ["partition"] * len(CLOSED)
    check_all(ran.of("partition"), [_partition(path) for path in CLOSED])
    figures = of_logs(*CLOSED)
    summary(ran, **figures, unopened_batches=0 if level == "records" else figures["batches"])


def test_verify_of_an_open_transaction() -> None:
    (path,) = set(LOGS) - set(CLOSED)
    ran = run("verify", "--jobs", 1, path)
    check(ran.of("partition")[0], _partition(path) | {"state": "warnings", "warnings": 1})
    summary(ran, **of_logs(path), severities={"warning": 1}, codes={"txn.open": 1})


def test_the_last_line_of_verify() -> None:
    figures = of_logs(*CLOSED)
    assert run("verify", "--jobs", 1, *CLOSED, output="table").text.splitlines()[-1] == (
        f"clean: {figures['partitions']} partitions without damage | {figures['bytes'] / 1024:.1f} KiB of log in "
        f"{figures['files']} files, {figures['batches']} batches, {figures['records']} records | exit status 0"
    )
