"""The disks of three real brokers after an unclean election: they diverge where what consumers read does."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.copies.compare import Comparison
from kafkalog_core.ops.replicas.replicas import ReplicasRequest, replicas, work_of

DISKS = Path(__file__).resolve().parents[3] / "fixtures" / "replicas"


def _values(truth: str) -> dict[int, Any]:
    text = gzip.decompress((DISKS / "truth" / f"{truth}.jsonl.gz").read_bytes())
    return {line["offset"]: line["value_b64"] for line in map(json.loads, text.splitlines())}


def test_where_they_diverge_and_what_is_lost() -> None:
    """Brokers 2 and 3 went on without broker 1's last records; it was elected again later, and theirs were lost."""
    report = Report()
    request = ReplicasRequest(targets=tuple(resolve([str(DISKS / f"broker-{node}") for node in (1, 2, 3)])))
    found = {each.replica["topic"]: each for each in replicas(work_of(request), report) if isinstance(each, Comparison)}
    of_two, of_one = _values("after-7"), _values("final")
    differ = [offset for offset in of_one if of_two.get(offset) != of_one[offset]]
    assert differ
    diverged = found["rep.diverged"]
    assert diverged.replica["divergent_offset"] == min(differ)
    assert diverged.replica["records_at_risk"] == len(differ)
    assert diverged.replica["basis"] == "leader-epoch"
    assert [copy["state"] for copy in diverged.copies] == ["divergent", "keep", "identical"]
    assert [copy["truncation_offset"] for copy in diverged.copies] == [min(differ), None, None]
    assert [copy["log_end_offset"] for copy in diverged.copies] == [max(of_one) + 1, *[max(of_two) + 1] * 2]
    assert [(row["first_offset"], row["last_offset"]) for row in diverged.ranges] == [
        (min(differ), max(of_two)),
        (max(of_two) + 1, max(of_one)),
    ]
    assert found["rep.same"].replica["state"] == "identical"
    assert report.exit_status == 4
