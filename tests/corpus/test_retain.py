"""What the retention of real brokers took away is what the forecast says, and what `retain --apply` takes away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.kafka.sim.retention.forecast import RetentionQuestion, forecast
from kafkalog_core.kafka.sim.retention.rules import retention_rules
from kafkalog_core.kafka.sim.settings import read_settings
from kafkalog_core.kafka.sim.start.segment_views import read_partition_view
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing import writer
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.storage.logdir import read_log_dir
from kafkalog_core.storage.partition import read_partition
from tests.corpus import retaining
from tests.support.corpus import archives

if TYPE_CHECKING:
    from pathlib import Path

    from tests.corpus.retaining import Kept

pytestmark = pytest.mark.corpus

KEPT = retaining.kept()
_SNAPSHOTS_AT_ONCE = (3, 0)
"""Before, a broker takes snapshots away together with the segments' files, after the delay; before 2.8 not at all."""


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_sync", lambda number: None)


def _live(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name.endswith(".log")}


def _bases(names: Any) -> list[int]:
    return sorted(int(name[:20]) for name in names)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.id)
def test_the_forecast_is_what_the_broker_did(corpus: Path, tmp_path: Path, kept: Kept) -> None:
    root = kept.lay(corpus, tmp_path / "log")
    options = kept.options(tmp_path)
    release = parse_release(kept.release)
    settings = read_settings(SettingsRequest.from_json(options), release)
    topic = settings.for_topic(kept.topic)
    partition = read_partition(str(root / kept.partition))
    view = read_partition_view(partition, read_broker_dir(read_log_dir(str(root))), topic, release)
    assert view is not None
    question = RetentionQuestion(
        view=view,
        topic=topic,
        rules=retention_rules(topic, settings),
        now_ms=kept.now_ms,
        custom={},
        log_start_offset=None,
    )
    found = forecast(question)
    assert [each.segment.base_offset for each in found.deleted] == sorted(kept.deleted)
    left = _live(corpus / kept.after)
    assert [segment.base_offset for segment in found.checked.log.segments] == _bases(left)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.id)
def test_what_is_applied_is_what_the_broker_left(corpus: Path, tmp_path: Path, kept: Kept) -> None:
    root = kept.lay(corpus, tmp_path / "log")
    options = {"kafka": kept.options(tmp_path)}
    request = PlanRequest(target=target_dir([str(root)]), options=options, now_ms=kept.now_ms)
    draft = make_plan("retain", request)
    assert bool(draft.plan.changes) == bool(kept.deleted)
    if draft.plan.changes:
        apply_plan(draft, Disk(), now_ms=kept.now_ms)
    mine, theirs = _live(root / kept.partition), _live(corpus / kept.after)
    assert mine == theirs
    if parse_release(kept.release) >= parse_release("3.0"):
        snapshots = [
            {path.name for path in where.glob("*.snapshot")} for where in (root / kept.partition, corpus / kept.after)
        ]
        assert snapshots[0] == snapshots[1]
    assert not make_plan("retain", request).plan.changes


def test_partitions_of_the_corpus_are_found() -> None:
    """An empty list would be green too."""
    assert {each.release for each in KEPT} >= {"0.10.2.2", "2.8.2", "4.3.1"}
    assert len(KEPT) == (43 if archives.is_whole() else 21)
