"""A log before and after a real cleaner or retention, taken for two copies: no loss, and no divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.replicas.compare import Comparison, ReplicasRequest, ReplicaTask, compare, replicas, work_of
from kafkalog_core.ops.replicas.verdict import ReplicaDir
from kafkalog_core.storage.logdir import holds_segments
from kafkalog_core.storage.partition import partition_name

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
