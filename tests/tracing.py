"""Which tests are measured where coverage is: of a test with parameters the first case, and no properties.

Measuring doubles the time of a test, and the thousandth case of a test reaches what the first one reaches, as the
hundred examples of a property do. What the others would add is missing from the figure, so the least that CI asks for
is asked of fewer tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Measured", "measured_ids", "plugin"]


def plugin(config: pytest.Config) -> Measured | None:
    """Return the plugin, where pytest-cov measures; None: nothing is measured."""
    return Measured() if getattr(config.option, "cov_source", None) else None


class Measured:
    """Pauses the measuring for the other tests."""

    def __init__(self) -> None:
        self._ids: frozenset[str] = frozenset()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        self._ids = measured_ids(each.nodeid for each in items if each.get_closest_marker("hypothesis") is None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        from coverage import Coverage  # noqa: PLC0415 -- only where it is asked for

        running = None if item.nodeid in self._ids else Coverage.current()
        if running is None:
            return (yield)
        running.stop()
        try:
            return (yield)
        finally:
            running.start()


def measured_ids(ids: Any) -> frozenset[str]:
    """Return the ids of the tests that are measured: of each function the first one."""
    functions: dict[str, str] = {}
    for each in sorted(ids):
        functions.setdefault(each.partition("[")[0], each)
    return frozenset(functions.values())
