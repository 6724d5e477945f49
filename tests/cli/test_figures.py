"""Commands that read, on clean log directories of real brokers: no finding, and every figure is that of the files."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support import plain_log
from tests.support.figures import (
    DEMO,
    batch_row,
    check,
    check_all,
    mtime_ms,
    of_logs,
    partitions,
    place,
    record_rows,
    run,
    segment_row,
    stats_row,
    summary,
)
from tests.support.plain_log import log_of, segments

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.figures import Row

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
        f"{figures['batches']} batches, {figures['records']} records; {figures['bytes'] / 1024:.1f} KiB of log "
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


# --- seek -------------------------------------------------------------------------------------------------------------
def _entry(index: Path, offset: int) -> tuple[int, int | None]:
    """Where a scan for an offset starts by an offset index: position and slot of the last entry that is not above."""
    found = [
        (position, slot)
        for slot, (relative, position) in enumerate(plain_log.offset_entries(index))
        if int(index.stem) + relative <= offset
    ]
    return found[-1] if found else (0, None)


def _check_index_step(step: Row, index: Path, slot: int | None) -> None:
    """Compare the step that searches an offset index. The pages are those of the slots."""
    entries = index.stat().st_size // 8
    assert (step["path"], step["entries"], step["zero_entries"]) == (str(index), entries, 0)
    assert step["slot"] == slot
    assert len(step["slots"]) <= entries.bit_length()
    assert set(step["slots"]) <= set(range(entries))
    assert slot is None or slot in step["slots"]
    assert step["pages"] == sorted({each * 8 // 4096 for each in step["slots"]})


def _found(path: Path, batch: plain_log.Batch, record: plain_log.Record) -> Row:
    """The `seek` row of a record that was found."""
    return place(path) | {
        "segment": batch.segment,
        "outcome": "found",
        "position": batch.position,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "size_bytes": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "fetch_position": batch.position,
        "log_start_offset": min(segments(path)),
        "log_end_offset": None,
        "detail": None,
    }


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_seek_of_every_offset(path: Path) -> None:
    for batch in log_of(path):
        for record in {batch.records[0], batch.records[len(batch.records) // 2], batch.records[-1]}:
            ran = run("seek", "--offset", record.offset, "--explain", path)
            (row, _) = ran.rows
            steps = row["steps"]
            check(row, _found(path, batch, record) | {"query": "offset", "asked": record.offset, "steps": steps})
            log = path / batch.segment
            start, slot = _entry(log.with_suffix(".index"), record.offset)
            between = [each for each in plain_log.batches_of(log) if start <= each.position <= batch.position]
            size_bytes = batch.position + batch.size_bytes - start
            by_name = {step["step"]: step for step in steps}
            assert [step["step"] for step in steps] == ["release", "segment", "index", "scan"]
            assert (by_name["segment"]["segment"], by_name["segment"]["segments"]) == (log.name, len(segments(path)))
            _check_index_step(by_name["index"], log.with_suffix(".index"), slot)
            scan = by_name["scan"]
            assert (scan["position"], scan["size_bytes"], scan["batches"]) == (start, size_bytes, len(between))
            assert f"read from byte {start} on: {size_bytes} bytes, {len(between)} batch" in scan["text"]
            summary(ran, files=1, partitions=1, bytes=size_bytes, batches=1, records=1)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_seek_of_times(path: Path) -> None:
    """The first record in the order of offsets that is not earlier; none is found in places that it is not in."""
    every = [(batch, record) for batch in log_of(path) for record in batch.records]
    times = sorted({record.timestamp_ms or 0 for _, record in every})
    for time_ms in {*times[:: max(1, len(times) // 12)], times[-1], times[0] - 1}:
        first = next((batch, record) for batch, record in every if (record.timestamp_ms or 0) >= time_ms)
        ran = run("seek", "--timestamp", time_ms, "--explain", path)
        (row, said) = ran.rows
        check(row, _found(path, *first) | {"query": "timestamp", "asked": time_ms, "steps": row["steps"]})
        scans = [step for step in row["steps"] if step["step"] == "scan"]
        assert all(
            step["batches"]
            == sum(
                step["position"] <= batch.position < step["position"] + step["size_bytes"]
                for batch in plain_log.batches_of(path / step["text"].split()[0])
            )
            for step in scans
        )
        files = {step["text"].split()[0] for step in scans}
        size_bytes = sum(step["size_bytes"] for step in scans)
        summary(ran, files=len(files), partitions=1, bytes=size_bytes, batches=1, records=1)
        assert said["bytes"] <= of_logs(path)["bytes"]
    ran = run("seek", "--timestamp", times[-1] + 1, path)
    assert [(row["outcome"], row["offset"]) for row in ran.of("seek")] == [("none", None)]
    assert ran.status == 3


def _nowhere(path: Path) -> Row:
    """What a `seek` row says that is about no record."""
    names = ("timestamp_ms", "size_bytes", "base_offset", "last_offset", "fetch_position", "log_end_offset", "steps")
    return place(path) | dict.fromkeys(names) | {"log_start_offset": min(segments(path)), "asked": None}


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_seek_of_both_ends(path: Path) -> None:
    found, last = log_of(path), [*segments(path).values()][-1]
    end, size_bytes = found[-1].last_offset + 1, last.stat().st_size
    start, slot = _entry(last.with_suffix(".index"), 2**63)
    ran = run("seek", "--latest", "--explain", path)
    (row, _) = ran.rows
    at_end = {"segment": last.name, "position": size_bytes, "offset": end}
    check(row, _nowhere(path) | at_end | {"query": "latest", "log_end_offset": end, "steps": row["steps"]})
    for step in row["steps"]:
        if step["step"] == "index":
            _check_index_step(step, last.with_suffix(".index"), slot)
    read = {"files": 1, "partitions": 1, "bytes": size_bytes - start}
    summary(ran, **read, batches=0, records=0)

    ran = run("seek", "--offset", end, path)
    check(ran.rows[0], _nowhere(path) | at_end | {"query": "offset", "asked": end, "log_end_offset": end})
    assert len(ran.rows) == 2
    beyond = run("seek", "--offset", end + 1, path)
    nowhere = {"outcome": "out-of-range", "query": "offset", "asked": end + 1, "position": None, "offset": None}
    check(beyond.rows[0], _nowhere(path) | nowhere | {"log_end_offset": end})
    assert (len(beyond.rows), beyond.status) == (2, 3)

    ran = run("seek", "--earliest", path)
    check(
        ran.rows[0], _found(path, found[0], found[0].records[0]) | {"query": "earliest", "asked": None, "steps": None}
    )
    summary(ran, files=1, partitions=1, bytes=found[0].size_bytes, batches=1, records=1)

    ran = run("seek", "--before", -2, path)
    (row, _) = ran.rows
    base, log = next(iter(segments(path).items()))
    oldest = {"segment": log.name, "position": 0, "offset": base, "timestamp_ms": mtime_ms(log)}
    check(row, _nowhere(path) | oldest | {"query": "before", "asked": -2})
    summary(ran, **read | {"files": len({log, last})}, batches=0, records=0)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_seek_of_a_byte_and_what_a_fetch_returns(path: Path) -> None:
    log = [*segments(path).values()][-1]
    found = plain_log.batches_of(log)
    for batch in found[:: max(1, len(found) // 3)]:
        ran = run("seek", "--position", batch.position + batch.size_bytes - 1, log)
        asked = {"query": "position", "asked": batch.position + batch.size_bytes - 1, "steps": None}
        first = {"log_start_offset": int(log.stem)}
        check(ran.rows[0], _found(path, batch, batch.records[0]) | asked | first)

        asked_bytes = 2 * batch.size_bytes + 1
        ran = run("seek", "--offset", batch.base_offset, "--read", asked_bytes, path)
        size_bytes = min(asked_bytes, log.stat().st_size - batch.position)
        inside = [each for each in found if each.position >= batch.position]
        whole = [each for each in inside if each.position + each.size_bytes <= batch.position + size_bytes]
        end = whole[-1].position + whole[-1].size_bytes
        is_cut = end < batch.position + size_bytes
        check_all(ran.of("batch"), [batch_row(path, each) for each in whole])
        check(
            ran.of("fetch")[0],
            place(path)
            | {
                "segment": log.name,
                "position": batch.position,
                "size_bytes": size_bytes,
                "asked_bytes": asked_bytes,
                "tries": 1,
                "outcome": "partial" if is_cut else "whole",
                "batches": len(whole),
                "first_offset": batch.base_offset,
                "last_offset": whole[-1].last_offset,
                "partial_position": end if is_cut else None,
                "partial_bytes": batch.position + size_bytes - end,
            },
        )
        assert (ran.summary["batches"], ran.summary["records"]) == (len(whole), 1)


def test_seek_on_the_disk_of_a_broker_that_was_killed(tmp_path: Path) -> None:
    """Its last indexes end with zeros, which are room for entries: no reason to say that a broker answers otherwise."""
    log_dir = tmp_path / "killed"
    shutil.copytree(DEMO, log_dir, ignore=shutil.ignore_patterns(".kafka_cleanshutdown"))
    for path in partitions(log_dir):
        last = [*segments(path).values()][-1]
        for suffix, size in ((".index", 8), (".timeindex", 12)):
            with last.with_suffix(suffix).open("ab") as index:
                index.write(bytes(100 * size))
    for question in (
        ("--latest",),
        ("--earliest",),
        ("--before", -1),
        ("--offset", 0),
        ("--timestamp", 1_700_000_000_000),
    ):
        ran = run("seek", *question, log_dir)
        assert [row["type"] for row in ran.rows] == ["seek"] * len(LOGS) + ["summary"], question
        assert ran.status == 0
