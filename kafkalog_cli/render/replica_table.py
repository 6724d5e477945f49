"""Comparisons of copies for people: how many differ, then each partition whose copies do, and which one to keep."""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import NONE, count_of, plain, span
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.compact_detail import table_lines, wrapped
from kafkalog_cli.render.findings import finding_lines
from kafkalog_cli.render.summary import summary_sentence, verdict
from kafkalog_cli.render.table import VERDICT_STYLES, open_console
from kafkalog_core.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.ops.replicas.comparison import Comparison

__all__ = ["ReplicaTable"]

Row = dict[str, object]

SHOWN_PARTITIONS: Final = 100
SHOWN_RANGES: Final = 20
_BAD: Final = frozenset({"divergent", "damaged", "missing", "another-topic"})
_WORTH_SHOWING: Final = (*sorted(_BAD), "behind", "compacted", "trimmed")
_ALIKE: Final = frozenset({"identical", "alone"})
_LACKS: Final = ("damaged", "missing", "behind", "compacted", "trimmed")


def _lacks(row: Mapping[str, object]) -> str:
    parts = [f"{row[f'lacks_{name}']} {name}" for name in _LACKS if row.get(f"lacks_{name}")]
    return ", ".join(parts) or NONE


def _offsets(row: Mapping[str, object]) -> str:
    start, end = row.get("log_start_offset"), row.get("log_end_offset")
    if not isinstance(start, int) or not isinstance(end, int):
        return NONE
    return span(start, end - 1) if end > start else "none"


_COPIES: Final = (
    Shown("copy", lambda row: plain(row.get("path")), flexible=True),
    Shown("broker", lambda row: plain(row.get("node_id")), rank=4),
    Shown("state", lambda row: plain(row.get("state"))),
    Shown("epoch", lambda row: plain(row.get("leader_epoch")), right=True),
    Shown("offsets", _offsets, right=True),
    Shown("high watermark", lambda row: plain(row.get("high_watermark")), right=True, rank=2),
    Shown("records", lambda row: plain(row.get("records")), right=True, rank=3),
    Shown("only here", lambda row: plain(row.get("only_here")), right=True),
    Shown("lacks", _lacks, rank=1),
)


class ReplicaTable:
    """Shows each partition whose copies differ as it comes; how many there are of which kind stands last."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._states: Counter[str] = Counter()
        self._others: list[Finding] = []
        self._shown = 0

    def write(self, item: Comparison | Finding) -> None:
        """Show a partition whose copies differ; count the others."""
        if isinstance(item, Finding):
            self._others.append(item)
            return
        state = str(item.replica["state"])
        self._states[state] += 1
        self._others += [finding for finding in item.findings if not finding.code.startswith("replicas.")]
        if state in _ALIKE:
            return
        self._shown += 1
        if self._shown <= SHOWN_PARTITIONS:
            self._print(_lines(item, self._console.width))

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show what is left, then the summary."""
        lines: list[Text] = []
        if self._shown > SHOWN_PARTITIONS:
            rest = count_of(self._shown - SHOWN_PARTITIONS, "more partition")
            lines.append(Text(f"... and {rest} whose copies differ: --output ndjson has them all", "dim"))
        if self._others:
            lines += [Text(), *finding_lines([finding.row() for finding in self._others], self._console.width)]
        lines += [Text(), Text(_counts(self._states), "bold")]
        lines.append(Text(summary_sentence(summary), VERDICT_STYLES[verdict(summary)]))
        self._print(lines)

    def _print(self, lines: Sequence[Text]) -> None:
        self._console.print(*lines, sep="\n", soft_wrap=True)


def _counts(states: Counter[str]) -> str:
    """`12 partitions: 1 divergent, 11 identical`."""
    order = (*_WORTH_SHOWING, "identical", "alone")
    parts = [f"{states[state]} {state}" for state in order if states[state]]
    total = count_of(sum(states.values()), "partition")
    return f"{total}: {', '.join(parts)}" if parts else total


def _lines(item: Comparison, width: int) -> list[Text]:
    row = item.replica
    state = str(row["state"])
    since = "" if row.get("divergent_offset") is None else f" from offset {row['divergent_offset']} on"
    title = f"{plain(row['topic'])}-{row['partition']}: {state}{since}, {count_of(row['copies'], 'copy')}"
    lines = [Text(), *wrapped(title, width, "bold red" if state in _BAD else "bold cyan")]
    lines += wrapped(plain(row.get("reason")), width, "bold")
    lines += table_lines(_COPIES, item.copies, width)
    names = _names(item.copies)
    for copy in item.copies:
        if copy["state"] not in {"keep", "identical"}:
            lines += wrapped(f"{names[copy['path']]}: {plain(copy['advice'])}", width, "")
    return lines + _range_lines(item.ranges, names, width)


def _names(copies: Sequence[Row]) -> dict[object, str]:
    """What copies are called in sentences, by their paths: `broker 1` where that is one of them."""
    nodes = Counter(copy.get("node_id") for copy in copies)
    return {
        copy["path"]: f"broker {plain(copy['node_id'])}"
        if copy.get("node_id") is not None and nodes[copy["node_id"]] == 1
        else plain(copy["path"])
        for copy in copies
    }


def _range_lines(ranges: Sequence[Row], names: Mapping[object, str], width: int) -> list[Text]:
    lines: list[Text] = []
    for row in ranges[:SHOWN_RANGES]:
        has = row["has"] if isinstance(row["has"], dict) else {}
        texts: dict[str, list[str]] = {}
        for path, text in has.items():
            texts.setdefault(text, []).append(names.get(path, plain(path)))
        what = "; ".join(f"{text} in {', '.join(paths)}" for text, paths in texts.items())
        offsets = span(row["first_offset"], row["last_offset"])
        lines += wrapped(f"offsets {offsets}, {row['kind']}, {count_of(row['records'], 'record')}: {what}", width, "")
    if len(ranges) > SHOWN_RANGES:
        rest = count_of(len(ranges) - SHOWN_RANGES, "more range")
        lines.append(Text(f"... and {rest}: --output ndjson has them all", "dim"))
    return lines
