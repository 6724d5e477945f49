"""A pytest plugin that writes how long each test took, next to the coverage that a run measures."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_SECONDS: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what a test took, its fixtures included."""
    _SECONDS[report.nodeid] = round(_SECONDS.get(report.nodeid, 0.0) + report.duration, 4)


def pytest_sessionfinish() -> None:
    """Write it, once for all workers."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        Path(os.environ.get("MUTANTS_DURATIONS", ".durations.json")).write_text(json.dumps(_SECONDS), encoding="utf-8")
