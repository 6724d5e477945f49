"""An export for people: what has come of it, the partitions with errors, then the largest, then the findings."""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import NONE, human_bytes, place_of, plain, safe_text, span
from kafkalog_cli.render.columns import Shown
from kafkalog_cli.render.compact_table import number, table_lines, wrapped
from kafkalog_cli.render.table import VERDICT_STYLES, open_console
from kafkalog_cli.render.text import finding_lines, summary_sentence, verdict
from kafkalog_core.findings import Finding
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.ops.replicas.compare import Comparison
    from kafkalog_core.rows.chunk import Chunk

__all__ = ["ExportTable", "ReplicaTable"]


Row = dict[str, object]

SHOWN_PARTITIONS: Final = 100
KEPT_FINDINGS: Final = 1000
_HOLES: Final = frozenset({"export.gone-before", "segment.gap"})


def _number(title: str, name: str, rank: int = 0) -> Shown:
    return Shown(title, lambda row: plain(row.get(name)), right=True, rank=rank)


_COLUMNS: Final = (
    Shown("partition", lambda row: place_of({"topic": row.get("topic"), "partition": row.get("partition")})),
    Shown("state", lambda row: plain(row.get("state"))),
    _number("records", "records"),
    _number("from", "from_offset", rank=2),
    _number("next offset", "next_offset"),
    _number("files", "files", rank=2),
    Shown("written", lambda row: human_bytes(row.get("file_bytes")), right=True, rank=1),
    Shown("log read", lambda row: human_bytes(row.get("log_bytes")), right=True, rank=3),
    _number("removed", "removed_records", rank=3),
    _number("errors", "errors"),
    _number("warnings", "warnings", rank=1),
)


class ExportTable:
    """Takes all rows before it shows the first line, which is about all of them; then the worst come first."""

    def __init__(self, place: str, commit_of: Callable[[], int]) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._place = place
        self._commit_of = commit_of
        self._rows: list[Row] = []
        self._findings: list[Row] = []
        self._codes: Counter[str] = Counter()

    def write(self, chunk: Chunk) -> None:
        """Keep it."""
        for row in chunk.rows():
            if row["type"] != "finding":
                self._rows.append(row)
                continue
            self._codes[str(row["code"])] += 1
            if len(self._findings) < KEPT_FINDINGS:
                self._findings.append(row)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show everything, the summary last."""
        width = self._console.width
        style = VERDICT_STYLES[verdict(summary)]
        lines = wrapped(self._headline(is_cut_short=bool(summary.get("interrupted"))), width, f"bold {style}")
        news = sorted((row for row in self._rows if _is_news(row)), key=_rank)
        lines += table_lines(_COLUMNS, news[:SHOWN_PARTITIONS], width)
        if len(news) > SHOWN_PARTITIONS:
            rest = count_of(len(news) - SHOWN_PARTITIONS, "more partition")
            lines.append(Text(f"... and {rest} exported: --output ndjson has them all", "dim"))
        if news and len(news) < len(self._rows):
            lines.append(Text(f"{count_of(len(self._rows) - len(news), 'more partition')} without news", "dim"))
        if self._findings:
            lines += [Text(), *finding_lines(self._findings, width)]
        rest_of_findings = self._codes.total() - len(self._findings)
        if rest_of_findings:
            lines.append(
                Text(f"... and {count_of(rest_of_findings, 'more finding')}: --output ndjson has them all", "dim")
            )
        lines += [Text(), Text(summary_sentence(summary), style)]
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def _headline(self, *, is_cut_short: bool) -> str:
        """`2,345 records of 21 partitions exported to DIR (commit 1); 2 partitions with errors`."""
        commit, place = self._commit_of(), safe_text(self._place)
        exported = [row for row in self._rows if row["state"] == "exported"]
        records = sum(number(row, "records") for row in exported)
        removed = sum(number(row, "removed_records") for row in exported)
        if exported:
            text = f"{records:,} records of {_partitions(len(exported))} exported to {place} (commit {commit})"
            text += f", in the place of {removed:,} that were there" if removed else ""
        elif is_cut_short:
            text = f"Interrupted before anything was added to {place}"
        else:
            since = f"commit {commit}" if commit else "the start"
            text = f"Nothing new since {since} of {place}, in {_partitions(len(self._rows))}"
        stopped = sum(row["state"] == "stopped" for row in self._rows)
        damaged = sum(number(row, "errors") > 0 for row in self._rows) - stopped
        holes = sum(self._codes[code] for code in _HOLES)
        parts = [
            f"{_partitions(stopped)} stopped: the log is not the one that was exported" if stopped else "",
            f"{_partitions(damaged)} with errors" if damaged else "",
            f"{holes:,} {'hole' if holes == 1 else 'holes'} in the offsets" if holes else "",
        ]
        return "; ".join([text, *filter(None, parts)])


def _is_news(row: Row) -> bool:
    return row["state"] != "unchanged" or bool(number(row, "errors") or number(row, "warnings"))


def _rank(row: Row) -> tuple[int, int, int, str, int]:
    """The worst first, then the largest."""
    return (
        -number(row, "errors"),
        -number(row, "warnings"),
        -number(row, "records"),
        str(row["topic"]),
        number(row, "partition"),
    )


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


SHOWN_REPLICAS: Final = 100
SHOWN_RANGES: Final = 20
_BAD: Final = frozenset({"divergent", "damaged", "missing", "another-topic"})
_ORDER: Final = (
    "divergent",
    "damaged",
    "missing",
    "another-topic",
    "behind",
    "compacted",
    "trimmed",
    "identical",
    "alone",
)
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
    """Takes all comparisons before it shows the first line, which is about all of them; then the worst come first."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        self._console = open_console()
        self._states: Counter[str] = Counter()
        self._at_risk = 0
        self._worst: list[Comparison] = []
        self._others: list[Finding] = []

    def write(self, item: Comparison | Finding) -> None:
        """Count it, and keep it where it is among those to be shown."""
        if isinstance(item, Finding):
            self._others.append(item)
            return
        state = str(item.replica["state"])
        self._states[state] += 1
        self._at_risk += _replica_table_number(item.replica, "records_at_risk")
        self._others += [finding for finding in item.findings if not finding.code.startswith("replicas.")]
        if state not in _ALIKE:
            self._worst = sorted([*self._worst, item], key=_replica_table_rank)[:SHOWN_REPLICAS]

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show everything, the summary last."""
        width = self._console.width
        sentence, style = self._headline()
        lines = wrapped(sentence, width, style)
        for item in self._worst:
            lines += _lines(item, width)
        differ = sum(count for state, count in self._states.items() if state not in _ALIKE)
        if differ > len(self._worst):
            rest = count_of(differ - len(self._worst), "more partition")
            lines.append(Text(f"... and {rest} whose copies differ: --output ndjson has them all", "dim"))
        if self._others:
            lines += [Text(), *finding_lines([finding.row() for finding in self._others], width)]
        lines += [Text(), Text(summary_sentence(summary), VERDICT_STYLES[verdict(summary)])]
        self._console.print(*lines, sep="\n", soft_wrap=True)

    def _headline(self) -> tuple[str, str]:
        """`12 partitions: 1 divergent, 11 identical; 50 records are lost if ...`, and its style."""
        parts = [f"{self._states[state]} {state}" for state in _ORDER if self._states[state]]
        text = f"{count_of(sum(self._states.values()), 'partition')}: {', '.join(parts) or 'none'}"
        if self._at_risk:
            records = count_of(self._at_risk, "record")
            text += f"; {records} are gone when only the copies to keep are kept: save them first"
        return text, "bold red" if any(self._states[state] for state in _BAD) else "bold green"


def _replica_table_number(row: Mapping[str, object], name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


def _replica_table_rank(item: Comparison) -> tuple[int, int, str, int]:
    """The worst first: by state, then by records at risk."""
    row = item.replica
    return (
        _ORDER.index(str(row["state"])),
        -_replica_table_number(row, "records_at_risk"),
        str(row["topic"]),
        _replica_table_number(row, "partition"),
    )


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
