"""Every job on Spark in every form of output, on terminals and on pipes; see tests/support/every_command.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.support import every_command
from tests.support.every_command import Case, Disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


READERS: Final = [each for each in every_command.cases_of(spark=True) if each[0] in {"spark verify", "spark sql"}]
"""A report and a stream of rows: the others end as the report does, and each case starts four JVMs."""


@pytest.mark.parametrize(("path", "case"), every_command.cases_of(spark=True), ids=str)
def test_on_pipes(path: str, case: Case, tmp_path, monkeypatch, spark: SparkSession) -> None:
    every_command.check_on_pipes(monkeypatch, Disk(tmp_path), path, case)


@pytest.mark.parametrize(("path", "case"), every_command.cases_of(spark=True), ids=str)
def test_on_terminals(path: str, case: Case, tmp_path, monkeypatch, spark: SparkSession) -> None:
    every_command.check_on_terminals(monkeypatch, Disk(tmp_path), path, case)


@pytest.mark.live
@pytest.mark.parametrize(
    ("path", "case"), [each for each in every_command.cases_of(spark=True) if "{new}" not in each[1].arguments], ids=str
)
def test_without_a_reader(path: str, case: Case, tmp_path) -> None:
    every_command.check_without_reader(Disk(tmp_path), path, case)
