"""`retain` on Spark: many log directories in one go, each by its own settings, and what ends it in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import RefusedError, SettingError
from kafkalog_core.findings import Finding
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster, RetentionOptions, Scenario, totals
from kafkalog_core.ops.retain.retain import RetainRequest
from kafkalog_core.ops.retain.retain import retain as retain_here
from kafkalog_core.ops.retain.rows import retained_rows, what_if_rows
from kafkalog_core.spark.jobs import retain, retain_rows
from kafkalog_core.spark.session.workers import SparkWorkers
from kafkalog_core.structs import replace
from tests.support import build
from tests.support.inline import Inline

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

FIRST_MS = 1_000_000_000_000
DAY_MS = 86_400_000
NOW_MS = FIRST_MS + 30 * DAY_MS


def lay(root: Path, partitions: int, *, first_ms: int = FIRST_MS) -> Path:
    """A log directory; partition N has N + 1 segments, a day between them."""
    root.mkdir()
    (root / "meta.properties").write_bytes(build.meta_properties({"version": "0", "broker.id": root.name[-1]}))
    for number in range(partitions):
        directory = root / f"t-{number}"
        directory.mkdir()
        for segment in range(number % 7 + 1):
            record = build.Record(offset=segment, key=b"k", value=b"v", timestamp_ms=first_ms + segment * DAY_MS)
            (directory / f"{segment:020}.log").write_bytes(build.batch_v2([record]))
    return root


def requests(*roots: Path, scenarios: tuple[str, ...] = ()) -> list[RetainRequest]:
    kafka = SettingsRequest(kafka="4.3.1", assignments=("log.retention.hours=600",))
    return [
        RetainRequest(
            target=site,
            wanted=RetentionOptions(kafka=kafka, now_ms=NOW_MS),
            scenarios=tuple(map(Scenario.parse, scenarios)),
            until_ms=NOW_MS + DAY_MS,
        )
        for root in roots
        for site in target_dirs(resolve([str(root)]))
    ]


def rows_here(asked: Iterable[RetainRequest]) -> list[dict[str, object]]:
    """What one process says."""
    said = [
        each for request in asked for each in retain_here(request, RetentionForecaster(request.target, request.wanted))
    ]
    chunks = [chunk for each in said for chunk in retained_rows(each)]
    outcomes = [outcome for each in said if isinstance(each, RetainForecast) for outcome in each.outcomes]
    return [row for chunk in [*chunks, what_if_rows(totals(outcomes))] for row in chunk.rows()]


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    """Three log directories; one has more partitions than go together, one has none, one a partition of 0.7."""
    many, none, few = lay(tmp_path / "disk1", 40), lay(tmp_path / "disk2", 0), lay(tmp_path / "disk3", 2)
    (none / "not-a-log").mkdir()
    (few / "u-0").mkdir()
    return [many, none, few]


def test_all_directories_in_one_go(spark: SparkSession, roots: list[Path]) -> None:
    asked = requests(*roots, scenarios=("retention.ms=1000", "retention.bytes=1"))
    found = [row for chunk in retain_rows(SparkWorkers(spark), asked) for row in chunk.rows()]
    assert found == rows_here(asked)
    assert sum(row["type"] == "retention" for row in found) == 42


def test_surveys_come_in_their_order_and_some_partitions_together(roots: list[Path]) -> None:
    workers = Inline()
    asked = requests(*roots[::-1], *roots[1:2])
    seen = [(forecaster.context.target.root, len(list(said))) for forecaster, said in retain(workers, asked)]
    assert seen == [(str(roots[2]), 3), (str(roots[1]), 0), (str(roots[0]), 40), (str(roots[1]), 0)]
    assert workers.pieces == 3
    assert [len(list(said)) for _, said in retain(Inline(), requests(roots[1]))] == [0]
    assert list(retain(Inline(), [])) == []


def test_what_a_directory_is_refused_for_comes_behind_those_before_it(tmp_path: Path, roots: list[Path]) -> None:
    later = lay(tmp_path / "disk4", 1, first_ms=NOW_MS + DAY_MS)
    said = retain(Inline(), requests(roots[2], later, roots[0]))
    assert len(list(next(said)[1])) == 3
    with pytest.raises(RefusedError, match="is before all of the data"):
        list(next(said)[1])


def test_settings_that_no_broker_takes_do_too(roots: list[Path]) -> None:
    good, bad = requests(roots[2])[0], requests(roots[0])[0]
    unknown = replace(bad, wanted=RetentionOptions(kafka=SettingsRequest(kafka="no release"), now_ms=NOW_MS))
    said = retain(Inline(), [good, unknown])
    assert [isinstance(each, Finding) for each in next(said)[1]] == [False, False, True]
    with pytest.raises(SettingError, match="no release"):
        next(said)


def test_the_command(spark: SparkSession, roots: list[Path]) -> None:
    arguments = ("--now", str(NOW_MS), "--kafka", "4.3.1", *map(str, roots))
    for output in ("ndjson", "json", "csv", "table"):
        plain = CliRunner().invoke(cli, ["retain", "--output", output, *arguments])
        shared = CliRunner().invoke(cli, ["spark", "retain", "--output", output, *arguments])
        assert (shared.exit_code, shared.stdout) == (plain.exit_code, plain.stdout)
    refused = CliRunner().invoke(cli, ["spark", "retain", "hdfs://nn/kafka"])
    assert refused.exit_code == 3
    assert "kafkalog does not read hdfs: URLs" in refused.stderr
