"""The page as a whole: its sections in order, each left out or cut short where the page would become too large."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import human_bytes, span, time_cell
from kafkalog_cli.render.report_chart import timeline
from kafkalog_cli.render.report_findings import badge, code_section, finding_list, numbered
from kafkalog_cli.render.report_headline import count_of_number, facts, headline, worst_codes
from kafkalog_cli.render.report_html import Html, element, join, number
from kafkalog_cli.render.report_maps import Anchors, segment_map, segment_table
from kafkalog_cli.render.report_notes import how_to_read, legend, not_checked
from kafkalog_cli.render.report_tables import clean_rows, state_bar, table_end, table_start, worst_rows
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_cli.render.report_data import Collected, Detail, Place, RunFacts

__all__ = ["Page"]

ROWS_SIZE: Final = 2_000_000
"""Characters of a table of partitions: what comes behind is counted and named no more."""
DETAILS_SIZE: Final = 6_000_000
"""Characters of all partitions that are told one by one."""
PLACES_SIZE: Final = 2_000_000
"""Characters of all log directories and single files."""
_REFUSALS: Final = 5


def _fitting(pieces: Iterable[tuple[str, Html]], size: int) -> dict[str, Html]:
    """Pieces by their keys, as far as there is room; none is made any more once some did not fit."""
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
    """One report, in pieces."""

    def __init__(self, run: RunFacts, collected: Collected, summary: Mapping[str, object], finished_ms: int) -> None:
        self._run = run
        self._collected = collected
        self._summary = summary
        self._finished_ms = finished_ms
        self._details = _fitting(((detail.key, self._detail(detail)) for detail in collected.details), DETAILS_SIZE)
        self._places = _fitting(((place.key, _place(place)) for place in collected.places), PLACES_SIZE)
        self._links = {str(one.row["path"]): one.key for one in collected.details if one.key in self._details}
        self._links |= {place.path: place.key for place in collected.places if place.key in self._places}

    def pieces(self) -> Iterator[str]:
        """The text of the page."""
        style, script = _resource("report.css"), _resource("report.js")
        yield _head(style, script)
        yield _top(has_findings=bool(self._collected.codes))
        yield headline(self._collected, self._summary)
        yield state_bar(self._collected.states)
        yield worst_codes(self._collected, self._links) or ""
        yield facts(self._run, self._collected, self._summary, self._finished_ms)
        yield from self._tables()
        yield from self._one_by_one()
        yield from self._around()
        yield from self._codes()
        yield join([not_checked(self._run), how_to_read()])
        yield f"</main><script>{script}</script></body></html>\n"

    # --- tables -------------------------------------------------------------------------------------------------------
    def _tables(self) -> Iterator[str]:
        yield '<section><h2 id="partitions">Partitions</h2>'
        listed, clean, states = self._collected.listed, self._collected.clean, self._collected.states
        if listed:
            rows = _fitting(worst_rows(listed, self._links), ROWS_SIZE)
            yield table_start("Partitions that are not clean, the worst first", is_worst=True)
            yield from rows.values()
            yield table_end()
            yield _left_out(states.total() - states["clean"] - len(rows), "partition")
        if clean:
            rows = _fitting(clean_rows(clean), ROWS_SIZE)
            yield f"<details><summary>{count_of_number(states['clean'], 'clean partition')}</summary>"
            yield table_start("Clean partitions", is_worst=False)
            yield from rows.values()
            yield table_end()
            yield _left_out(states["clean"] - len(rows), "clean partition")
            yield "</details>"
        if not listed and not clean:
            yield element("p", "No partition was among what was checked.", class_="note")
        yield "</section>"

    # --- partitions one by one ----------------------------------------------------------------------------------------
    def _one_by_one(self) -> Iterator[str]:
        states = self._collected.states
        worth_telling = states.total() - states["clean"]
        if not worth_telling:
            return
        yield '<section><h2 id="details">Partitions that are not clean, one by one</h2>'
        yield legend()
        yield from self._details.values()
        yield _left_out(worth_telling - len(self._details), "partition")
        yield "</section>"

    def _detail(self, detail: Detail) -> Html:
        path = str(detail.row["path"])
        anchors = Anchors(numbered(detail.key, detail.findings))
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
        if not self._collected.places:
            return
        yield '<section><h2 id="places">Log directories and single files</h2>'
        yield from self._places.values()
        yield _left_out(self._collected.place_count - len(self._places), "place")
        yield "</section>"

    def _codes(self) -> Iterator[str]:
        codes = self._collected.codes_by_rank()
        if not codes:
            return
        told = [(code, group) for code, group in codes if group.severity != "info"]
        normal = [(code, group) for code, group in codes if group.severity == "info"]
        yield '<section><h2 id="codes">Findings by code</h2>'
        yield from (code_section(code, group, self._links) for code, group in told)
        if normal:
            yield f"<details><summary>{count_of(len(normal), 'code')} of severity info: normal life</summary>"
            yield from (code_section(code, group, self._links) for code, group in normal)
            yield "</details>"
        yield "</section>"


def _figures(row: Mapping[str, object]) -> str:
    end = row.get("log_end_offset")
    offsets = span(row.get("log_start_offset"), end - 1 if isinstance(end, int) else None)
    parts = [
        f"{human_bytes(row['bytes'])} of log in {count_of(row['segments'], 'segment')}",
        f"{number(row['records'])} records in {number(row['batches'])} batches",
        f"offsets {offsets}",
    ]
    if row.get("damage_count"):
        parts.append(f"damaged in {count_of(row['damage_count'], 'place')}, {human_bytes(row['damage_bytes'])}")
    if row.get("at_risk_bytes"):
        parts.append(f"{human_bytes(row['at_risk_bytes'])} behind the recovery point, at risk")
    if row.get("max_timestamp_ms") is not None:
        parts.append(f"newest timestamp {time_cell(row['max_timestamp_ms'])}")
    return "; ".join(parts)


def _place(place: Place) -> Html:
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
    return element(
        "p", f"and {count:,} more {noun}{'s' * (count != 1)}: --output ndjson has all of them", class_="note"
    )


# --- frame ------------------------------------------------------------------------------------------------------------
def _resource(name: str) -> str:
    return files("kafkalog_cli.render").joinpath(name).read_text(encoding="utf-8")


def _head(style: str, script: str) -> str:
    """Up to the body; the policy lets this script run and nothing be fetched, whatever stands in the page."""
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
    skip = element("a", "To the verdict", href="#verdict", class_="skip")
    nav = element("nav", *(element("a", shown, href=f"#{at}") for at, shown in links), aria_label="Sections")
    toggle = element("button", "Theme: as the system", type="button", id="theme", hidden=True)
    header = element("header", element("h1", "kafkalog verify"), nav, toggle)
    return Html(f"{skip}{header}<main>")
