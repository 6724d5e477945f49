"""The fake planner is in for a command's."""

from __future__ import annotations

import pytest

from kafkalog_core.ops import planners
from kafkalog_core.storage.changing import writer


@pytest.fixture
def fake_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners.PLANNERS, "reindex", "tests.support.repairs:plan")


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends loses nothing of what the system has taken: only a machine that stops does."""
    monkeypatch.setattr(writer, "_sync", lambda number: None)
