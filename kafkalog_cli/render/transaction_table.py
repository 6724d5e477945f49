"""Transactions for people: what is held back and by whom, the commands that end it, and the transactional ids."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import NONE, number, plain, safe_text, span, time_cell
from kafkalog_cli.render.grid import (
    TableColumn,
    count_column,
    more_line,
    number_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import (
    INDENT,
    SummaryTable,
    closed,
    command_text,
    sentence_texts,
    status_line,
    wrapped_texts,
)
from kafkalog_core.ops.transactions.judgement import KINDS, OPEN_KINDS
from kafkalog_core.text import count_of, duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.ops.transactions.transactions import TransactionsFound

__all__ = ["TransactionTable"]

Row = dict[str, object]

SHOWN: Final = 100
SHOWN_COMMANDS: Final = 10
_STYLES: Final = {"hanging": "bold red", "undecided": "bold yellow", "prepared": "yellow", "timed-out": "yellow"}
_HEADS: Final = {
    "hanging": "HANGING",
    "undecided": "OPEN, AND UNKNOWN WHO ENDS IT",
    "prepared": "PREPARED",
    "timed-out": "TIMED OUT",
    "ongoing": "OPEN",
    "lagging": "OPEN IN A COPY THAT LAGS",
}
_PURPOSES: Final = {
    "hanging": "To end it once the brokers run (read_committed consumers never get its records then):",
    "undecided": "Name the log directories of all brokers, or ask the brokers once they run:",
}
"""What the commands of a kind of transaction are for."""


def _who(row: Mapping[str, object]) -> str:
    """Return the transactional id of a row, else its producer."""
    name = row.get("transactional_id")
    return f"producer {plain(row['producer_id'])}" if name is None else plain(name)


def _since(row: Mapping[str, object]) -> str:
    """Return when a transaction began: by its coordinator, else by the clock of the client."""
    if isinstance(row.get("start_time_ms"), int):
        return time_cell(row["start_time_ms"])
    first = row.get("first_timestamp_ms")
    return f"{time_cell(first)} (client)" if isinstance(first, int) else NONE


def _timeout(row: Mapping[str, object]) -> str:
    timeout_ms = row.get("timeout_ms")
    return duration(timeout_ms) if isinstance(timeout_ms, int) else NONE


def _list(row: Mapping[str, object], name: str) -> str:
    text = row.get(name)
    return plain(str(text).replace(",", ", ")) if text else NONE


_IDS: Final = (
    TableColumn("transactional id", lambda row: plain(row.get("transactional_id"))),
    number_column("producer", "producer_id"),
    number_column("epoch", "producer_epoch", 3),
    word_column("kind", "kind"),
    word_column("state", "state", 2),
    TableColumn("since (UTC)", _since, rank=1),
    TableColumn("timeout", _timeout, rank=3),
    TableColumn("open in", lambda row: _list(row, "open_in"), flexible=True, rank=1),
    TableColumn("partitions", lambda row: _list(row, "partitions"), flexible=True, rank=4),
    count_column("aborted before", "aborted", 5),
)


class TransactionTable(SummaryTable["TransactionsFound"]):
    """The one result of `kafkalog transactions`.

    `shows_all`: whether every transactional id and every open transaction is shown.
    """

    def __init__(self, *, shows_all: bool = False) -> None:
        super().__init__()
        self._shows_all = shows_all
        self._found: TransactionsFound | None = None
        self._copies: Counter[tuple[object, object]] = Counter()

    def write(self, found: TransactionsFound) -> None:
        """Keep the result."""
        self._found = found
        paths = {(row["topic"], row["partition"], row["path"]) for row in (*found.held, *found.parts)}
        self._copies = Counter((topic, partition) for topic, partition, _ in paths)
        self.add_findings(found.findings)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the verdict, the commands, the partitions that are held back, and the transactional ids."""
        del summary
        found = self._found
        if found is None:
            return []
        verdict, style = _verdict(found)
        if found.findings or found.damage:
            verdict += "; what cannot be read may hold more"
            style = style.replace("green", "yellow")
        lines = sentence_texts(closed(verdict), self.width, style)
        for kind, purpose in _PURPOSES.items():
            parts = [row for row in found.parts if row["kind"] == kind and row["is_chosen"]]
            if parts:
                lines += sentence_texts(f"{INDENT}{purpose}", self.width)
                commands = [command_text(row["next_command"]) for row in parts[:SHOWN_COMMANDS]]
                lines += [Text(f"{INDENT}{command}", "bold") for command in commands]
                lines += more_line(len(parts) - SHOWN_COMMANDS, "command")
        lines += self._held_lines(found)
        lines += self._id_lines(found)
        return lines + self._part_lines(found)

    def notes(self) -> list[Text]:
        """Return damage, and what the result depends on."""
        if self._found is None:
            return []
        lines = [
            line
            for row in self._found.damage[:SHOWN]
            for line in wrapped_texts(
                f"damage that may hide a marker: {plain(row['topic'])}-{row['partition']}/{plain(row['segment'])}, "
                f"byte {row['position']}, {row['reason']}: {plain(row['detail'])}",
                self.width,
                "red",
            )
        ]
        lines += [line for note in self._found.notes for line in sentence_texts(note, self.width, "dim")]
        return [Text(), *lines] if lines else []

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the exit status, and whether something is missing above."""
        return status_line(summary)

    # --- partitions ---------------------------------------------------------------------------------------------------
    def _place(self, row: Mapping[str, object]) -> str:
        """Return the name of a partition, or the path of its copy where several are shown."""
        several = self._copies[row["topic"], row["partition"]] > 1
        return safe_text(str(row["path"]) if several else f"{row['topic']}-{row['partition']}")

    def _held_lines(self, found: TransactionsFound) -> list[Text]:
        actions = {(row["path"], row["producer_id"]): row.get("broker_action") for row in found.parts}

        def below(row: Mapping[str, object]) -> list[Text]:
            action = actions.get((row["path"], row["producer_id"]))
            texts = [] if action is None else [str(action)]
            more = number(row, "open_transactions") - 1
            if more:
                others = "another transaction holds" if more == 1 else f"{more} other transactions hold"
                texts.append(f"After it, {others} it back at offset {row['next_stable_offset']}.")
            return [line for text in texts for line in sentence_texts(f"{INDENT}{text}", self.width, "dim")]

        columns = (
            TableColumn("held back", self._place),
            number_column("stable offset", "last_stable_offset"),
            number_column("log end", "log_end_offset", 2),
            count_column("waiting", "waiting_records"),
            TableColumn("by", _who),
            word_column("kind", "kind"),
            TableColumn("since (UTC)", _since, rank=1),
            time_column("newest record (UTC)", "last_timestamp_ms", 3),
        )
        return table_lines(
            columns,
            found.held,
            self.width,
            noun="partition",
            most=SHOWN,
            style_of=lambda row: _STYLES.get(str(row["kind"]), ""),
            below=below,
        )

    # --- transactions -------------------------------------------------------------------------------------------------
    def _id_lines(self, found: TransactionsFound) -> list[Text]:
        is_full = self._shows_all or found.is_narrow
        shown = [row for row in found.transactions if is_full or row["kind"] in OPEN_KINDS]
        lines = table_lines(
            _IDS,
            shown,
            self.width,
            noun="transaction",
            most=SHOWN,
            style_of=lambda row: _STYLES.get(str(row["kind"]), ""),
            below=lambda row: self._action_lines(row, found.held),
        )
        rest = Counter(str(row["kind"]) for row in found.transactions if row not in shown)
        if rest:
            counts = ", ".join(f"{count} {kind}" for kind, count in rest.most_common())
            text = f"{count_of(sum(rest.values()), 'transactional id')} without an open transaction: {counts}"
            lines += [Text(), *sentence_texts(f"{text} (--all shows them)", self.width)]
        return lines

    def _action_lines(self, row: Mapping[str, object], held: Sequence[Row]) -> list[Text]:
        """Return the lines below a transaction: what becomes of it, unless a partition above says so."""
        lines = list[str]()
        is_above = any(
            each["producer_id"] == row["producer_id"] and each["kind"] == row["kind"] for each in held[:SHOWN]
        )
        if row["kind"] in OPEN_KINDS and not is_above:
            lines.append(str(row["broker_action"]))
        if row.get("absent") and row["kind"] in OPEN_KINDS:
            lines.append(f"Not on these disks: {_list(row, 'absent')}.")
        return [line for text in lines for line in sentence_texts(f"{INDENT}{text}", self.width, "dim")]

    def _part_lines(self, found: TransactionsFound) -> list[Text]:
        if not (self._shows_all or found.is_narrow):
            return []
        columns = (
            TableColumn("in the log of", self._place),
            TableColumn("transaction of", _who),
            word_column("kind", "kind"),
            TableColumn("offsets", lambda row: span(row["first_offset"], row.get("last_offset")), right=True),
            count_column("records", "records", 2),
            TableColumn("first record (UTC, client)", lambda row: time_cell(row.get("first_timestamp_ms")), rank=3),
            TableColumn("in the transaction index", _listed, rank=4),
        )
        return table_lines(columns, found.parts, self.width, noun="transaction", most=SHOWN)


def _listed(row: Mapping[str, object]) -> str:
    return {True: "yes", False: "NO"}.get(row.get("is_listed"), NONE)  # type: ignore[call-overload,no-any-return]


def _transactions_of(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the first of these transactions, the worst, and how many there are, as a noun."""
    first = min(rows, key=lambda row: KINDS.index(str(row["kind"])))
    return f"the transaction of {_who(first)}" + (f" and {len(rows) - 1} more" if rows[1:] else "")


def _verdict(found: TransactionsFound) -> tuple[str, str]:
    """Return the first line, and its style."""
    chosen = [row for row in found.held if row["is_chosen"]] or list(found.held)
    of_ids = [row for row in found.transactions if row["kind"] in OPEN_KINDS]
    if not chosen and not of_ids:
        whose = " of these producers" if found.is_narrow else ""
        known = count_of(len(found.transactions), "transactional id")
        return f"NO OPEN TRANSACTION{whose} in {count_of(found.partitions, 'partition')}; {known} known", "bold green"
    kind = min((str(row["kind"]) for row in (*chosen, *of_ids)), key=KINDS.index)
    style = _STYLES.get(kind, "bold")
    if not chosen:
        return f"{_HEADS[kind]}: {_transactions_of(of_ids)}, but no partition here is held back", style
    worst = min(chosen, key=lambda row: (KINDS.index(str(row["kind"])), -number(row, "waiting_records")))
    place = f"{plain(worst['topic'])}-{worst['partition']}"
    what = f"{place} is held back at offset {worst['last_stable_offset']} by {_who(worst)}"
    count = number(worst, "waiting_records")
    waiting = f"{count_of(count, 'record')} {'waits' if count == 1 else 'wait'}"
    age_ms = found.now_ms - number(worst, "start_time_ms" if worst.get("start_time_ms") else "first_timestamp_ms")
    since = f", open for {duration(age_ms)}" if worst.get("start_time_ms") and age_ms >= 0 else ""
    later = [row for row in of_ids if row["kind"] == kind] if worst["kind"] != kind else []
    first = f"{_transactions_of(later)}, after others that are open; " if later else ""
    text = f"{_HEADS[kind]}: {first}{what}{since}; {waiting} there"
    if chosen[1:]:
        others = Counter(str(row["kind"]) for row in chosen if row is not worst)
        counts = ", ".join(f"{count} {other}" for other, count in others.most_common())
        text += f"; {count_of(len(chosen) - 1, 'more partition')} held back ({counts})"
    return text, style
