"""The kept table of what Kafka 4.3.1 and its clients did with wrong batches (`tests/integration/client_table.py`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.wrong_batches import Kind

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = ROOT / "tests" / "integration" / "client_table.txt"
COLUMNS: Final = ("magic", "kind", "finding", "first", "later", "produced", "java", "librdkafka", "kafka-python")
CLIENTS: Final = COLUMNS[-3:]
FAILS: Final = "fails"
_APPENDED: Final = "0"
_SIGNS: Final = {
    "the process ends": "crashes",
    "hangs": "hangs",
    "stops": "stops",
    "again": "again",
    "others": "others",
    "skips": "after",
}
_DOES: Final = ("all", "others", "some", "none", "after", "again", "stops", "hangs", "crashes")


def read() -> list[dict[str, str]]:
    """The lines of the table, by column."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    first = lines.index("\t".join(COLUMNS)) + 1
    return [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in lines[first:]]


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
    for sign, word in _SIGNS.items():
        if sign in (what if word == "others" else then):
            return word
    return {"all": "all", "none": "none"}.get(what, "some")


def words(cells: Iterable[str]) -> str:
    """The words of several cells of one client, each once, in the order of sentences."""
    found = {does(cell) for cell in cells}
    return " ".join(word for word in _DOES if word in found)


def reads_by_finding() -> dict[str, tuple[str, ...]]:
    """The words of each client by finding; control batches are left out, as no consumer returns their records."""
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read():
        if row["finding"] and not row["kind"].startswith("control") and row["java"] != "-":
            rows.setdefault(row["finding"], []).append(row)
    return {code: tuple(words(row[client] for row in of_code) for client in CLIENTS) for code, of_code in rows.items()}


def appends_by_finding() -> dict[str, str]:
    """What the leader did with batches of magic 2 from a producer, by finding; the newest magic is what it takes."""
    found: dict[str, set[str]] = {}
    for row in read():
        if row["finding"] and row["magic"] == "2":
            is_appended = re.split(r"\s", row["produced"])[0] == _APPENDED
            found.setdefault(row["finding"], set()).add("appends" if is_appended else "refuses")
    return {code: " ".join(sorted(words)) for code, words in found.items()}


def _brief(cell: str) -> str:
    """What a client did, without the text of its error."""
    return cell.partition(":")[0].replace("stops", does(cell)) if ", stops" in cell else cell


def page() -> str:
    """The table as Markdown, as the documentation shows it."""
    heads = ("Magic", "Kind", "Finding", "Start on it first", "Start on it later", "From a producer", *CLIENTS)
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in read():
        cells = [row[column].replace("|", "\\|") for column in COLUMNS]
        cells[2] = f"`{cells[2]}`" if cells[2] else ""
        cells[5] = "appended" if cells[5] == _APPENDED else f"refused ({cells[5].split()[0]})"
        cells[6:] = [_brief(cell) for cell in cells[6:]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
