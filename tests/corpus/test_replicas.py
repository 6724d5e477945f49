"""The disks of three real brokers, after an unclean election: where they diverge is where what consumers read does."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.ops.replicas.comparison import Comparison
from kafkalog_core.ops.replicas.engine import ReplicasRequest, replicas
from kafkalog_core.ops.report import Report
from kafkalog_core.ops.selecting.targets import resolve

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

CASE = "modern/09-replicas-4.3.1"


def _compared(directory: Path, report: Report) -> dict[str, Comparison]:
    targets = tuple(resolve([str(path) for path in sorted(directory.iterdir()) if path.is_dir()]))
    found = [each for each in replicas(ReplicasRequest(targets=targets), report) if isinstance(each, Comparison)]
    return {f"{each.replica['topic']}-{each.replica['partition']}": each for each in found}


def _values(corpus: Path, truth: str, name: str) -> dict[int, Any]:
    text = gzip.decompress((corpus / CASE / truth / name / "records.jsonl.gz").read_bytes())
    return {line["offset"]: line["value_b64"] for line in map(json.loads, text.splitlines())}


def test_where_they_diverge_and_what_is_lost(corpus: Path) -> None:
    """Brokers 2 and 3 led without broker 1's last records; it was elected again later, and theirs were thrown away."""
    report = Report()
    found = _compared(corpus / CASE / "diverged", report)
    of_two, of_one = (_values(corpus, truth, "rep.diverged-0") for truth in ("truth-after-7", "truth-final"))
    differ = [offset for offset in of_one if of_two.get(offset) != of_one[offset]]
    row = found.pop("rep.diverged-0")
    assert row.replica["divergent_offset"] == min(differ)
    assert row.replica["records_at_risk"] == len(differ)
    assert [copy["state"] for copy in row.copies] == ["divergent", "keep", "identical"]
    assert [copy["truncation_offset"] for copy in row.copies] == [min(differ), None, None]
    assert [copy["log_end_offset"] for copy in row.copies] == [max(of_one) + 1, max(of_two) + 1, max(of_two) + 1]
    assert {each.replica["state"] for each in found.values()} == {"identical"}
    assert report.exit_status == 4


@pytest.mark.parametrize("moment", ["final", "in-sync-running"])
def test_brokers_in_sync_are_the_same(corpus: Path, moment: str) -> None:
    report = Report()
    found = _compared(corpus / CASE / moment, report)
    assert {each.replica["state"] for each in found.values()} == {"identical"}
    assert report.exit_status == 0
    assert report.batches > 250
