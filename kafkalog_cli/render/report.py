"""The HTML report of `verify`: one page that needs no network, for a manager at its top, for an engineer below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_cli.render.report_data import Collected, RunFacts
from kafkalog_cli.render.report_page import Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["HtmlReport", "RunFacts"]


class HtmlReport:
    """Takes verdicts as they come, then gives the page; memory and page do not grow with the number of partitions."""

    def __init__(self, run: RunFacts) -> None:
        self._run = run
        self._collected = Collected()

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Keep what of a verdict is to be shown."""
        self._collected.add(verdict)

    def page(self, summary: Mapping[str, object], finished_ms: int) -> Iterator[str]:
        """The text of the page, in pieces."""
        yield from Page(self._run, self._collected, summary, finished_ms).pieces()
