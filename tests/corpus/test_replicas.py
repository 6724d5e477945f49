"""A log before and after a real cleaner or retention, taken for two copies: no loss, and no divergence."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.copies.compare import Comparison, ReplicaTask, compare
from kafkalog_core.ops.copies.verdict import ReplicaDir
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, work_of
from kafkalog_core.storage.logdir import holds_segments
from kafkalog_core.storage.partition import partition_name
from tests.support.corpus import archives

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

LEGAL = {"identical", "compacted", "trimmed", "behind", "alone"}


def _pairs(corpus: Path) -> list[tuple[Path, Path]]:
    """Whole log directories of one case, before something and after it."""
    pairs = []
    for case in sorted(corpus.glob("*/*")):
        for before, after in (("before", "after-1"), ("before-2", "after-2"), ("before-3", "after-3")):
            if "compaction" in case.name:
                pairs.append((case / before, case / after))
        pairs += [
            (case / before / "logdir", case / after / "logdir")
            for before, after in (("before", "after"), ("after", "after2"))
            if case.name.startswith(("clean-", "mixfmt-"))
        ]
    return [pair for pair in pairs if all(path.is_dir() for path in pair)]


def test_what_cleaners_and_retention_do_is_no_loss(corpus: Path) -> None:
    states: dict[str, int] = {}
    pairs = _pairs(corpus)
    assert len(pairs) >= 5
    for pair in pairs:
        report = Report()
        request = ReplicasRequest(targets=tuple(resolve([str(path) for path in pair])))
        for each in replicas(work_of(request), report):
            if isinstance(each, Comparison):
                state = str(each.replica["state"])
                assert state in LEGAL, (pair, each.replica, each.ranges)
                states[state] = states.get(state, 0) + 1
        assert report.exit_status == 0
    assert states["compacted"] > 20
    assert states["trimmed"] >= 4


def _live(case: Path, moment: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((case / f"state-{moment}.json").read_text())
    return found


def _compared(case: Path, moment: str) -> list[Comparison]:
    disks = sorted(str(path) for path in (case / moment).glob("broker-*") if (path / "meta.properties").exists())
    assert len(disks) == 3
    request = ReplicasRequest(targets=tuple(resolve(disks)))
    return [item for item in replicas(work_of(request), Report()) if isinstance(item, Comparison)]


def test_three_brokers_hold_what_the_live_cluster_said(corpus: Path) -> None:
    """Each copy has the size that its broker reported, and the one to keep ends where the leader's log ended."""
    case = corpus / "modern" / "09-replicas-4.3.1"
    if not archives.is_whole():
        assert not (case / "final").exists()
        return
    for each in _compared(case, "final"):
        name = f"{each.replica['topic']}-{each.replica['partition']}"
        live = _live(case, "final")
        latest = live["offsets"][name]["latest"]
        keep = next(copy for copy in each.copies if copy["path"] == each.replica["keep"])
        assert each.replica["state"] == "identical", name
        assert keep["log_end_offset"] == latest["offset"]
        assert keep["leader_epoch"] >= latest["leader_epoch"]
        for copy in each.copies:
            assert live["log_dirs"][str(copy["node_id"])][0]["replicas"][name] == copy["bytes"]
    for each in _compared(case, "in-sync-running"):
        assert each.replica["state"] == "identical"
        first, last = (_live(case, moment)["offsets"] for moment in (1, "final"))
        name = f"{each.replica['topic']}-{each.replica['partition']}"
        assert first[name]["latest"]["offset"] <= each.replica["log_end_offset"] <= last[name]["latest"]["offset"]


def test_the_copy_to_keep_is_that_of_the_live_leader_and_the_other_history_is_at_risk(corpus: Path) -> None:
    """After step 7 brokers 2 and 3 led without broker 1, which came back later with the records that it had alone."""
    case = corpus / "modern" / "09-replicas-4.3.1"
    if not archives.is_whole():
        assert not (case / "diverged").exists()
        return
    live = _live(case, 7)
    for each in _compared(case, "diverged"):
        name = f"{each.replica['topic']}-{each.replica['partition']}"
        assert each.replica["state"] == ("divergent" if name == "rep.diverged-0" else "identical")
        topic = live["topics"][each.replica["topic"]]
        assert {copy["topic_id"] for copy in each.copies} == {topic["topic_id"]}
        if name == "rep.diverged-0":
            keep = next(copy for copy in each.copies if copy["path"] == each.replica["keep"])
            assert int(str(keep["node_id"])) in topic["partitions"][0]["isr"]
            of_two, of_one = _values(case, "truth-after-7"), _values(case, "truth-final")
            differ = [offset for offset in of_one if of_one[offset] != of_two.get(offset)]
            assert keep["log_end_offset"] == max(of_two) + 1
            assert each.replica["records_at_risk"] == len(differ) == 50
            assert each.replica["at_risk_first_offset"] == min(differ)
            assert each.replica["at_risk_last_offset"] == max(differ)


def _values(case: Path, truth: str) -> dict[int, Any]:
    lines = gzip.decompress((case / truth / "rep.diverged-0" / "records.jsonl.gz").read_bytes()).splitlines()
    return {line["offset"]: line["value_b64"] for line in map(json.loads, lines)}


def test_a_log_is_its_own_copy(corpus: Path) -> None:
    """Whatever is in it, damage of every kind too: it does not differ from itself."""
    count = 0
    for directory in sorted(path for path in corpus.rglob("*-[0-9]*") if path.is_dir() and holds_segments(str(path))):
        name = partition_name(str(directory))
        place = ReplicaDir(path=str(directory))
        task = ReplicaTask(
            topic=name.topic or "", partition=name.partition or 0, places=(place, place), max_batch_bytes=1 << 28
        )
        found = compare(task, lambda size_bytes: None)
        assert {row["kind"] for row in found.ranges} <= {"damaged"}, directory
        assert found.replica["state"] in {"identical", "damaged", "alone"}
        assert found.replica.get("records_at_risk") in {0, None}
        count += 1
    assert count > 100
