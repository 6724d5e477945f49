"""A pytest plugin that keeps the tests that a file names, in its order, and writes which one runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the named tests."""
    names = Path(os.environ["MUTANTS_ONLY"]).read_text(encoding="utf-8").splitlines()
    found = {item.nodeid: item for item in items}
    items[:] = [found[name] for name in names if name in found]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write the name of a test that begins: with `-x`, the last one is the one that failed."""
    Path(os.environ["MUTANTS_REPORT"]).write_text(nodeid, encoding="utf-8")
