"""The HTML report of `verify`: one page that needs no network, for a manager at its top, for an engineer below."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkalog_cli.render.report_data import Collected
from kafkalog_cli.render.report_page import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_cli.outfile import OutFile
    from kafkalog_cli.render.report_data import RunFacts
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["HtmlReport"]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class HtmlReport:
    """Takes verdicts as they come and writes the page at last: memory and page do not grow with the partitions."""

    def __init__(self, file: OutFile, run: RunFacts, now_ms: Callable[[], int] = _now_ms) -> None:
        self._file = file
        self._run = run
        self._now_ms = now_ms
        self._collected = Collected()

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Keep what of a verdict is to be shown."""
        self._collected.add(verdict)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the page. Raises AccessError."""
        self._file.write(Page(self._run, self._collected, summary, self._now_ms()).pieces())
