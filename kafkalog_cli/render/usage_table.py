"""What takes the space of disks for people: the answer, the next command, and a row with a bar for each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.answer import rule_lines, unknown_lines
from kafkalog_cli.render.cells import NONE, human_bytes, number, plain, time_cell
from kafkalog_cli.render.grid import TableColumn, count_column, draws_blocks, size_column, table_lines
from kafkalog_cli.render.summary import INDENT, SummaryTable, command_text, sentence_texts, status_line
from kafkalog_core.command_lines import shell_path
from kafkalog_core.ops.repair.assumptions import grouped
from kafkalog_core.ops.usage.rows import directory_row, rows_of
from kafkalog_core.ops.usage.sums import merged
from kafkalog_core.text import count_of, moment, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.ops.usage.sums import DirUsage

__all__ = ["UsageTable", "answer_of", "row_name"]

SHOWN_ROWS: Final = 40
_BAR: Final = 20
_NEED: Final = 5 * 1024**3


def row_name(row: Mapping[str, object]) -> str:
    """Return what a row is of: a kind, a topic or a partition."""
    if row.get("kind") is not None:
        return plain(row["kind"])
    if row.get("topic") is None:
        return "(no topic)"
    return plain(row["topic"] if row.get("partition") is None else f"{row['topic']}-{row['partition']}")


def answer_of(found: Sequence[DirUsage]) -> str:
    """Return the answer, one sentence without its full stop."""
    rows = [directory_row(each) for each in found]
    systems = {each.file_system: each for each in found}
    whole, free = (
        sum(getattr(each, name) for each in systems.values()) for name in ("file_system_bytes", "free_bytes")
    )
    what = found[0].path if len(found) == 1 else count_of(len(found), "directory")
    what = what if all(each.is_whole for each in found) else f"the selected partitions of {what}"
    parts = [f"{size(_sum(rows, 'allocated_bytes'))} of {size(whole)} used by {what}, {size(free)} free"]
    largest = next(iter(rows_of(merged(found), found[0].by)), None)
    if largest is not None and largest.get("kind") is None:
        is_topic = largest["topic"] is not None
        name = f"{found[0].by} {row_name(largest)}" if is_topic else "files of no topic"
        parts.append(f"the largest is {name} with {human_bytes(largest['allocated_bytes'])}")
        size_bytes, path = max(each.largest_foreign for each in found)
        if not is_topic and 2 * size_bytes > number(largest, "allocated_bytes"):
            parts[-1] += f", most of it in {plain(path)} ({size(size_bytes)})"
    return "; ".join((*parts, _removable(found, rows)))


def _removable(found: Sequence[DirUsage], rows: Sequence[Mapping[str, object]]) -> str:
    """Return what may go, and what of it."""
    names = {
        "leftovers": "leftover_bytes",
        "retention": "retention_bytes",
        "preallocated indexes": "slack_allocated_bytes",
    }
    sums = {title: _sum(rows, name) for title, name in names.items()}
    texts = [f"{title} {size(size_bytes)}" for title, size_bytes in sums.items() if size_bytes]
    if found[0].now_ms is None:
        texts.append("retention: see --by topic")
    elif any(each.retention_problem is not None for each in found):
        texts.append("retention is unknown")
    total = sum(sums.values())
    return f"{size(total)} may go{': ' if texts else ''}{', '.join(texts)}"


def _sum(rows: Sequence[Mapping[str, object]], name: str) -> int:
    return sum(number(row, name) for row in rows)


class UsageTable(SummaryTable["DirUsage"]):
    """The rows of all directories together, the largest first, and the sum of each directory."""

    def __init__(self) -> None:
        super().__init__()
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
        by = self._found[0].by
        rows = [row | {"name": row_name(row)} for row in rows_of(merged(self._found), by)]
        sums = [directory_row(each) | {"name": self._name_of(each)} for each in self._found]
        whole = max(1, _sum(sums, "allocated_bytes"))
        fullest = min(self._found, key=lambda each: each.free_bytes)  # `free` takes one log directory
        need = (
            "5GiB"
            if fullest.file_system_bytes > 10 * _NEED
            else f"{max(1, fullest.file_system_bytes // 10 // 1024**2)}MiB"
        )
        free = f"kafkalog free {shell_path(fullest.path or '.')} --need {need}"
        return [
            *sentence_texts(f"{answer_of(self._found)}.", self.width, "bold"),
            Text(f"{INDENT}make room: {command_text(free)}", "bold"),
            *table_lines(
                [TableColumn(by, lambda row: str(row["name"])), self._bar(whole), *_COLUMNS[by == "kind"]],
                [*rows[:SHOWN_ROWS], *sums],
                self.width,
                count=len(rows) + len(sums),
                style_of=lambda row: "bold" if "free_bytes" in row else "",
            ),
        ]

    def notes(self) -> list[Text]:
        """Return what the sizes do not show, and what retention depends on."""
        lines = [line for sentence in self._sentences() for line in sentence_texts(sentence, self.width)]
        assumed = list(dict.fromkeys(one for each in self._found for one in each.assumptions))
        lines += [
            line for text in grouped(assumed) for line in sentence_texts(f"assumed: {text}", self.width, "yellow")
        ]
        lines += unknown_lines((text for each in self._found for text in each.unknown), self.width)
        for each in self._found:
            if each.retention_problem is not None:
                text = f"retention is unknown in {each.path}: {each.retention_problem}"
                lines += sentence_texts(text, self.width, "yellow")
        now_ms = next((each.now_ms for each in self._found if each.now_ms is not None), None)
        if now_ms is not None:
            text = f"now is {moment(now_ms)}; kafkalog retain shows what retention does with each segment"
            lines += sentence_texts(text, self.width, "dim")
            guesses = (each.guess for each in self._found if each.guess is not None)
            for release, is_certain in dict.fromkeys((guess.release, guess.is_certain) for guess in guesses):
                lines += rule_lines(release, (), self.width, is_certain=is_certain)
        return [Text(), *lines] if lines else []

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the exit status, and whether something is missing above."""
        return status_line(summary)

    def _name_of(self, found: DirUsage) -> str:
        return f"all of {plain(found.path)}" if len(self._found) > 1 else "all"

    def _bar(self, whole: int) -> TableColumn:
        filled, empty = ("█", "░") if draws_blocks(self.console) else ("#", ".")

        def cell(row: Mapping[str, object]) -> str:
            cells = -(-number(row, "allocated_bytes") * _BAR // whole)
            return filled * cells + empty * (_BAR - cells)

        return TableColumn("share", cell, rank=4)

    def _sentences(self) -> Iterator[str]:
        rows = [directory_row(each) for each in self._found]
        if slack := _sum(rows, "slack_bytes"):
            taken = _sum(rows, "slack_allocated_bytes")
            yield f"preallocated in indexes after their entries: {size(slack)}, of which {size(taken)} are allocated"
        if sparse := _sum(rows, "sparse_files"):
            sizes = f"the size of all files is {size(_sum(rows, 'bytes'))}"
            yield f"{count_of(sparse, 'file')} with holes: {sizes}, and they take {size(_sum(rows, 'allocated_bytes'))}"
        if linked := _sum(rows, "linked_files"):
            names = f"{count_of(linked, 'name')} of files with several hard links"
            yield f"{names} take {size(_sum(rows, 'linked_bytes'))}: deleting one name of a file frees nothing"
        if unforeseen := _sum(rows, "unforeseen_partitions"):
            yield f"retention is unknown in {count_of(unforeseen, 'partition')}: kafkalog retain shows why"
        more = sum(each.more_findings for each in self._found)
        if more:
            yield f"{count_of(more, 'more place')} could not be read"


def _sized(title: str, name: str, rank: int = 0) -> TableColumn:
    """Return a column of a size that is left out where nothing has one."""
    return TableColumn(title, lambda row: human_bytes(row[name]) if row.get(name) else NONE, right=True, rank=rank)


_COLUMNS: Final = {
    False: (
        size_column("takes", "allocated_bytes"),
        _sized("closed", "closed_bytes", 2),
        _sized("active", "active_bytes", 3),
        _sized("indexes", "index_bytes", 1),
        _sized("leftovers", "leftover_bytes"),
        _sized("moving", "moving_bytes", 1),
        _sized("stray", "stray_bytes", 1),
        _sized("journals", "journal_bytes", 1),
        _sized("foreign", "foreign_bytes", 1),
        _sized("other", "other_bytes", 6),
        _sized("retention", "retention_bytes"),
        TableColumn("more is due", lambda row: time_cell(row.get("next_due_ms")).partition(".")[0], rank=5),
        _sized("a clean saves", "compaction_bytes"),
    ),
    True: (
        size_column("takes", "allocated_bytes"),
        size_column("size", "bytes"),
        count_column("files", "files"),
        _sized("preallocated", "slack_bytes"),
        _sized("in linked files", "linked_bytes", 1),
    ),
}
