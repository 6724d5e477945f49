"""`usage` on Spark: the rows of the command without it, over the log directories of several brokers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support.log_dirs import write_log_dir

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def _rows(*words: str) -> list[dict[str, Any]]:
    ran = CliRunner().invoke(cli, [*words, "--ndjson"])
    assert ran.exit_code == 0, ran.output
    # The file system of the test is in use by others.
    return [
        {name: value for name, value in json.loads(line).items() if name != "free_bytes"}
        for line in ran.stdout.splitlines()
    ]


@pytest.mark.parametrize("by", ["topic", "partition", "kind"])
def test_the_rows_are_those_of_the_command_without_spark(spark: SparkSession, tmp_path: Path, by: str) -> None:
    roots = [
        str(write_log_dir(tmp_path / f"broker-{number}", ["t-0", "t-1", "u-0"], number=number)) for number in (0, 1)
    ]
    words = ("usage", "--by", by, "--now", "2026-01-01", *roots)
    assert _rows("spark", *words, "--master", "local[2]") == _rows(*words)
