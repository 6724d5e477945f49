"""Every command in every form of output, on terminals and on pipes; the jobs on Spark are in tests/spark."""

from __future__ import annotations

import pytest

from tests.support import every_command
from tests.support.every_command import CASES, Case, Disk


def test_every_command_has_a_case():
    assert CASES.keys() == dict(every_command.commands()).keys()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "case"), every_command.cases_of(spark=False), ids=str)
def test_on_pipes(path: str, case: Case, tmp_path, monkeypatch):
    every_command.check_on_pipes(monkeypatch, Disk(tmp_path), path, case)


@pytest.mark.live
@pytest.mark.parametrize(("path", "case"), every_command.cases_of(spark=False), ids=str)
def test_without_a_reader(path: str, case: Case, tmp_path):
    every_command.check_without_reader(Disk(tmp_path), path, case)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "case"), every_command.cases_of(spark=False), ids=str)
def test_on_terminals(path: str, case: Case, tmp_path, monkeypatch):
    every_command.check_on_terminals(monkeypatch, Disk(tmp_path), path, case)
