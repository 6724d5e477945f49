"""Pairs of snapshots of real brokers differ in what their consumers read and in what the live cluster said."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import KafkalogError
from kafkalog_core.ops.diff.diff import diff
from kafkalog_core.ops.diff.request import DiffFound, DiffRequest, Side
from kafkalog_core.storage.logdir import is_broker_dir

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

NOW_MS = 1_800_000_000_000
GONE = frozenset({"log-start", "deleted", "cleaned", "truncated", "missing", "damaged"})


def _differences(old: Path, new: Path) -> DiffFound:
    sides = [
        Side(label=label, paths=(str(path),), targets=tuple(resolve([str(path)])))
        for label, path in (("OLD", old), ("NEW", new))
    ]
    (found,) = diff(DiffRequest(old=sides[0], new=sides[1], now_ms=NOW_MS), Report())
    return found


def _of(found: DiffFound, name: str, changes: frozenset[str]) -> list[dict[str, Any]]:
    return [row for row in found.differences if row["what"] == name and row["change"] in changes]


def _offsets(truth: Path) -> set[int]:
    """What a consumer read."""
    with gzip.open(truth / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        return {json.loads(line)["offset"] for line in lines}


def _pairs(corpus: Path) -> list[tuple[Path, Path, Path, Path]]:
    """Log directories before and after something, each with what a consumer read then."""
    pairs = []
    for case in sorted(corpus.glob("*/*")):
        for one, other in (
            ("before", "after"),
            ("before", "after-1"),
            ("before-2", "after-2"),
            ("before-3", "after-3"),
        ):
            pairs.append((case / one, case / other, case / f"truth-{one}", case / f"truth-{other}"))
        for one, other in (("before", "after"), ("after", "after2")):
            pairs.append((case / one / "logdir", case / other / "logdir", case / one / "truth", case / other / "truth"))
    return [pair for pair in pairs if all(path.is_dir() for path in pair)]


def test_records_that_consumers_got_before_and_not_after_and_the_other_way_round(corpus: Path) -> None:
    pairs = _pairs(corpus)
    assert len(pairs) >= 5
    partitions = 0
    for old, new, truth_before, truth_after in pairs:
        found = _differences(old, new)
        assert not found.findings
        for truth in sorted(truth_before.iterdir()):
            if not (truth_after / truth.name / "records.jsonl.gz").is_file():
                continue
            before, after = _offsets(truth), _offsets(truth_after / truth.name)
            gone, added = _of(found, truth.name, GONE), _of(found, truth.name, frozenset({"added"}))
            where = (old, truth.name, gone)
            # Markers of transactions are records of a log, and no consumer gets them.
            has_markers = "txn" in truth.name
            # Where the log start is within a segment, the records before it are still in the file.
            if all(row.get("records") is not None for row in gone):
                count = sum(row["records"] for row in gone)
                assert count >= len(before - after) if has_markers else count == len(before - after), where
            assert bool(gone) >= bool(before - after), where
            assert bool(added) == bool(after - before) or has_markers, where
            if all(row.get("records") is not None for row in added):
                assert sum(row["records"] for row in added) == len(after - before) or has_markers, where
            partitions += 1
    assert partitions > 50


def test_log_starts_and_ends_are_those_of_the_live_cluster(corpus: Path) -> None:
    seen = 0
    for case, old, new, state in (
        ("05-retention-4.3.1", "before", "after", "cluster_state.json"),
        ("09-replicas-4.3.1", "in-sync-running/broker-1", "final/broker-1", "state-final.json"),
        ("09-replicas-4.3.1", "diverged/broker-2-stopped", "final/broker-2", "state-final.json"),
        ("09-replicas-4.3.1", "diverged/broker-3-stopped", "final/broker-3", "state-final.json"),
    ):
        directory = corpus / "modern" / case
        if not all((directory / each).exists() for each in (old, new, state)):
            continue
        found = _differences(directory / old, directory / new)
        offsets = json.loads((directory / state).read_text())["offsets"]
        for name, said in offsets.items():
            if not (directory / old / name).is_dir() or not isinstance(said["earliest"], dict):
                continue
            moved, added = _of(found, name, frozenset({"log-start"})), _of(found, name, frozenset({"added"}))
            assert [row["after"] for row in moved] == [str(said["earliest"]["offset"])] * len(moved)
            assert bool(moved) == (said["earliest"]["offset"] > 0), name
            assert [row["after"] for row in added] == [str(said["latest"]["offset"])] * len(added)
            seen += len(moved) + len(added)
    # The part of the corpus in fixtures/ has no state files.
    assert seen >= 12 or not list(corpus.glob("modern/05-*/cluster_state.json"))


def test_who_truncated_the_followers_of_an_unclean_election(corpus: Path) -> None:
    """Broker 1 was elected uncleanly: brokers 2 and 3 threw away epochs 4 and 5, and took its records of epoch 2."""
    directory = corpus / "modern" / "09-replicas-4.3.1"
    for old, new in (("diverged/broker-2-stopped", "final/broker-2"), ("diverged/broker-3-stopped", "final/broker-3")):
        if not ((directory / old).is_dir() and (directory / new).is_dir()):
            continue  # the part of the corpus in fixtures/ has broker 1 alone
        found = _differences(directory / old, directory / new)
        (row,) = _of(found, "rep.diverged-0", frozenset({"truncated"}))
        assert (row["leader_epoch"], row["after"], row["records"]) == (2, "100", 35)
    if (directory / "diverged" / "broker-1-killed-as-old-leader").is_dir():
        leader = _differences(
            directory / "diverged" / "broker-1-killed-as-old-leader", directory / "final" / "broker-1"
        )
        assert not leader.differences


def test_what_a_recovery_left_is_what_consumers_read_then(corpus: Path) -> None:
    """After kill -9, the records that NEW has are those that a consumer read from the recovered broker."""
    seen = 0
    for killed in sorted(corpus.glob("modern/06-crash-*/round-*-killed")):
        number = killed.name.split("-")[1]
        recovered = killed.parent / f"round-{number}-recovered-running"
        rounds = json.loads((killed.parent / "case.json").read_text())["rounds"]
        if not recovered.is_dir():
            continue
        found = _differences(killed, recovered)
        for topic, said in rounds[int(number) - 1]["after_recovery"].items():
            for row in _of(found, f"{topic}-0", frozenset({"truncated"})):
                assert row["after"] == str(said["high"])
            assert not _of(found, f"{topic}-0", frozenset({"missing", "damaged"}))
            seen += 1
    assert seen or not list(corpus.glob("modern/06-crash-*/round-*-recovered-running"))


def test_nothing_between_a_directory_and_its_copy(corpus: Path, tmp_path: Path) -> None:
    count = 0
    for directory in sorted(path for path in corpus.rglob("*") if path.is_dir() and is_broker_dir(str(path))):
        # Contents alone, so that modification times differ.
        copy = shutil.copytree(directory, tmp_path / "copy", copy_function=shutil.copyfile)
        try:
            found = _differences(directory, copy)
        except KafkalogError as error:
            pytest.fail(f"{directory}: {error}")
        assert not found.differences, (directory, found.differences)
        assert not found.findings, (directory, found.findings)
        count += 1
        shutil.rmtree(copy)
    assert count > 30
