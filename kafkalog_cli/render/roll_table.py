"""Forecasts of `kafkalog roll` for people: the verdict, partitions that differ, and their segments on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.answer import NOTHING, Answer, AnswerTable, PartitionLine, counted_rest, rule_lines
from kafkalog_cli.render.cells import (
    NONE,
    counts_cell,
    directory_name,
    human_bytes,
    number,
    origin_cell,
    plain,
    safe_text,
)
from kafkalog_cli.render.grid import (
    TableColumn,
    count_column,
    sentence_column,
    size_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import wrapped_texts
from kafkalog_core.ops.roll.forecast import RollForecast
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of, first_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RollTable"]

Row = dict[str, object]

SHOWN_SEGMENTS: Final = 40


def _at_most(row: Mapping[str, object]) -> str:
    """Return the number of segments there would be, with jitter as a range: `3 to 5`."""
    after, most = row.get("segments_after"), row.get("segments_at_most")
    return plain(after) if most in {None, after} else f"{after} to {most}"


_SEGMENTS: Final = (
    count_column("base offset", "base_offset"),
    TableColumn("there", lambda row: "yes" if row.get("is_there") else "new"),
    size_column("log", "bytes"),
    count_column("batches", "batches", 1),
    time_column("first time (UTC)", "first_timestamp_ms", 3),
    count_column("index entries", "offset_entries", 4),
    word_column("rolls by", "roll_reason", 2),
    sentence_column("because", "detail"),
)


class RollTable(AnswerTable[RollForecast]):
    """The forecasts of all partitions."""

    def __init__(self, *, has_details: bool = False, explains: bool = False) -> None:
        super().__init__(has_details=has_details, explains=explains)
        self._forecasts: list[RollForecast] = []

    def write(self, forecast: RollForecast) -> None:
        """Keep the forecast of a partition; without its segments, unless details are shown."""
        self._forecasts.append(forecast if self.has_details else replace(forecast, segments=()))
        self.add_findings(finding.row() for finding in forecast.findings)

    def answer(self) -> Answer:
        """Return the verdict, and the rows: partitions whose segments differ most from those on the disk first."""
        rows = [each.partition for each in self._forecasts]
        if not rows:
            return NOTHING
        shown = [row for row in rows if self.has_details or len(rows) == 1 or not _is_same(row)]
        rest = ["the same segments as on the disk"] * (len(rows) - len(shown))
        return Answer(
            verdict=_verdict(rows),
            lines=tuple(_line(row) for row in sorted(shown, key=_weight)),
            rest=counted_rest(rest, "with", others=bool(shown)).replace("with: ", "with "),
        )

    def details(self) -> list[Text]:
        """Return the segments of each partition, if they are asked for."""
        lines: list[Text] = []
        for forecast in self._forecasts if self.has_details else ():
            if len(self._forecasts) > 1 and forecast.segments:
                lines += [Text(), Text(directory_name(forecast.partition), "bold")]
            lines += table_lines(_SEGMENTS, forecast.segments, self.width, noun="segment", most=SHOWN_SEGMENTS)
        return lines

    def basis(self) -> list[Text]:
        """Return the release, and the settings of each partition that differ from those of the one before."""
        lines: list[Text] = []
        columns = ("release", "release_evidence", "is_release_certain")
        for release, evidence, is_certain in dict.fromkeys(tuple(map(row.get, columns)) for row in self._rows()):
            split = str(evidence).split("\n")
            lines += rule_lines(release, split, self.width, is_certain=is_certain, explains=self.explains)
        if not self.explains:
            return lines
        of: dict[str, list[str]] = {}
        for row in self._rows():
            of.setdefault(_settings(row), []).append(directory_name(row))
        for settings, names in of.items():
            whose = "" if len(of) == 1 else f" of {first_of(names)}"
            lines += wrapped_texts(f"settings{whose}: {settings}", self.width, "dim")
        return lines

    def _rows(self) -> list[Row]:
        return [each.partition for each in self._forecasts]


def _settings(row: Row) -> str:
    settings = cast("Mapping[str, Mapping[str, object]]", row.get("settings") or {})
    by_origin: dict[str, list[str]] = {}
    for name, each in settings.items():
        by_origin.setdefault(origin_cell(each["origin"], row), []).append(f"{name}={plain(each['value'])}")
    return ", ".join(f"{', '.join(texts)} ({origin})" for origin, texts in by_origin.items())


def _is_same(row: Row) -> bool:
    """Return whether a log would have the segments that it has."""
    return row["state"] not in {"damaged", "empty"} and _at_most(row) == plain(row["segments_before"]) == plain(
        row["same_bases"]
    )


def _weight(row: Row) -> tuple[bool, int]:
    """Return the order of rows: damaged logs first, then those with most new segments."""
    return row["state"] != "damaged", number(row, "same_bases") - number(row, "segments_after")


def _line(row: Row) -> PartitionLine:
    before = number(row, "segments_before")
    what = f"{_at_most(row)} segment{'' if _at_most(row) == '1' else 's'}, not {before}"
    if row["state"] in {"damaged", "empty"}:
        what = str(row["state"])
    elif _is_same(row):
        what = f"the same {count_of(before, 'segment')}"
    elif number(row, "segments_after") == before:
        what = f"{count_of(before, 'segment')}, {before - number(row, 'same_bases')} begin elsewhere"
    rolls = counts_cell(row.get("rolls"))
    why = f"rolled by {rolls}" if rolls and rolls != NONE else NONE
    if row["state"] in {"damaged", "empty"}:
        why = str(row.get("reason"))
    style = "bold red" if row["state"] == "damaged" else ""
    return PartitionLine(directory_name(row), what, human_bytes(row.get("bytes")), why=why, style=style)


_HEADS: Final = {"damaged": "CANNOT FORECAST ALL", "empty": "NOTHING TO FORECAST"}


def _verdict(rows: list[Row]) -> str:
    """Return the verdict, one sentence without its full stop."""
    same = sum(map(_is_same, rows))
    before, after = (sum(cast("int", row[name]) for row in rows) for name in ("segments_before", "segments_after"))
    if len(rows) == 1:
        sentence = f"{directory_name(rows[0])}: {rows[0]['reason']}"
        head = _HEADS.get(str(rows[0]["state"]), "WOULD ROLL NO DIFFERENTLY" if same else "WOULD ROLL")
    elif same == len(rows):
        sentence = f"the same {before:,} segments as on the disk, in {len(rows):,} partitions"
    else:
        differ = f"{len(rows) - same:,} of {len(rows):,} partitions differ"
        sentence = f"{after:,} segments instead of {before:,}; {differ}"
    damaged = sum(row["state"] == "damaged" for row in rows)
    if damaged and len(rows) > 1:
        sentence += f"; {damaged} cannot be read to the end"
    written = next((row["to"] for row in rows if row.get("to") is not None), None)
    if written is None:
        return f"WOULD ROLL INTO {sentence}" if len(rows) > 1 else f"{head}: {sentence}"
    return f"WRITTEN: {sentence}, in {safe_text(str(written))}, on which a broker starts without recovery"
