"""The HTML report of `kafkalog usage`: the answer, a treemap of what takes space, and the same as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_cli.render.cells import NONE, human_bytes, number
from kafkalog_cli.render.report.html import Html, element, join
from kafkalog_cli.render.usage_table import answer_of, row_name
from kafkalog_core.ops.usage.rows import rows_of
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_cli.output_file import OutputFile
    from kafkalog_core.ops.usage.sums import DirUsage

__all__ = ["UsagePage", "treemap"]

WIDTH: Final = 1000.0
HEIGHT: Final = 560.0
MOST: Final = 200
"""Rectangles of a picture; the rest is one of them."""
_LETTER: Final = 7.5
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "svg{width:100%;height:auto}text{font-size:12px;fill:#fff}rect{stroke:#fff;fill:#4a6fa5}"
    "rect.gone{fill:#b5523b}rect.rest{fill:#777}table{border-collapse:collapse}"
    "td,th{padding:.1rem .8rem;text-align:right}th:first-child{text-align:left;font-family:monospace}"
)


class Box(NamedTuple):
    """A rectangle of the picture: its place in it."""

    x: float
    y: float
    width: float
    height: float


def treemap(sizes: Sequence[int], box: Box) -> Iterator[Box]:
    """Yield a rectangle for each size, all of them filling the box: rows of rectangles that are as square as possible.

    The squarified treemap of Bruls, Huizing and van Wijk. `sizes` are positive, the largest first.
    """
    left, start = box, 0
    while start < len(sizes):
        rest = sum(sizes[start:])
        side = min(left.width, left.height)
        scale = left.width * left.height / rest
        end = start + 1
        while end < len(sizes) and _worst(sizes[start : end + 1], side, scale) <= _worst(sizes[start:end], side, scale):
            end += 1
        row = sizes[start:end]
        share, at = sum(row) / rest, 0.0
        for each in row:
            part = each / sum(row)
            if left.width >= left.height:
                yield Box(left.x, left.y + at * left.height, left.width * share, left.height * part)
            else:
                yield Box(left.x + at * left.width, left.y, left.width * part, left.height * share)
            at += part
        if left.width >= left.height:
            left = Box(left.x + left.width * share, left.y, left.width * (1 - share), left.height)
        else:
            left = Box(left.x, left.y + left.height * share, left.width, left.height * (1 - share))
        start = end


def _worst(row: Sequence[int], side: float, scale: float) -> float:
    """Return how far the worst rectangle of a row is from a square."""
    depth = sum(row) * scale / side
    lengths = [size * scale / depth for size in (row[0], row[-1])]
    return max(max(depth / length, length / depth) for length in lengths)


class UsagePage:
    """A writer of the report, which keeps the rows that it shows."""

    def __init__(self, file: OutputFile) -> None:
        self._file = file
        self._found: list[DirUsage] = []

    def write(self, item: DirUsage) -> None:
        """Keep a directory."""
        self._found.append(item)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the page. Raises AccessError."""
        del summary
        self._file.write(self._pieces())

    def _pieces(self) -> Iterator[str]:
        metas = join(
            [
                element("meta", charset="utf-8"),
                Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
                element("title", "kafkalog usage"),
            ]
        )
        yield f'<!DOCTYPE html>\n<html lang="en"><head>{metas}<style>{_STYLE}</style></head>\n<body><main>'
        yield element("h1", "kafkalog usage")
        if self._found:
            yield element("p", element("b", f"{answer_of(self._found)}."))
        for each in self._found:
            yield from _section(each)
        yield "</main></body></html>\n"


def _section(found: DirUsage) -> Iterator[str]:
    rows = [row for row in rows_of(found.shares, found.by) if number(row, "allocated_bytes")]
    shown, others = rows[:MOST], rows[MOST:]
    sizes = [number(row, "allocated_bytes") for row in shown]
    labels = [row_name(row) for row in shown]
    kinds = ["gone" if row.get("leftover_bytes") or row.get("retention_bytes") else "" for row in shown]
    if others:
        sizes.append(sum(number(row, "allocated_bytes") for row in others))
        labels.append(count_of(len(others), "more row"))
        kinds.append("rest")
    boxes = treemap(sizes, Box(0.0, 0.0, WIDTH, HEIGHT))
    picture = [_part(*each) for each in zip(labels, sizes, kinds, boxes, strict=True)]
    yield element("h2", found.path)
    label = f"What takes the space of {found.path}; the table has the same numbers"
    yield element("svg", *picture, viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", role="img", aria_label=label)
    yield element("p", "Red: something of it may go (leftovers, or what retention deletes at its next check).")
    head = [element("th", title) for title in (found.by, "takes", "leftovers", "retention now", "files")]
    lines = [
        element(
            "tr",
            element("th", row_name(row)),
            *(
                element("td", human_bytes(row[name]) if row.get(name) else NONE)
                for name in ("allocated_bytes", "leftover_bytes", "retention_bytes")
            ),
            element("td", f"{number(row, 'files'):,}"),
        )
        for row in shown
    ]
    yield element("table", element("tr", *head), *lines)


def _part(name: str, size_bytes: int, kind: str, box: Box) -> Html:
    title = element("title", f"{name}: {human_bytes(size_bytes)}")
    room = int((box.width - 8) / _LETTER) if box.height >= 18 else 0
    shown = next((each for each in (f"{name} {human_bytes(size_bytes)}", name) if len(each) <= room), None)
    label = None if shown is None else element("text", shown, x=box.x + 4, y=box.y + 14)
    rect = element("rect", title, x=box.x, y=box.y, width=box.width, height=box.height, class_=kind or None)
    return join([rect, label])
