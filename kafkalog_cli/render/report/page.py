"""The HTML report of `kafkalog verify`: its sections and tables, and the writer."""

from __future__ import annotations

import base64
import hashlib
import time
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_cli.render.cells import NONE, human_bytes, offsets_cell, time_cell
from kafkalog_cli.render.report.charts import FindingAnchors, segment_map, segment_table, timeline
from kafkalog_cli.render.report.data import ReportData
from kafkalog_cli.render.report.html import Html, element, join, moment, number
from kafkalog_cli.render.report.texts import (
    badge,
    code_section,
    count_of_number,
    facts,
    finding_list,
    headline,
    numbered,
    worst_codes,
)
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_cli.output_file import OutputFile
    from kafkalog_cli.render.report.data import PartitionDetail, PlaceFindings, RunFacts
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["HtmlReport", "Page"]


STATES: Final = ("damaged", "unread", "warnings", "clean")


class _Column(NamedTuple):
    title: str
    shown: Callable[[Mapping[str, object]], object]
    order: Callable[[Mapping[str, object]], object] | None = None
    kind: str = "num"


def _counted(title: str, name: str) -> _Column:
    return _Column(title, lambda row: number(row.get(name)), lambda row: row.get(name))


def _sized(title: str, name: str) -> _Column:
    return _Column(title, lambda row: human_bytes(row[name]) if row.get(name) else NONE, lambda row: row.get(name) or 0)


_BASIC: Final = (
    _sized("Log", "bytes"),
    _counted("Segments", "segments"),
    _counted("Records", "records"),
    _Column("Offsets", offsets_cell, lambda row: row.get("log_end_offset") or 0),
    _Column("Newest (UTC)", lambda row: moment(row.get("max_timestamp_ms")), kind="num"),
)
_WORST: Final = (
    _Column("State", lambda row: badge(str(row["state"])), lambda row: STATES.index(str(row["state"])), "state"),
    _counted("Errors", "errors"),
    _counted("Warnings", "warnings"),
    _sized("Damaged", "damage_bytes"),
    _sized("At risk", "at_risk_bytes"),
    *_BASIC,
)


def _table_start(caption: str, columns: Iterable[_Column]) -> Html:
    """Return the beginning of a table of partitions, up to its rows."""
    titles = [element("th", column.title, scope="col", class_=column.kind) for column in columns]
    head = element("tr", element("th", "Partition", scope="col"), *titles)
    table = f'<div class="scroll" tabindex="0"><table class="sortable">{element("caption", caption)}'
    return Html(f"{table}{element('thead', head)}<tbody>")


def _row(row: Mapping[str, object], columns: Iterable[_Column], anchor: str | None) -> Html:
    """Return the row of a partition, with a link to its section."""
    name = element("a", row["name"], href=f"#{anchor}") if anchor else row["name"]
    cells = [element("th", name, scope="row", class_="mono", title=row["path"])]
    for column in columns:
        order = None if column.order is None else column.order(row)
        cells.append(element("td", column.shown(row), class_=column.kind, data_order=order))
    return element("tr", *cells)


def state_bar(states: Mapping[str, int]) -> Html:
    """Return the partitions by state as a bar, with its legend."""
    total = sum(states.values())
    shares = [(state, states.get(state, 0)) for state in STATES if states.get(state)]
    if not total:
        return element("p", "The check included no partition.", class_="note")
    room, left, parts = 1000.0 - 8 * len(shares), 0.0, []
    for state, count in shares:
        width = 8 + room * count / total
        title = element("title", f"{state}: {count:,} of {total:,}")
        parts.append(element("rect", title, x=left, y=0, width=max(width - 2, 1.0), height=26, rx=3, class_=state))
        left += width
    counts = ", ".join(f"{count:,} {state}" for state, count in shares)
    picture = element("svg", *parts, viewBox="0 0 1000 26", role="img", aria_label=f"Partitions by state: {counts}")
    legend = [element("li", badge(state), element("b", f" {count:,}")) for state, count in shares]
    return element("figure", picture, element("ul", *legend, class_="legend"), class_="bar")


_SIGNS: Final = (
    ("whole", "segment; its width is its size"),
    ("active", "active segment, to which a broker appends"),
    ("many", "several segments without damage"),
    ("hurt", "damaged place"),
    ("odd", "warning about the segment or its indexes (a square: error)"),
    ("gap", "offsets missing between segments"),
    ("over", "offsets in two segments"),
)
_UNSEEN: Final = {
    "headers": (
        "Level headers: no checksum was computed and no record decoded. A flipped bit inside a batch is not "
        "detected; --level records detects it."
    ),
    "checksums": (
        "Level checksums: records were not decoded. Invalid records with a valid checksum are not detected; --level "
        "records detects them."
    ),
}
_NEVER: Final = (
    (
        "Changes that leave no trace: whole batches removed from the end of the log, batches missing from a compacted "
        "log, an entry missing from an offset index, which is sparse anyway."
    ),
    "Other replicas: this is the disk of one broker. Lost records may still exist on others.",
    "The contents of records: whether the data is correct for an application.",
    "Changes after a file was read, if a broker was running.",
)
_READING: Final = (
    ("Damaged", "at least one finding of severity error, which no healthy broker leaves. Exit status 4."),
    ("Warnings", "unusual or a risk, but possible on a healthy broker: an open transaction, a gap in the offsets."),
    ("Clean", "only findings of normal operation (severity info), or none."),
    (
        "At risk",
        (
            "bytes after the recovery point of a broker whose last shutdown was not clean: the broker reads them again "
            "when it starts, and truncates the log at the first batch that is not valid."
        ),
    ),
    (
        "Map of segments",
        (
            "one block for each segment, in offset order; red marks show where the file is damaged, and link to the "
            "finding. The numbers below are base offsets, as in the file names."
        ),
    ),
    (
        "Offsets over time",
        (
            "a box for each segment, from its first to its largest timestamp and its first to its last offset. In a "
            "healthy log they climb from the lower left to the upper right. The strip at the left shows which offsets "
            "are in a segment; red lines are offsets that may be lost."
        ),
    ),
)


def legend() -> Html:
    """Return the legend of the maps."""
    return element("ul", *(element("li", _sign(kind), " ", meaning) for kind, meaning in _SIGNS), class_="legend signs")


def _sign(kind: str) -> Html:
    shape = {
        "hurt": element("path", d="M3 1h10l-5 8zM6 10h4v6h-4z", class_="hurt"),
        "odd": element("circle", cx=8, cy=8, r=5, class_="odd ring"),
    }.get(kind)
    if shape is None:
        name = kind if kind in {"gap", "over"} else f"seg {'whole active' if kind == 'active' else kind}"
        shape = element("rect", x=1, y=2, width=20, height=12, rx=2, class_=name)
    return element("svg", shape, viewBox="0 0 22 16", width=22, height=16, aria_hidden="true", class_="sign")


def not_checked(run: RunFacts) -> Html:
    """Return the section about what the check did not read and what it cannot detect."""
    unseen = [_UNSEEN[run.level]] if run.level in _UNSEEN else []
    if run.selection:
        unseen.append(f"Everything except {run.selection}, by the options of the run.")
    items = [element("li", sentence) for sentence in (*unseen, *_NEVER)]
    return element("section", element("h2", "What was not checked", id="unseen"), element("ul", *items))


def how_to_read() -> Html:
    """Return the section that explains the words and pictures."""
    parts = [part for word, meaning in _READING for part in (element("dt", word), element("dd", meaning))]
    return element("section", element("h2", "How to read this", id="reading"), element("dl", *parts, class_="reading"))


ROWS_SIZE: Final = 2_000_000
"""Maximum size of a table of partitions, in characters; further rows are only counted."""
DETAILS_SIZE: Final = 6_000_000
"""Maximum size of all sections of partitions, in characters."""
PLACES_SIZE: Final = 2_000_000
"""Maximum size of all sections of log directories and single files, in characters."""
_REFUSALS: Final = 5


def _fitting(pieces: Iterable[tuple[str, Html]], size: int) -> dict[str, Html]:
    """Return the pieces that fit into `size` characters, by their keys; stop after a few that do not fit."""
    taken: dict[str, Html] = {}
    refused = 0
    for key, piece in pieces:
        if len(piece) <= size:
            size -= len(piece)
            taken[key] = piece
        elif (refused := refused + 1) >= _REFUSALS:
            break
    return taken


class Page:
    """One report."""

    def __init__(self, run: RunFacts, data: ReportData, summary: Mapping[str, object], finished_ms: int) -> None:
        self._run = run
        self._data = data
        self._summary = summary
        self._finished_ms = finished_ms
        self._details = _fitting(((detail.key, self._detail(detail)) for detail in data.details), DETAILS_SIZE)
        self._places = _fitting(((place.key, _place(place)) for place in data.places), PLACES_SIZE)
        self._links = {str(one.row["path"]): one.key for one in data.details if one.key in self._details}
        self._links |= {place.path: place.key for place in data.places if place.key in self._places}

    def pieces(self) -> Iterator[str]:
        """Yield the text of the page."""
        style, script = _resource("report.css"), _resource("report.js")
        yield _head(style, script)
        yield _top(has_findings=bool(self._data.codes))
        yield headline(self._data, self._summary)
        yield state_bar(self._data.states)
        yield worst_codes(self._data, self._links) or ""
        yield facts(self._run, self._data, self._summary, self._finished_ms)
        yield from self._tables()
        yield from self._one_by_one()
        yield from self._around()
        yield from self._codes()
        yield join([not_checked(self._run), how_to_read()])
        yield f"</main><script>{script}</script></body></html>\n"

    # --- tables -------------------------------------------------------------------------------------------------------
    def _tables(self) -> Iterator[str]:
        yield '<section><h2 id="partitions">Partitions</h2>'
        listed, clean, states = self._data.listed, self._data.clean, self._data.states
        if listed:
            caption, total = "Partitions that are not clean, the worst first", states.total() - states["clean"]
            yield from self._table(caption, _WORST, listed, total, "partition")
        if clean:
            yield f"<details><summary>{count_of_number(states['clean'], 'clean partition')}</summary>"
            yield from self._table("Clean partitions", _BASIC, clean, states["clean"], "clean partition")
            yield "</details>"
        if not listed and not clean:
            yield element("p", "The check included no partition.", class_="note")
        yield "</section>"

    def _table(
        self, caption: str, columns: Sequence[_Column], rows: Sequence[Mapping[str, object]], total: int, noun: str
    ) -> Iterator[str]:
        """Yield a table of the partitions that fit, and the number of the others."""
        pieces = ((str(row["key"]), _row(row, columns, self._links.get(str(row["path"])))) for row in rows)
        shown = _fitting(pieces, ROWS_SIZE)
        yield _table_start(caption, columns)
        yield from shown.values()
        yield "</tbody></table></div>"
        yield _left_out(total - len(shown), noun)

    # --- partitions one by one ----------------------------------------------------------------------------------------
    def _one_by_one(self) -> Iterator[str]:
        states = self._data.states
        not_clean = states.total() - states["clean"]
        if not not_clean:
            return
        yield '<section><h2 id="details">Partitions that are not clean, one by one</h2>'
        yield legend()
        yield from self._details.values()
        yield _left_out(not_clean - len(self._details), "partition")
        yield "</section>"

    def _detail(self, detail: PartitionDetail) -> Html:
        path = str(detail.row["path"])
        anchors = FindingAnchors(numbered(detail.key, detail.findings))
        folded = element("details", element("summary", "Segments as a table"), segment_table(detail.drawing))
        return element(
            "article",
            element("h3", element("span", detail.name, class_="mono"), " ", badge(str(detail.row["state"]))),
            element("p", path, class_="mono path"),
            element("p", _figures(detail.row)),
            element("h4", "Segments"),
            segment_map(detail.drawing, anchors, detail.name),
            element("h4", "Offsets over time"),
            timeline(detail.drawing, detail.name, self._run.started_ms),
            element("h4", "Findings"),
            finding_list(detail.key, path, detail.findings),
            Html(_left_out(detail.hidden, "finding")),
            folded,
            id=detail.key,
            class_=f"partition {detail.row['state']}",
        )

    # --- the rest -----------------------------------------------------------------------------------------------------
    def _around(self) -> Iterator[str]:
        if not self._data.places:
            return
        yield '<section><h2 id="places">Log directories and single files</h2>'
        yield from self._places.values()
        yield _left_out(self._data.place_count - len(self._places), "place")
        yield "</section>"

    def _codes(self) -> Iterator[str]:
        codes = self._data.codes_by_rank()
        if not codes:
            return
        severe = [(code, group) for code, group in codes if group.severity != "info"]
        normal = [(code, group) for code, group in codes if group.severity == "info"]
        yield '<section><h2 id="codes">Findings by code</h2>'
        yield from (code_section(code, group, self._links) for code, group in severe)
        if normal:
            yield f"<details><summary>{count_of(len(normal), 'code')} of severity info: normal operation</summary>"
            yield from (code_section(code, group, self._links) for code, group in normal)
            yield "</details>"
        yield "</section>"


def _figures(row: Mapping[str, object]) -> str:
    parts = [
        f"{human_bytes(row['bytes'])} of log in {count_of(row['segments'], 'segment')}",
        f"{number(row['records'])} records in {number(row['batches'])} batches",
        f"offsets {offsets_cell(row)}",
    ]
    if row.get("damage_count"):
        parts.append(f"damaged in {count_of(row['damage_count'], 'place')}, {human_bytes(row['damage_bytes'])}")
    if row.get("at_risk_bytes"):
        parts.append(f"{human_bytes(row['at_risk_bytes'])} after the recovery point, at risk")
    if row.get("max_timestamp_ms") is not None:
        parts.append(f"newest timestamp {time_cell(row['max_timestamp_ms'])}")
    return "; ".join(parts)


def _place(place: PlaceFindings) -> Html:
    return element(
        "article",
        element("h3", place.path, class_="mono"),
        finding_list(place.key, place.path, place.findings),
        Html(_left_out(place.hidden, "finding")),
        id=place.key,
        class_="partition",
    )


def _left_out(count: int, noun: str) -> str:
    if count <= 0:
        return ""
    return element("p", f"and {count:,} more {noun}{'s' * (count != 1)}: --output ndjson has them all", class_="note")


# --- frame ------------------------------------------------------------------------------------------------------------
def _resource(name: str) -> str:
    return files("kafkalog_cli.render.report").joinpath(name).read_text(encoding="utf-8")


def _head(style: str, script: str) -> str:
    """Return the page up to its body. The policy allows this script only, and no request to any server."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    metas = join(
        [
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            element("meta", name="referrer", content="no-referrer"),
            element("title", "kafkalog verify"),
        ]
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{metas}<style>{style}</style></head>\n<body>'


def _top(*, has_findings: bool) -> Html:
    links = [("partitions", "Partitions"), ("codes", "Findings by code"), ("reading", "How to read this")]
    links = [link for link in links if has_findings or link[0] != "codes"]
    skip = element("a", "Skip to the result", href="#verdict", class_="skip")
    nav = element("nav", *(element("a", shown, href=f"#{at}") for at, shown in links), aria_label="Sections")
    toggle = element("button", "Theme: system", type="button", id="theme", hidden=True)
    header = element("header", element("h1", "kafkalog verify"), nav, toggle)
    return Html(f"{skip}{header}<main>")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class HtmlReport:
    """A writer of the HTML report. Its memory and the page do not grow with the number of partitions."""

    def __init__(self, file: OutputFile, run: RunFacts, now_ms: Callable[[], int] = _now_ms) -> None:
        self._file = file
        self._run = run
        self._now_ms = now_ms
        self._data = ReportData()

    def write(self, verdict: PartitionVerdict | PlaceVerdict) -> None:
        """Keep the part of a verdict that the report shows."""
        self._data.add(verdict)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the page. Raises AccessError."""
        self._file.write(Page(self._run, self._data, summary, self._now_ms()).pieces())
