"""The text of a plan or a forecast, in one shape for retain, compact, roll, truncate, reindex and checkpoint.

Rules of this file: the first line is the verdict, one sentence: what happens to what, how much of it, or that nothing
happens. Then comes a row for each partition about which there is something to say, the most important first; the others
are counted in one line. Segments, files and pictures are shown only where the user asks for them, by naming the
partition or with `--details`. What the verdict depends on (assumed values, the release) comes last, a line each.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from rich.cells import cell_len
from rich.text import Text

from kafkalog_cli.render.cells import NONE, safe_text
from kafkalog_cli.render.grid import TableColumn, more_line, sentence_column, table_lines
from kafkalog_cli.render.summary import INDENT, SummaryTable, closed, command_text, sentence_texts, status_line
from kafkalog_core.ops.repair.assumptions import grouped
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.refusals import Refusal

__all__ = [
    "NOTHING",
    "Answer",
    "AnswerTable",
    "PartitionLine",
    "answer_lines",
    "assumed_lines",
    "counted_rest",
    "impact_line",
    "rule_lines",
    "unknown_lines",
]

SHOWN_PARTITIONS: Final = 200
SHOWN_REASONS: Final = 3
_APPLY_NOTE: Final = (
    "--apply uses assumed values only if you state them (--topic-config, --set, --config FILE) or accept them "
    "(--assume-defaults)."
)
Item = TypeVar("Item")


class PartitionLine(NamedTuple):
    """The row of a partition: what happens to it, how much of it, when, and why.

    note: a sentence below the row; empty: none. style: of the row.
    """

    partition: str
    what: str
    amount: str = NONE
    when: str = NONE
    why: str = NONE
    note: str = ""
    style: str = ""


class Answer(Struct, frozen=True, kw_only=True):
    """The verdict and the rows.

    Args:
        verdict: one sentence without its full stop.
        style: of the verdict.
        refusals: why it is not done, each with its ways out.
        commands: commands to run next, a line each.
        below: further sentences next to the verdict: what an option that was given does, or why it does not act.
        lines: the partitions with something to say, the most important first.
        rest: how many other partitions there are, and why; empty: none.
        first: a table that comes before the rows.
    """

    verdict: str
    style: str = "bold"
    refusals: tuple[Refusal, ...] = ()
    commands: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    lines: tuple[PartitionLine, ...] = ()
    rest: str = ""
    first: tuple[Text, ...] = ()


NOTHING: Final = Answer(verdict="NOTHING TO FORECAST: no log was read")


def answer_lines(answer: Answer, width: int) -> list[Text]:
    """Return the lines of verdict, commands, rows and rest."""
    lines = sentence_texts(closed(answer.verdict), width, answer.style)
    for refusal in answer.refusals:
        for number, (text, command) in enumerate(refusal.steps):
            lines += sentence_texts(f"{INDENT * 2 if number else f'{INDENT}- '}{text}", width, "red")
            if command is not None:
                lines.append(Text(f"{INDENT * (3 if number else 2)}{command_text(command)}", "bold"))
    for sentence in answer.below:
        lines += sentence_texts(f"{INDENT}{sentence}", width)
    lines += [Text(f"{INDENT}{command}", "bold") for command in map(command_text, answer.commands)]
    lines += answer.first
    lines += _table(answer.lines, width)
    if answer.rest:
        lines += [*([] if answer.lines else [Text()]), *sentence_texts(answer.rest, width)]
    return lines


def counted_rest(reasons: Iterable[str], which: str, *, others: bool) -> str:
    """Return `and 7 other partitions WHICH: empty (5); cleanup.policy=compact (2)`; empty if there are no reasons.

    `others`: whether rows of other partitions are shown above.
    """
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    if not counts:
        return ""
    most = sorted(counts, key=lambda reason: -counts[reason])
    total = sum(counts.values())
    texts = [f"{reason} ({counts[reason]})" if len(most) > 1 else reason for reason in most[:SHOWN_REASONS]]
    further = sum(counts[reason] for reason in most[SHOWN_REASONS:])
    texts += [f"other reasons ({further})"] if further else []
    head = f"and {count_of(total, 'other partition')}" if others else count_of(total, "partition")
    return f"{head} {which}: {'; '.join(texts)}"


# --- what the verdict depends on --------------------------------------------------------------------------------------
def assumed_lines(assumptions: Sequence[Assumption], width: int, *, is_accepted: bool = False) -> list[Text]:
    """Return a line for each assumed value."""
    label = "assumed (--assume-defaults)" if is_accepted else "assumed"
    lines = [line for text in grouped(assumptions) for line in sentence_texts(f"{label}: {text}", width, "yellow")]
    if assumptions and not is_accepted:
        lines += sentence_texts(_APPLY_NOTE, width, "dim")
    return lines


def unknown_lines(sentences: Iterable[str], width: int) -> list[Text]:
    """Return the lines about settings that are unknown."""
    return [line for sentence in sentences for line in sentence_texts(sentence, width, "yellow")]


def rule_lines(
    release: object,
    evidence: Sequence[str],
    width: int,
    *,
    is_certain: object,
    explains: bool = False,
    where: str = "",
    others: str = "",
) -> list[Text]:
    """Return the line about the release whose rules are used.

    Args:
        release: None: it makes no difference, so that there is nothing to print.
        evidence: for it, which is printed where `explains` is set.
        width: of the line, in terminal cells.
        is_certain: whether no other release fits, or the user named it.
        explains: whether the user asked for reasons.
        where: ` in DIRECTORY`, if several have rules of their own.
        others: how to see what the other releases that fit do.
    """
    if release is None:
        return []
    fits = "" if is_certain else f" (the latest release that fits{others})"
    text = f"by the rules of Kafka {release}{where}{fits}"
    if explains and evidence:
        text += f": {'; '.join(evidence)}"
    return sentence_texts(text, width, "dim")


# --- rows -------------------------------------------------------------------------------------------------------------
_COLUMNS: Final = (
    TableColumn("partition", lambda row: safe_text(str(row["partition"]))),
    TableColumn("what", lambda row: safe_text(str(row["what"]))),
    TableColumn("how much", lambda row: safe_text(str(row["amount"])), right=True),
    TableColumn("when", lambda row: safe_text(str(row["when"]))),
)
_WHY: Final = sentence_column("why", "why")


def _table(lines: Sequence[PartitionLine], width: int) -> list[Text]:
    rows = [line._asdict() | {"number": number} for number, line in enumerate(lines[:SHOWN_PARTITIONS])]
    widths = [max((cell_len(column.cell(row)) for row in rows), default=0) for column in _COLUMNS]
    used = sum(max(size, len(column.title)) + 2 for size, column in zip(widths, _COLUMNS, strict=True) if size > 1)
    if used - 2 > width:
        return _paragraphs(lines, width)
    longest = max((cell_len(line.why) for line in lines), default=0)
    has_room = width - used >= longest  # a reason is never cut: without room it is put below its rows
    whys = [line.why for line in lines]

    def below(row: Mapping[str, object]) -> list[Text]:
        number = cast("int", row["number"])
        line, texts = lines[number], list[str]()
        is_last = number + 1 == len(rows) or whys[number + 1] != line.why or bool(lines[number + 1].note)
        if not has_room and line.why != NONE and (is_last or line.note):
            texts.append(line.why)
        if line.note:
            texts.append(line.note)
        return [each for text in texts for each in sentence_texts(f"{INDENT}{text}", width, line.style or "dim")]

    return table_lines(
        (*_COLUMNS, _WHY) if has_room else _COLUMNS,
        rows,
        width,
        noun="partition",
        count=len(lines),
        style_of=lambda row: str(row["style"]),
        below=below,
    )


def _paragraphs(lines: Sequence[PartitionLine], width: int) -> list[Text]:
    """Return the rows where names are too long for a table: each name on a line, and a sentence below it."""
    shown = [Text()]
    for line in lines[:SHOWN_PARTITIONS]:
        facts = "; ".join(text for text in (line.what, line.amount, line.when, line.why) if text != NONE)
        shown.append(Text(safe_text(line.partition), line.style or "bold"))
        for text in (facts, line.note):
            shown += sentence_texts(f"{INDENT}{text}", width, line.style) if text else []
    return shown + more_line(len(lines) - SHOWN_PARTITIONS, "partition")


def impact_line(command: str) -> Text:
    """Return the line that names the command about groups of consumers."""
    return Text(f"what this means for groups of consumers: {command_text(command)}", "bold")


class AnswerTable(SummaryTable[Item]):
    """A writer of forecasts in this shape.

    Args:
        has_details: whether segments and files are shown.
        explains: whether the rules in their order, the evidence of the release and all settings are shown.
    """

    def __init__(self, *, has_details: bool = False, explains: bool = False) -> None:
        super().__init__()
        self.has_details = has_details
        self.explains = explains
        self._infos = 0

    @abstractmethod
    def answer(self) -> Answer:
        """Return the verdict and the rows."""

    @abstractmethod
    def details(self) -> list[Text]:
        """Return what is shown below the rows."""

    @abstractmethod
    def basis(self) -> list[Text]:
        """Return what the verdict depends on, a line each."""

    def add_findings(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Keep findings; those of severity info only where details are shown, as they are normal."""
        for row in rows:
            if self.has_details or row.get("severity") != "info":
                super().add_findings([row])
            else:
                self._infos += 1

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return verdict, rows and details."""
        del summary
        return [*answer_lines(self.answer(), self.width), *self.details()]

    def notes(self) -> list[Text]:
        """Return what the verdict depends on."""
        lines = self.basis()
        if self._infos:
            note = f"{count_of(self._infos, 'finding')} of severity info: --details or --output ndjson has them"
            lines.append(Text(note, "dim"))
        return [Text(), *lines] if lines else []

    def last_line(self, summary: Mapping[str, object]) -> Text:
        """Return the exit status, and whether something is missing above."""
        return status_line(summary, "only what was read by then is above")
