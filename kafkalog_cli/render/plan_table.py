"""Plans for people: what would happen or has happened to each partition; files only where they are asked for."""

from __future__ import annotations

import os
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.answer import Answer, PartitionLine, answer_lines, assumed_lines, impact_line, rule_lines
from kafkalog_cli.render.cells import NONE, human_bytes, number, plain, safe_text, span, time_cell
from kafkalog_cli.render.columns import SHOWN
from kafkalog_cli.render.grid import (
    TableColumn,
    count_column,
    number_column,
    sentence_column,
    size_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import SummaryTable, finding_lines, sentence_texts
from kafkalog_core.ops.repair.plan_rows import ACTIONS, PlanRows
from kafkalog_core.output import clusters, tables
from kafkalog_core.text import count_of, sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["PlanTable"]

Row = dict[str, object]

SHOWN_ROWS: Final = 50
_STYLES: Final = {
    "planned": "bold yellow",
    "refused": "bold red",
    "applied": "bold green",
    "nothing": "bold",
    "listed": "bold",
    "shown": "bold",
}
_WORDS: Final = {
    "planned": "PLAN",
    "refused": "NOT POSSIBLE",
    "applied": "DONE",
    "nothing": "NOTHING TO DO",
    "listed": "UNDO",
    "shown": "AS IT IS",
}


def _last(row: Mapping[str, object]) -> int | None:
    end = row.get("next_offset")
    return None if end is None else cast("int", end) - 1


_CHANGES: Final = (
    TableColumn("change", lambda row: ACTIONS[str(row["kind"])][0]),
    TableColumn("file", lambda row: safe_text(str(row["shown"]))),
    size_column("before", "bytes_before", 1),
    size_column("after", "bytes_after", 1),
    sentence_column("why", "why"),
)
_LOSSES: Final = (
    TableColumn("lost from", lambda row: safe_text(str(row["shown"]))),
    TableColumn("offsets", lambda row: span(row.get("first_offset"), _last(row)), right=True),
    count_column("records", "records"),
    count_column("committed", "committed_records"),
    size_column("bytes", "bytes"),
    time_column("from", "first_timestamp_ms", 1),
    time_column("to", "max_timestamp_ms", 1),
    count_column("transactions", "transactions", 2),
    count_column("producers", "producers", 2),
    sentence_column("why", "why"),
)
_JOURNALS: Final = (
    word_column("run", "run"),
    time_column("created", "created_ms"),
    word_column("command", "command"),
    word_column("state", "state"),
    count_column("files", "files"),
    size_column("holds", "held_bytes"),
)
_DETAILS: Final = {
    tables.TEXT_FILE.name: (
        word_column("verdict", "verdict"),
        TableColumn("text file", lambda row: safe_text(str(row["shown"]))),
        count_column("entries", "entries"),
        count_column("lines changed", "lines", 1),
        sentence_column("problem", "problem"),
    ),
    tables.TEXT_LINE.name: (
        TableColumn("text file", lambda row: safe_text(str(row["shown"]))),
        count_column("line", "line"),
        word_column("old", "old"),
        word_column("new", "new"),
        sentence_column("why", "problem"),
    ),
    clusters.QUORUM_DISK.name: (
        number_column("node", "node_id"),
        word_column("role", "role"),
        TableColumn("longest", lambda row: "longest" if row.get("is_longest") else ""),
        number_column("epoch", "last_epoch"),
        number_column("end offset", "end_offset"),
        number_column("only here", "only_here"),
        number_column("snapshot", "snapshot_offset", 1),
        word_column("voters", "voters", 1),
        TableColumn("metadata log", lambda row: safe_text(str(row["path"]))),
        sentence_column("problem", "problem"),
    ),
    clusters.CLUSTER_DIFFERENCE.name: SHOWN[clusters.CLUSTER_DIFFERENCE.name],
    clusters.QUORUM_PARTITION.name: (
        TableColumn("partition", lambda row: safe_text(f"{row['topic']}-{row['partition']}")),
        word_column("replicas", "replicas"),
        word_column("ISR", "in_sync"),
        word_column("remaining", "remaining"),
        word_column("outcome", "outcome"),
    ),
}


class PlanTable(SummaryTable[PlanRows]):
    """Plans, each printed as soon as it is complete.

    has_details: whether each file, loss and line is shown. explains: whether the evidence and all settings are shown.
    """

    def __init__(self, *, has_details: bool = True, explains: bool = False) -> None:
        super().__init__()
        self._is_first = True
        self._has_details = has_details
        self._explains = explains

    def write(self, sheet: PlanRows) -> None:
        """Print a plan."""
        lines = [] if self._is_first else [Text()]
        self._is_first = False
        lines += answer_lines(self._answer(sheet), self.width)
        lines += self._table(_JOURNALS, sheet.journals, "journal")
        if self._has_details:
            lines += self._details(sheet)
        findings = [row for row in sheet.findings if self._has_details or row["severity"] != "info"]
        if findings:
            lines += [Text(), Text("Findings", "bold"), *finding_lines(findings, self.width)]
        basis = self._basis(sheet)
        if len(findings) < len(sheet.findings):
            infos = count_of(len(sheet.findings) - len(findings), "finding")
            basis.append(Text(f"{infos} of severity info: --details or --output ndjson has them", "dim"))
        if sheet.impact is not None:
            basis.append(impact_line(sheet.impact))
        self.show([*lines, Text(), *basis] if basis else lines)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return nothing: every plan is printed already."""
        del summary
        return []

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the exit status."""
        return Text(f"exit status {summary.get('exit_status')}", "dim")

    def _answer(self, sheet: PlanRows) -> Answer:
        plan = sheet.plan
        state, command = str(plan["state"]), str(plan["command"])
        below: list[str] = []
        verdict, commands = (
            f"{command}: {plan['message']}",
            [str(plan["next_command"])] if plan.get("next_command") else [],
        )
        if command not in _UNDOING:
            verdict = _verdict(sheet)
            if sheet.verdict is not None:
                below.append(f"{verdict[:1].upper()}{verdict[1:]}.")
                verdict = f"{command}: {sheet.verdict}"
            below += [f"{sentence}." for sentence in _split(sheet.note)]
            below += [_undoing(plan)] if state in {"planned", "applied"} else []
            if plan.get("undo"):  # the line before the commands says that they undo it
                commands = [str(plan["undo"])]
        lines = () if command in _UNDOING else tuple(_lines_of(sheet))
        return Answer(
            verdict=f"{_WORDS[state]}: {verdict}",
            style=_STYLES[state],
            refusals=sheet.refusals,
            commands=tuple(commands),
            below=tuple(below),
            lines=lines,
            rest=_sound_files(sheet),
            # Of a recovery, losses are what the reader has to decide about
            first=() if sheet.verdict is None else tuple(self._losses_first(sheet)),
        )

    def _details(self, sheet: PlanRows) -> list[Text]:
        lines: list[Text] = []
        for chunk in sheet.details:
            rows = [_named(row, sheet) for row in islice(chunk.rows(), SHOWN_ROWS)]
            noun = chunk.table.name.replace("_", " ")
            lines += self._table(_DETAILS[chunk.table.name], rows, noun, count=chunk.count)
        lines += self._losses(sheet) if sheet.verdict is None else []
        return lines + self._table(_CHANGES, [_named(row, sheet) for row in sheet.changes], "change")

    def _losses_first(self, sheet: PlanRows) -> list[Text]:
        """Return the table of losses, then their time span and what to do about them, each sentence once."""
        sentences = [str(row["cure"]) for row in sheet.losses if row.get("cure")]
        timed = [row for row in sheet.losses if row.get("max_timestamp_ms") is not None]
        if timed:
            firsts = [number(row, "first_timestamp_ms") for row in timed if row.get("first_timestamp_ms") is not None]
            lasts = [number(row, "max_timestamp_ms") for row in timed]
            span_text = f"{time_cell(min(firsts, default=None))} to {time_cell(max(lasts))}"
            sentences.insert(0, f"Timestamps of what is lost: {span_text}.")
        texts = (sentence_texts(each, self.width, "red") for each in dict.fromkeys(sentences))
        return [*self._losses(sheet), *(line for lines in texts for line in lines)]

    def _losses(self, sheet: PlanRows) -> list[Text]:
        return self._table(_LOSSES, [_named(row, sheet) for row in sheet.losses], "loss")

    def _basis(self, sheet: PlanRows) -> list[Text]:
        plan = sheet.plan
        has_changes = bool(sheet.changes) and plan["state"] != "refused"
        lines = assumed_lines(sheet.assumed if has_changes else (), self.width, is_accepted=True)
        evidence, is_certain = _split(plan.get("release_evidence")), plan.get("is_release_certain")
        lines += rule_lines(plan.get("release"), evidence, self.width, is_certain=is_certain, explains=self._explains)
        if self._explains:
            for row in sheet.settings:
                lines += sentence_texts(f"{row['name']} = {row['value']} ({row['origin']})", self.width, "dim")
        if plan["state"] in {"planned", "refused"}:
            for each in sheet.spaces:
                lines += sentence_texts(_room(each.path, each.needed_bytes, each.free_bytes), self.width, "dim")
        return lines

    def _table(
        self, columns: Sequence[TableColumn], rows: Sequence[Row], noun: str, count: int | None = None
    ) -> list[Text]:
        """Return a table of the first rows; `count` is the number of all rows if `rows` are only the first ones."""
        style = "bold red" if noun == "loss" else ""
        return table_lines(columns, rows, self.width, noun=noun, most=SHOWN_ROWS, count=count, style_of=lambda _: style)


# --- the verdict ------------------------------------------------------------------------------------------------------
_UNDOING: Final = frozenset({"undo", "prune", "list"})
_FREEING: Final = frozenset({"retain", "compact"})


def _verdict(sheet: PlanRows) -> str:
    """Return what happens, how much of it and where, or that nothing does; without a full stop."""
    plan = sheet.plan
    command, root, state = str(plan["command"]), str(plan["root"]), str(plan["state"])
    if not sheet.changes:
        left = sum(row["severity"] == "error" for row in sheet.findings) if state == "refused" else 0
        places = f": {count_of(left, 'place')} {'is' if left == 1 else 'are'} left unchanged" if left else ""
        return f"{command} {'can change' if state == 'refused' else 'changes'} nothing in {root}{places}"
    kinds = Counter(str(row["kind"]) for row in sheet.changes)
    parts = _first_partitions(sheet)
    is_done = state == "applied"
    what = _acts(kinds, is_done=is_done)
    text = f"{command} {'has' if is_done else 'would'} {what} in {parts}"
    freed = _freed_bytes(sheet.changes)
    if command in _FREEING and freed > 0:
        text += f", which {'has freed' if is_done else 'would free'} {human_bytes(freed)}"
    # The verdict of a recovery counts them: what it deletes, and what is excised because nobody can read it
    text += _lost(sheet.losses) if command != "recover" else ""
    return f"{text}; it cannot be applied as things are, and nothing has been changed" if state == "refused" else text


def _first_partitions(sheet: PlanRows) -> str:
    """Return `orders-0`, or `3 partitions` and the root."""
    places = {os.path.dirname(str(row["file"])) for row in sheet.changes if row.get("topic") is not None}
    root = str(sheet.plan["root"])
    if len(places) != 1:
        return f"{count_of(len(places), 'partition')} of {root}" if places else root
    return next(iter(places))


def _acts(kinds: Mapping[str, int], *, is_done: bool) -> str:
    """Return `replace 22 files, create 3 and delete 3`; `replaced ...` if it is done."""
    texts: list[str] = []
    for kind, (verb, participle) in ACTIONS.items():
        if kinds.get(kind):
            noun = "" if texts else f" file{'' if kinds[kind] == 1 else 's'}"
            texts.append(f"{_PAST.get(participle, participle) if is_done else verb} {kinds[kind]:,}{noun}")
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


_PAST: Final = {"restored to full length": "extended"}


def _freed_bytes(changes: Sequence[Row]) -> int:
    return sum(number(row, "bytes_before") - number(row, "bytes_after") for row in changes)


def _lost(losses: Sequence[Row]) -> str:
    """Return `; readers lose 12 records, at least 3 of them committed`; empty if none are lost."""
    if not losses:
        return ""
    known = [row for row in losses if row.get("records") is not None]
    if not known:
        return "; readers lose records that cannot be counted"
    records = sum(number(row, "records") for row in losses)
    if not known:
        return "; readers lose an unknown number of records"
    least = "" if len(known) == len(losses) else "at least "
    if not records and not least:
        return "; readers lose no record that can be read"
    text = f"; readers lose {least}{records:,} record{'' if records == 1 else 's'}"
    if all(row.get("committed_records") is not None for row in losses):
        text += f", {_committed(sum(number(row, 'committed_records') for row in losses))}"
    return text


def _committed(records: int) -> str:
    return f"at least {records:,} of them committed" if records else "none of them known to be committed"


def _undoing(plan: Row) -> str:
    """Return how a plan is undone."""
    if not plan.get("keeps_undo"):
        can = "With --no-undo it cannot be undone."
        return can if plan["state"] == "applied" else f"Nothing has been changed yet. {can} To apply it:"
    if plan["state"] == "applied":
        return "To undo it:"
    where = "" if plan.get("undo_to") is None else f" with its journal in {plan['undo_to']}"
    return f"Nothing has been changed yet; kafkalog undo can undo it{where}. To apply it:"


# --- rows -------------------------------------------------------------------------------------------------------------
SHOWN_WHYS: Final = 2
_MOST_ALIKE: Final = 10
"""Up to this number, partitions that get the same have a row each."""


def _lines_of(sheet: PlanRows) -> Iterator[PartitionLine]:
    """Yield a row for each partition, and for each file outside partitions: those with losses first.

    Many partitions that get the same without a change of a log have one row: damaged ones are seen between them.
    """
    places: dict[str, list[Row]] = {}
    for row in sheet.changes:
        path = str(row["file"])
        places.setdefault(path if row.get("topic") is None else os.path.dirname(path), []).append(row)
    losses: dict[str, list[Row]] = {}
    for row in sheet.losses:
        losses.setdefault(os.path.dirname(str(row["file"])), []).append(row)
    command = str(sheet.plan["command"])
    alike: dict[tuple[str, ...], list[str]] = {}
    for place, changes in places.items():
        is_alone = place in losses or changes[0].get("topic") is None or any(map(_is_log, changes))
        key = (place,) if is_alone else (_acts_on(changes, command), _whys(changes))
        alike.setdefault(key, []).append(place)
    rows = [group for each in alike.values() for group in ([each] if len(each) > _MOST_ALIKE else zip(each))]
    for row_places in sorted(rows, key=lambda row: row[0] not in losses):
        place, more = row_places[0], len(row_places) - 1
        lost = losses.get(place, [])
        freed = sum(_freed_bytes(places[each]) for each in row_places)
        yield PartitionLine(
            os.path.basename(place) + (f" and {more:,} more" if more else ""),
            _acts_on(places[place], command) + (" each" if more else ""),
            NONE if not freed else f"{'frees' if freed > 0 else 'adds'} {human_bytes(abs(freed))}",
            why=_whys(places[place]),
            note="" if sheet.verdict is not None else " ".join(map(_loss_sentence, lost)),
            style="bold red" if lost else "",
        )


def _acts_on(changes: Sequence[Row], command: str) -> str:
    """Return `create 3, delete 31 files`; of a command that frees space what happens to segments."""
    logs = [row for row in changes if _is_log(row)] if command in _FREEING else []
    counts = Counter(str(row["kind"]) for row in logs or changes)
    texts = [f"{verb} {counts[kind]:,}" for kind, (verb, _) in ACTIONS.items() if counts[kind]]
    noun = "segment" if logs else "file"
    return f"{', '.join(texts)} {noun}{'' if texts[-1].endswith(' 1') else 's'}"


def _is_log(row: Row) -> bool:
    return str(row["file"]).endswith(".log")


_TELLING: Final = ("cut", "remove")
"""Kinds of changes of a log that say most about a plan."""


def _whys(changes: Sequence[Row]) -> str:
    """Return the reasons of most changes; those of logs that are truncated, then of other logs, come first."""
    logs = [row for row in changes if _is_log(row)]
    first = next((some for kind in _TELLING if (some := [row for row in logs if row["kind"] == kind])), logs)
    counts = Counter(plain(row["why"]).partition(";")[0] for row in first or changes)
    texts = [text for text, _ in counts.most_common(SHOWN_WHYS)]
    more = len(counts) - len(texts)
    return "; ".join(texts) + (f"; and {count_of(more, 'more reason')}" if more else "")


def _loss_sentence(row: Row) -> str:
    records = (
        f"{number(row, 'records'):,} records" if row.get("records") is not None else "an unknown number of records"
    )
    committed = row.get("committed_records")
    text = f"Lost: {records}, offsets {span(row.get('first_offset'), _last(row))}, {human_bytes(row.get('bytes'))}"
    if row.get("max_timestamp_ms") is not None:
        text += f", of {time_cell(row.get('first_timestamp_ms'))} to {time_cell(row['max_timestamp_ms'])}"
    text += "" if committed is None else f"; {_committed(number(row, 'committed_records'))}"
    return f"{text}. {row['cure']}" if row.get("cure") else f"{text}."


def _sound_files(sheet: PlanRows) -> str:
    """Return how many text files need no repair; empty for a command that looks at none."""
    for chunk in sheet.details:
        if chunk.table.name == tables.TEXT_FILE.name:
            counts = Counter(str(row["verdict"]) for row in chunk.rows())
            texts = [f"{counts[verdict]} {_FILES[verdict]}" for verdict in _FILES if counts[verdict]]
            return f"{count_of(chunk.count, 'text file')}: {', '.join(texts)}"
    return ""


_FILES: Final = {
    "mended": "repaired by this plan",
    "left": "wrong and left as it is",
    "missing": "missing",
    "good": "good",
}


def _named(row: Row, sheet: PlanRows) -> Row:
    """Return the row with the name of its file below the root."""
    return row | {"shown": str(row.get("file")).removeprefix(f"{sheet.plan['root']}/")}


def _split(text: object) -> list[str]:
    return str(text).split("\n") if text else []


def _room(path: str, needed_bytes: int, free_bytes: int) -> str:
    needed, free = sizes(needed_bytes, free_bytes)
    return f"needs {needed} of {free} free space at {safe_text(path)}"
