"""Every job on Spark in every form of output, on terminals and on pipes; see tests/support/every_command.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import every_command
from tests.support.every_command import Case, Disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("path", "case"), every_command.cases_of(spark=True), ids=str)
def test_on_pipes(path: str, case: Case, tmp_path, monkeypatch, spark: SparkSession) -> None:
    every_command.check_on_pipes(monkeypatch, Disk(tmp_path), path, case)


@pytest.mark.parametrize(("path", "case"), every_command.cases_of(spark=True), ids=str)
def test_on_terminals(path: str, case: Case, tmp_path, monkeypatch, spark: SparkSession) -> None:
    every_command.check_on_terminals(monkeypatch, Disk(tmp_path), path, case)
