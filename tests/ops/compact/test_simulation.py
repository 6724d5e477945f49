"""Simulations of whole log directories: in other processes too, with totals that add up."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.compact import compact as compact_module
from kafkalog_core.ops.compact.compact import compact, tasks_of
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.ops.repair.context import target_dir
from tests.support.brokers import Appended, write_segment
from tests.support.build import Record, batch_v2

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.ops.compact.forecast import CompactForecast

TIME_MS = 1_700_000_000_000
KAFKA = SettingsRequest(kafka="4.3.1", assignments=("cleanup.policy=compact",))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Five partitions, each with three segments of ten records: of four keys in the first, of three in the others."""
    root = tmp_path / "disk"
    for number in range(5):
        directory = root / f"customers-{number}"
        for base in (0, 10, 20):
            keys = [b"%d" % (n % (3 if base else 4)) for n in range(10)]
            records = [
                Record(offset=base + n, timestamp_ms=TIME_MS + base + n, key=key, value=b"v")
                for n, key in enumerate(keys)
            ]
            write_segment(directory, base, [Appended(batch_v2(records), base + 9, TIME_MS + base + 9)])
    (root / "cleaner-offset-checkpoint").write_text("0\n2\ncustomers 1 10\ncustomers 2 20\n")
    (root / "replication-offset-checkpoint").write_text("0\n2\ncustomers 3 15\ncustomers 4 30\n")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=JP8dLpwyRqt7lTsK7P_TbQ\n")
    return root


def forecasts(log_dir: Path, **options: Any) -> list[CompactForecast]:
    targets = tuple(resolve([str(log_dir)], Selection()))
    request = CompactRequest(targets=targets, now_ms=TIME_MS + 10_000_000, **{"kafka": KAFKA} | options)
    return list(compact(request, Report()))


def test_each_by_its_checkpoints(log_dir: Path) -> None:
    rows = [forecast.partition for forecast in forecasts(log_dir)]
    assert [row["first_dirty_offset"] for row in rows] == [0, 10, 20, 0, 0]
    assert [row["first_uncleanable_offset"] for row in rows] == [20, 20, 20, 10, 20]
    assert [row["held_back_by"] for row in rows] == [*["active-segment"] * 3, "high-watermark", "active-segment"]
    assert [row["state"] for row in rows] == [
        "cleanable",
        "not-dirty-enough",
        "nothing-cleanable",
        "cleanable",
        "cleanable",
    ]
    assert [row.get("records_after") for row in rows] == [4, 5, None, 4, 4]


def test_one_that_would_not_be_cleaned_is_simulated_and_not_more(log_dir: Path) -> None:
    row = forecasts(log_dir)[1].partition
    assert (row["would_run"], row["passes"], row["bytes_before"]) == (False, 1, row["bytes_before"])
    assert forecasts(log_dir, force=True)[1].partition["would_run"] is True
    assert forecasts(log_dir, force=True, memory_bytes=72)[1].partition["passes"] > 1
    assert forecasts(log_dir, memory_bytes=72)[1].partition["passes"] == 1


def test_totals_add_up(log_dir: Path) -> None:
    for memory_bytes in (None, 72, 96):
        for forecast in forecasts(log_dir, memory_bytes=memory_bytes):
            row = forecast.partition
            if not row["passes"]:
                continue
            kept, dropped = sum(row["kept_records"].values()), sum(row["dropped_records"].values())
            assert kept == row["records_after"]
            assert kept + dropped == row["records_before"]
            saved = [one["bytes_before"] - one["bytes_after"] for one in forecast.passes]
            assert row["bytes_before"] - row["bytes_after"] == sum(saved)
            assert row["passes"] == len(forecast.passes)


def test_other_processes_say_the_same(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = forecasts(log_dir, biggest=3)
    monkeypatch.setattr("kafkalog_core.engine.pool.SHARED_BYTES", 0)
    assert forecasts(log_dir, biggest=3, jobs=2) == alone


def test_a_task_for_another_process_is_light(log_dir: Path) -> None:
    for task in tasks_of(target_dir([str(log_dir)]), CompactRequest(targets=(), now_ms=TIME_MS, kafka=KAFKA)):
        light = task.light()
        assert b"customers-4" not in pickle.dumps(light) or task.partition == 4
        broker_dir = light.context.broker_dir
        assert broker_dir is not None
        assert broker_dir.log_dir.partitions == ()


def test_a_log_whose_end_cannot_be_read_is_not_foreseen(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_module, "read_partition_view", lambda *_: None)
    (log_dir / "customers-5").mkdir()
    *others, empty = forecasts(log_dir)
    assert {forecast.partition["state"] for forecast in others} == {"fails"}
    assert {finding.code for forecast in others for finding in forecast.findings} == {"compaction.not-foreseen"}
    assert others[0].partition["reason"] == "its last segment cannot be read"
    assert (empty.partition["state"], empty.partition["reason"]) == ("nothing-cleanable", "it has no segment")
    assert empty.findings == ()
