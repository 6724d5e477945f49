"""The kept table of what Kafka 4.3.1 and its clients did with wrong batches (`tests/integration/client_table.py`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.wrong_batches import Kind

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = ROOT / "tests" / "integration" / "client_table.txt"
COLUMNS: Final = (
    "magic",
    "codec",
    "kind",
    "findings",
    "first",
    "later",
    "produced",
    "java",
    "librdkafka",
    "kafka-python",
)
CLIENTS: Final = COLUMNS[-3:]
FAILS: Final = "fails"
_APPENDED: Final = "0"
_NEWEST: Final = "2"
_DOES: Final = (
    "all",
    "null",
    "others",
    "some",
    "none",
    "after",
    "some-after",
    "again",
    "ends",
    "stops",
    "others-stops",
    "hangs",
    "crashes",
)


def read() -> list[dict[str, str]]:
    """The lines of the table, by column."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    first = lines.index("\t".join(COLUMNS)) + 1
    return [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines[first:]]


def key(kind: Kind) -> tuple[str, str, str]:
    """The columns that no two lines share."""
    return str(kind.magic), kind.codec, kind.name


def lay(partition: Path, kind: Kind, *, is_first: bool = False) -> None:
    """Put a log of this kind, with empty indexes, into a partition directory."""
    partition.mkdir(parents=True, exist_ok=True)
    for path in partition.glob("0*"):
        path.unlink()
    (partition / f"{0:020d}.log").write_bytes(kind.log(is_first=is_first))
    for suffix in ("index", "timeindex"):
        (partition / f"{0:020d}.{suffix}").touch()


def outcome_of_start(before: int, after: int, *, is_first: bool) -> str:
    """What a start made of a log, by its size before and after."""
    if after == before:
        return "loads"
    return "empties" if not after and not is_first else "truncates"


def does(cell: str) -> str:
    """What a client did, as a word of `kafkalog_core.findings.client_reads`; empty: it was not tried."""
    if cell == "-":
        return ""
    what, _, then = cell.partition(", ")
    read = what.rpartition(" ")[2]
    if read not in {"all", "none", "others", "null"}:
        read = "some"
    for sign, word in (("the process ends", "crashes"), ("hangs", "hangs"), ("again", "again")):
        if sign in then:
            return word
    if (read, then) == (
        "all",
        "stops",
    ):  # it fetches what follows, where no batch starts: a broker of 4.3.1 then goes on
        return "ends"  # with the next segment, of which these logs have none
    if then.startswith("stops"):
        return "others-stops" if read == "others" else "stops"
    return {"all": "after", "some": "some-after"}[read] if then.startswith("skips") else read


def words(cells: Iterable[str]) -> str:
    """The words of several cells of one client, each once, in the order of sentences."""
    found = {does(cell) for cell in cells}
    return " ".join(word for word in _DOES if word in found)


def reads() -> list[tuple[int, str, str, str, str, str, str]]:
    """The rows of `client_reads.READS`: by magic and findings, with the codecs of which they are the same.

    Control batches are left out, as no consumer returns their records; so are lines without a finding.
    """
    lines: dict[tuple[int, str, str], list[dict[str, str]]] = {}
    for row in read():
        if row["findings"] and not row["kind"].startswith("control") and row["java"] != "-":
            codes = " ".join(sorted(row["findings"].split()))
            lines.setdefault((int(row["magic"]), codes, row["codec"]), []).append(row)
    found: dict[tuple[int, str, str, str, str, str], list[str]] = {}
    for (magic, codes, codec), of_kind in lines.items():
        clients = [words(row[client] for row in of_kind) for client in CLIENTS]
        leader = {"appends" if row["produced"].split()[0] == _APPENDED else "refuses" for row in of_kind}
        said = " ".join(sorted(leader)) if str(magic) == _NEWEST else ""
        found.setdefault((magic, codes, clients[0], clients[1], clients[2], said), []).append(codec)
    ordered = sorted(found.items(), key=lambda each: (-each[0][0], each[0][1]))
    return [(key[0], " ".join(codecs), *key[1:]) for key, codecs in ordered]


def _brief(cell: str) -> str:
    """What a client did, without the text of its error."""
    word = does(cell).removeprefix("others-")
    return cell.partition(":")[0].replace("stops", word) if ", stops" in cell and word != "ends" else cell


def page() -> str:
    """The table as Markdown, as the documentation shows it: a line for all magics and codecs with the same results."""
    found: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for row in read():
        cells = [row[column].replace("|", "\\|") for column in COLUMNS[2:]]
        cells[1] = ", ".join(f"`{code}`" for code in cells[1].split())
        cells[4] = "appended" if cells[4] == _APPENDED else f"refused ({cells[4].split()[0]})"
        cells[5:] = [_brief(cell) for cell in cells[5:]]
        found.setdefault(tuple(cells), {}).setdefault(row["magic"], []).append(row["codec"])
    heads = ("Magic and codec", "Kind", "Findings", "First", "Later", "From a producer", *CLIENTS)
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for cells, of_magic in found.items():
        forms = "; ".join(f"{magic}: {', '.join(codecs)}" for magic, codecs in of_magic.items())
        lines.append("| " + " | ".join((forms, *cells)) + " |")
    return "\n".join(lines) + "\n"


def module_rows() -> str:
    """The rows of `client_reads.READS` as its text: `python -m tests.support.client_table` prints them."""
    lines = (f"    ClientReads({', '.join(json.dumps(cell) for cell in row)})," for row in reads())
    return "\n".join(("READS: Final = (", *lines, ")"))


if __name__ == "__main__":
    sys.stdout.write(f"{module_rows()}\n")
