"""The tables of partitions, and the bar of their states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kafkalog_cli.render.cells import NONE, human_bytes, span
from kafkalog_cli.render.report_findings import badge
from kafkalog_cli.render.report_html import Html, element, moment, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["clean_rows", "state_bar", "table_end", "table_start", "worst_rows"]

STATES: Final = ("damaged", "unread", "warnings", "clean")


class _Column(NamedTuple):
    title: str
    shown: Callable[[Mapping[str, object]], object]
    order: Callable[[Mapping[str, object]], object] | None = None
    kind: str = "num"


def _int(row: Mapping[str, object], name: str) -> int | None:
    return cast("int | None", row.get(name))


def _counted(title: str, name: str) -> _Column:
    return _Column(title, lambda row: number(row.get(name)), lambda row: row.get(name))


def _sized(title: str, name: str) -> _Column:
    return _Column(title, lambda row: human_bytes(row[name]) if row.get(name) else NONE, lambda row: row.get(name) or 0)


def _offsets(row: Mapping[str, object]) -> str:
    end = _int(row, "log_end_offset")
    return span(row.get("log_start_offset"), None if end is None else end - 1)


_BASIC: Final = (
    _sized("Log", "bytes"),
    _counted("Segments", "segments"),
    _counted("Records", "records"),
    _Column("Offsets", _offsets, lambda row: row.get("log_end_offset") or 0),
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


def table_start(caption: str, *, is_worst: bool) -> Html:
    """Up to where the rows begin."""
    columns = _WORST if is_worst else _BASIC
    titles = [element("th", column.title, scope="col", class_=column.kind) for column in columns]
    head = element("tr", element("th", "Partition", scope="col"), *titles)
    table = f'<div class="scroll" tabindex="0"><table class="sortable">{element("caption", caption)}'
    return Html(f"{table}{element('thead', head)}<tbody>")


def table_end() -> Html:
    """Behind the rows."""
    return Html("</tbody></table></div>")


def worst_rows(rows: Iterable[Mapping[str, object]], links: Mapping[str, str]) -> Iterator[tuple[str, Html]]:
    """Keys and rows of partitions that are not clean, with links to their sections."""
    for row in rows:
        anchor = links.get(str(row["path"]))
        name = element("a", row["name"], href=f"#{anchor}") if anchor else row["name"]
        yield str(row["key"]), _row(row, name, _WORST)


def clean_rows(rows: Iterable[Mapping[str, object]]) -> Iterator[tuple[str, Html]]:
    """Keys and rows of clean partitions."""
    for row in rows:
        yield str(row["key"]), _row(row, row["name"], _BASIC)


def _row(row: Mapping[str, object], name: object, columns: Iterable[_Column]) -> Html:
    cells = [element("th", name, scope="row", class_="mono", title=row["path"])]
    for column in columns:
        order = None if column.order is None else column.order(row)
        cells.append(element("td", column.shown(row), class_=column.kind, data_order=order))
    return element("tr", *cells)


def state_bar(states: Mapping[str, int]) -> Html:
    """Partitions by state as a bar, with its legend."""
    total = sum(states.values())
    shares = [(state, states.get(state, 0)) for state in STATES if states.get(state)]
    if not total:
        return element("p", "No partition was among what was checked.", class_="note")
    room, left, parts = 1000.0 - 8 * len(shares), 0.0, []
    for state, count in shares:
        width = 8 + room * count / total
        title = element("title", f"{state}: {count:,} of {total:,}")
        parts.append(element("rect", title, x=left, y=0, width=max(width - 2, 1.0), height=26, rx=3, class_=state))
        left += width
    told = ", ".join(f"{count:,} {state}" for state, count in shares)
    picture = element("svg", *parts, viewBox="0 0 1000 26", role="img", aria_label=f"Partitions by state: {told}")
    legend = [element("li", badge(state), element("b", f" {count:,}")) for state, count in shares]
    return element("figure", picture, element("ul", *legend, class_="legend"), class_="bar")
