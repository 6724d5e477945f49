"""What `kafkalog freeze` has kept, for people: the verdict, how to read it, and a line for each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_cli.render.answer import Answer, AnswerTable, PartitionLine
from kafkalog_cli.render.cells import NONE, safe_text
from kafkalog_core.command_lines import shell_path
from kafkalog_core.findings import Finding
from kafkalog_core.text import count_of, size

if TYPE_CHECKING:
    from rich.text import Text

    from kafkalog_core.ops.usage.freeze import FreezeRequest, Frozen

__all__ = ["FreezeTable"]


class FreezeTable(AnswerTable["Frozen | Finding"]):
    """The directories of all partitions."""

    def __init__(self, request: FreezeRequest) -> None:
        super().__init__(has_details=True)
        self._request = request
        self._frozen: list[Frozen] = []

    def write(self, item: Frozen | Finding) -> None:
        """Keep what was frozen of a directory."""
        if isinstance(item, Finding):
            self.add_findings([item.row()])
            return
        self._frozen.append(item)
        self.add_findings(finding.row() for finding in item.findings)

    def answer(self) -> Answer:
        """Return the verdict, the commands that read what is kept, and the partitions."""
        request = self._request
        if not self._frozen:
            return Answer(verdict=_nothing(takes_all=request.takes_all), style="bold yellow")
        to = shell_path(request.to)
        read = () if request.is_trial else (f"kafkalog serve {to}", f"kafkalog dump {to}")
        return Answer(
            verdict=self._verdict(), below=tuple(self._below()), commands=read, lines=tuple(map(_line, self._frozen))
        )

    def details(self) -> list[Text]:
        """Return nothing: each partition has its line."""
        return []

    def basis(self) -> list[Text]:
        """Return nothing: the files themselves decide."""
        return []

    def _verdict(self) -> str:
        rows = self._frozen
        links, copies = [each for row in rows for each in row.links], [each for row in rows for each in row.copies]
        before = sum(row.here_before for row in rows)
        where = safe_text(self._request.to)
        if not links and not copies and before:
            what = f"{count_of(before, 'file')} of {count_of(len(rows), 'partition')}"
            return f"NOTHING NEW: {what} were frozen before, in {where}"
        head = "WOULD FREEZE" if self._request.is_trial else "FROZEN"
        what = f"{count_of(len(links), 'file')} ({size(sum(links))}) by hard links,"
        if copies:
            what += f" and {count_of(len(copies), 'file')} ({size(sum(copies))}) by copies,"
        return f"{head}: {what} of {count_of(len(rows), 'partition')}, in {where}"

    def _below(self) -> list[str]:
        sentences = []
        if any(each.copies for each in self._frozen):
            sentences.append("Copied is what the broker may still change in place; a link would change with it.")
        if not self._request.is_trial:
            sentences.append("The space of these files is free again only after this directory is deleted too.")
            sentences.append("To read them with Kafka clients, or here:")
        return sentences


def _nothing(*, takes_all: bool) -> str:
    if takes_all:
        return "NOTHING TO FREEZE: there is no log here"
    why = "no directory ends in -delete, and no file ends in .deleted"
    return f"NOTHING TO FREEZE: the broker is about to delete nothing here ({why}). --all keeps logs in use too"


def _line(frozen: Frozen) -> PartitionLine:
    link, copy = ("link", "copy") if frozen.is_planned else ("linked", "copied")
    texts = [f"{link} {count_of(len(frozen.links), 'file')}"] if frozen.links else []
    texts += [f"{copy} {count_of(len(frozen.copies), 'file')}"] if frozen.copies else []
    texts += [f"{count_of(frozen.here_before, 'file')} here before"] if frozen.here_before else []
    amount = size(sum(frozen.links) + sum(frozen.copies)) if frozen.links or frozen.copies else NONE
    return PartitionLine(
        f"{frozen.topic}-{frozen.partition}", ", ".join(texts), amount, why=f"from {safe_text(frozen.source)}"
    )
