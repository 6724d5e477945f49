"""Compaction by workers: the rows, and the files, are those of one process."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError, SelectionError
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.compact.compact import compact
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.ops.compact.new_log_dir import compact_to
from kafkalog_core.structs import replace
from tests.support.build import Record, batch_v2
from tests.support.build_files import meta_properties
from tests.support.clusters import config_record
from tests.support.inline import Inline
from tests.support.keyed_logs import NOW_MS, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kafkalog_core.ops.compact.forecast import CompactForecast

KAFKA = SettingsRequest(
    kafka="4.3.1",
    assignments=("cleanup.policy=compact", "min.cleanable.dirty.ratio=0"),
    topic_assignments=("u:cleanup.policy=delete",),
    assume_defaults=True,
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """More partitions than are looked at in one go, some of which no cleaner takes."""
    root = tmp_path / "log-dir"
    root.mkdir()
    Writer(0, 2).write(root)
    for number in range(1, 40):
        other = tmp_path / "other"
        other.mkdir()
        (Writer(number, number % 3 + 1).write(other) / "t-0").rename(root / f"{'tu'[number % 4 == 0]}-{number}")
        (other / "meta.properties").unlink()
        other.rmdir()
    (root / "u-50").mkdir()
    return root


def test_the_settings_of_a_sibling_directory_count_in_every_process(tmp_path: Path) -> None:
    """What is read of the other log directory, and of a file that only this machine has, travels with the pieces."""
    first, second = tmp_path / "first", tmp_path / "second"
    for number, directory in enumerate((first, second)):
        directory.mkdir()
        own = {"version": "1", "node.id": "1", "cluster.id": "abcdefghijklmnopqrstuv"}
        (directory / "meta.properties").write_bytes(meta_properties({**own, "directory.id": "A" * 21 + "AB"[number]}))
    changed = config_record(4, "1", "log.cleaner.threads", "3")
    (first / "__cluster_metadata-0").mkdir()
    metadata = batch_v2([Record(offset=0, timestamp_ms=NOW_MS, key=None, value=changed)])
    (first / "__cluster_metadata-0" / f"{0:020}.log").write_bytes(metadata)
    for number in range(3):
        other = tmp_path / "other"
        other.mkdir()
        (Writer(number, 2).write(other) / "t-0").rename(second / f"t-{number}")
        shutil.rmtree(other)
    given = replace(KAFKA, topic_assignments=(), config=str(tmp_path / "server.properties"))
    (tmp_path / "server.properties").write_text(f"log.dirs={first},{second}\nlog.cleaner.dedupe.buffer.size=50000000\n")

    class Elsewhere(Inline):
        def map(self, work_of: Callable[..., Any], pieces: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            some = [*pieces]
            (tmp_path / "server.properties").rename(tmp_path / "away")
            yield from super().map(work_of, some)
            (tmp_path / "away").rename(tmp_path / "server.properties")

    asked = replace(request(second), targets=tuple(resolve([str(first), str(second)])), kafka=given)
    here = rows(compact(asked, Report()))
    assert {row["settings"]["log.cleaner.threads"]["value"] for row in here if "settings" in row} == {"3"}
    assert rows(compact(asked, Report(), workers=Elsewhere())) == here


def request(root: Path) -> CompactRequest:
    return CompactRequest(targets=tuple(resolve([str(root)])), now_ms=NOW_MS, kafka=KAFKA, biggest=3)


def rows(forecasts: Iterable[CompactForecast]) -> list[dict[str, object]]:
    return [row for forecast in forecasts for chunk in forecast.chunks() for row in chunk.rows()]


def tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns if path.suffix == ".log" else 0)
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_forecasts(log_dir: Path) -> None:
    workers, mine, theirs = Inline(), Report(), Report()
    found = rows(compact(request(log_dir), mine, workers=workers))
    assert found == rows(compact(request(log_dir), theirs))
    assert mine.summary_row() == theirs.summary_row()
    assert workers.pieces == 2 + 41
    assert workers.read_bytes > 0
    assert {row["state"] for row in found if row["type"] == "compaction"} >= {"cleanable", "not-compacted"}


def test_a_new_directory(log_dir: Path) -> None:
    around, before = log_dir.parent, tree(log_dir)
    found = rows(compact_to(request(log_dir), str(around / "mine"), Report(), workers=Inline()))
    assert found == rows(compact_to(request(log_dir), str(around / "theirs"), Report()))
    assert tree(around / "mine") == tree(around / "theirs")
    assert (around / "mine/u-50").is_dir()
    assert tree(log_dir) == before
    assert sorted(os.listdir(around)) == ["log-dir", "mine", "theirs"]


def test_what_is_refused_leaves_nothing(log_dir: Path) -> None:
    damaged = min((log_dir / "t-2").glob("*.log"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    with pytest.raises(RefusedError, match="a clean fails here"):
        rows(compact_to(request(log_dir), str(log_dir.parent / "to"), Report(), workers=Inline()))
    assert os.listdir(log_dir.parent) == ["log-dir"]
    of_file = replace(request(damaged), kafka=replace(KAFKA, topic_assignments=()))
    with pytest.raises(SelectionError, match="whole partitions"):
        rows(compact(of_file, Report(), workers=Inline()))
