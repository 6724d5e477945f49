"""What takes the space of disks for people: the answer, a row with a bar for each topic, and the next command."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.answer import assumed_lines, rule_lines
from kafkalog_cli.render.cells import NONE, human_bytes, number, plain, time_cell
from kafkalog_cli.render.grid import TableColumn, count_column, draws_blocks, size_column, table_lines
from kafkalog_cli.render.summary import INDENT, SummaryTable, command_text, sentence_texts
from kafkalog_core.command_lines import shell_path
from kafkalog_core.ops.usage.rows import directory_row, rows_of
from kafkalog_core.text import count_of, moment, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.ops.usage.usage import DirUsage

__all__ = ["UsageTable", "answer_of", "row_name"]

Row = dict[str, object]

SHOWN_ROWS: Final = 40
_BAR: Final = 20


def answer_of(found: Sequence[DirUsage]) -> str:
    """Return the answer, one sentence without its full stop."""
    rows = [directory_row(each) for each in found]
    used = sum(number(row, "allocated_bytes") for row in rows)
    systems = {each.file_system: each for each in found}
    whole, free = (
        sum(getattr(each, name) for each in systems.values()) for name in ("file_system_bytes", "free_bytes")
    )
    what = found[0].path if len(found) == 1 else count_of(len(found), "directory")
    what = what if all(each.is_whole for each in found) else f"the selected partitions of {what}"
    parts = [f"{size(used)} of {size(whole)} used by {what}, {size(free)} free"]
    largest = max(_names(found).items(), key=lambda pair: pair[1], default=None)
    if largest is not None:
        parts.append(
            f"the largest is {'topic' if found[0].by == 'topic' else 'partition'} {largest[0]} with {size(largest[1])}"
        )
    return "; ".join((*parts, _removable(found, rows)))


def _names(found: Sequence[DirUsage]) -> Counter[str]:
    """Return the bytes of each topic or partition on all disks."""
    names: Counter[str] = Counter()
    for each in found:
        for (topic, partition), share in each.shares.items():
            if topic is not None:
                names[topic if partition is None else f"{topic}-{partition}"] += share.total.allocated_bytes
    return names


def _removable(found: Sequence[DirUsage], rows: Sequence[Mapping[str, object]]) -> str:
    """Return what may go, and what of it."""
    sums = {
        "leftovers": sum(number(row, "leftover_bytes") for row in rows),
        "retention": sum(number(row, "retention_bytes") for row in rows),
        "preallocated indexes": sum(number(row, "slack_allocated_bytes") for row in rows),
    }
    unknown = "" if all(each.retention_problem is None for each in found) else " (retention is unknown)"
    unknown = unknown or ("" if found[0].now_ms is not None else " (retention: --by topic)")
    if not any(sums.values()):
        return f"nothing may go without a loss{unknown}"
    texts = [f"{name} {size(size_bytes)}" for name, size_bytes in sums.items() if size_bytes]
    return f"{size(sum(sums.values()))} may go: {', '.join(texts)}{unknown}"


class UsageTable(SummaryTable["DirUsage"]):
    """The rows of all directories, the largest first, and their sum."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__()
        self._paths = paths
        self._found: list[DirUsage] = []

    def write(self, item: DirUsage) -> None:
        """Keep a directory."""
        self._found.append(item)
        self.add_findings(finding.row() for finding in item.findings)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer, the next command and the rows."""
        del summary
        if not self._found:
            return [Text("NOTHING WAS COUNTED: no directory was read", "bold")]
        rows = sorted(self._rows(), key=lambda row: -number(row, "allocated_bytes"))
        lines = sentence_texts(f"{answer_of(self._found)}.", self.width, "bold")
        lines.append(Text(f"{INDENT}{command_text(self._next())}", "bold"))
        totals = [directory_row(each) | {"name": "all", "path": each.path} for each in self._found]
        whole = sum(number(row, "allocated_bytes") for row in totals)
        for row in (*rows, *totals):
            row["bar"] = self._bar(number(row, "allocated_bytes"), whole)
        shown = rows[:SHOWN_ROWS] + totals
        lines += table_lines(
            self._columns(), shown, self.width, noun="row", count=len(rows) + len(totals), style_of=_style
        )
        return lines

    def notes(self) -> list[Text]:
        """Return what the sizes do not show, and what retention depends on."""
        lines = [line for sentence in self._sentences() for line in sentence_texts(sentence, self.width)]
        lines += assumed_lines(list(dict.fromkeys(one for each in self._found for one in each.assumptions)), self.width)
        for each in self._found:
            if each.retention_problem is not None:
                lines += sentence_texts(
                    f"retention is unknown in {each.path}: {each.retention_problem}", self.width, "yellow"
                )
        asked = next((each for each in self._found if each.now_ms is not None), None)
        if asked is not None and asked.now_ms is not None:
            lines += sentence_texts(
                f"now is {moment(asked.now_ms)}; kafkalog retain shows each segment", self.width, "dim"
            )
            releases = list(dict.fromkeys(str(each.release) for each in self._found if each.release is not None))
            lines += rule_lines(", ".join(releases) or None, (), self.width, explains=False)
        return [Text(), *lines] if lines else []

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the exit status."""
        return Text(f"exit status {summary.get('exit_status')}", "dim")

    def _next(self) -> str:
        paths = " ".join(map(shell_path, self._paths))
        return f"kafkalog free {paths} --need 5GiB"

    def _rows(self) -> Iterator[Row]:
        for each in self._found:
            for row in rows_of(each):
                yield row | {"name": row_name(row)}

    def _bar(self, size_bytes: int, whole: int) -> str:
        filled, empty = ("█", "░") if draws_blocks(self.console) else ("#", ".")
        cells = -(-size_bytes * _BAR // max(1, whole))
        return filled * cells + empty * (_BAR - cells)

    def _columns(self) -> list[TableColumn]:
        by = self._found[0].by
        columns = [TableColumn(by, lambda row: plain(row["name"]))]
        if len(self._found) > 1:
            columns.append(TableColumn("in", lambda row: plain(row["path"]), flexible=True, rank=2))
        columns += [TableColumn("", lambda row: str(row["bar"]), rank=3), size_column("takes", "allocated_bytes")]
        if by == "kind":
            return [
                *columns,
                size_column("size", "bytes"),
                count_column("files", "files"),
                _sized("preallocated", "slack_bytes"),
            ]
        return [
            *columns,
            _sized("closed", "closed_bytes", 1),
            _sized("active", "active_bytes", 1),
            _sized("indexes", "index_bytes", 1),
            _sized("leftovers", "leftover_bytes"),
            _sized("moving", "moving_bytes", 2),
            _sized("journals", "journal_bytes", 2),
            _sized("foreign", "foreign_bytes", 2),
            _sized("other", "other_bytes", 4),
            _sized("retention now", "retention_bytes"),
            TableColumn("more is due", lambda row: time_cell(row.get("next_due_ms")).partition(".")[0], rank=2),
            _sized("a clean saves", "compaction_bytes"),
        ]

    def _sentences(self) -> Iterator[str]:
        rows = [directory_row(each) for each in self._found]
        linked, sparse, slack = (
            sum(number(row, name) for row in rows) for name in ("linked_files", "sparse_files", "slack_bytes")
        )
        if slack:
            taken = sum(number(row, "slack_allocated_bytes") for row in rows)
            yield f"preallocated in indexes after their entries: {size(slack)}, of which {size(taken)} are allocated"
        if sparse:
            apparent, taken = (sum(number(row, name) for row in rows) for name in ("bytes", "allocated_bytes"))
            yield f"{count_of(sparse, 'file')} with holes: all files have {size(apparent)}, and take {size(taken)}"
        if linked:
            taken = sum(number(row, "linked_bytes") for row in rows)
            names = f"{count_of(linked, 'name')} of files with several hard links take {size(taken)}"
            yield f"{names}: deleting one name of a file frees nothing"
        unforeseen = sum(number(row, "unforeseen_partitions") for row in rows)
        if unforeseen:
            yield f"retention is unknown in {count_of(unforeseen, 'partition')}: kafkalog retain shows why"


def _sized(title: str, name: str, rank: int = 0) -> TableColumn:
    """Return a column of a size that is left out where nothing has one."""
    return TableColumn(title, lambda row: human_bytes(row[name]) if row.get(name) else NONE, right=True, rank=rank)


def row_name(row: Mapping[str, object]) -> str:
    """Return what a row is of."""
    if row.get("kind") is not None:
        return str(row["kind"])
    if row.get("topic") is None:
        return "(no topic)"
    return str(row["topic"]) if row.get("partition") is None else f"{row['topic']}-{row['partition']}"


def _style(row: Mapping[str, object]) -> str:
    return "bold" if row["name"] == "all" else "red" if row.get("leftover_bytes") or row.get("retention_bytes") else ""
