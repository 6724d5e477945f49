"""Which cases of a test with many run in CI: a part of them, which the commit draws.

KAFKALOG_SHARE is the number of a part, from 0, and how many parts there are: `1/3`. Of a function with at least _MANY
cases that part runs, and the first case; of other functions all cases run. Without it everything runs. Every case is in
one part, so as many commits in a row that draw each another part run all of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from zlib import crc32

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["VARIABLE", "Share", "plugin", "share"]

VARIABLE: Final = "KAFKALOG_SHARE"
_MANY: Final = 12


class Share:
    """The part that runs."""

    def __init__(self, text: str) -> None:
        """Take `PART/PARTS`. Raises ValueError."""
        self._part, self._parts = map(int, text.split("/"))
        if not 0 <= self._part < self._parts:
            raise ValueError(f"no part of that many: {text}")

    def of(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names of the tests that run, of all that there are."""
        functions: dict[str, list[str]] = {}
        for name in sorted(names):
            functions.setdefault(name.partition("[")[0], []).append(name)
        return frozenset(
            name
            for cases in functions.values()
            for name in cases
            if len(cases) < _MANY or name == cases[0] or self.has(name)
        )

    def has(self, name: str) -> bool:
        """Return whether a name is in the part."""
        return crc32(name.encode()) % self._parts == self._part

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        drawn = self.of(item.nodeid for item in items)
        left_out = [item for item in items if item.nodeid not in drawn]
        items[:] = [item for item in items if item.nodeid in drawn]
        config.hook.pytest_deselected(items=left_out)

    def pytest_report_header(self) -> str:
        return f"of functions with {_MANY} cases or more, part {self._part} of {self._parts} runs"


def share() -> Share | None:
    """What the environment asks for; None: everything."""
    text = os.environ.get(VARIABLE)
    return Share(text) if text else None


def plugin() -> Share | None:
    """Return the plugin, unless the interpreted twin chooses its tests (`reaching`), which then heeds the share too."""
    from tests import reaching  # noqa: PLC0415 -- it imports this module

    return None if reaching.chooses() else share()
