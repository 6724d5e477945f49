"""The map of a partition: its segments side by side, as wide as they are large, with what is wrong at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import human_bytes, span, time_cell
from kafkalog_cli.render.report_blocks import stem, tail
from kafkalog_cli.render.report_html import Html, element, join, number
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_cli.render.report_blocks import Block, Drawing, Mark, Seam

__all__ = ["Anchors", "segment_map", "segment_table"]

WIDTH: Final = 1000.0
ROW_BLOCKS: Final = 32
_TOP: Final = 14.0
_HEIGHT: Final = 38.0
_ROW: Final = 84.0
_SEAM: Final = 12.0
_LEAST: Final = 12.0
_LETTER: Final = 6.8
_MARK_LEAST: Final = 3.0


class Anchors:
    """Where on the page the findings of a partition are, by file and position."""

    def __init__(self, places: Mapping[tuple[str, int | None], str]) -> None:
        self._places = dict(places)
        self._stems: dict[str, str] = {}
        for (path, _), anchor in places.items():
            self._stems.setdefault(stem(path), anchor)

    def of_damage(self, path: str, position: int) -> str | None:
        """The finding about this place, else one about the segment."""
        return self._places.get((path, position)) or self.of_segment(path)

    def of_segment(self, path: str) -> str | None:
        """The first finding about any file of the segment."""
        return self._stems.get(stem(path))


def segment_map(drawing: Drawing, anchors: Anchors, name: str) -> Html:
    """The map, in rows."""
    rows = [drawing.blocks[at : at + ROW_BLOCKS] for at in range(0, len(drawing.blocks), ROW_BLOCKS)]
    if not rows:
        return element("p", "There is no segment in it.", class_="note")
    drawn = [_row(row, index, anchors) for index, row in enumerate(rows)]
    picture = element(
        "svg",
        *drawn,
        viewBox=f"0 0 {WIDTH:.0f} {len(rows) * _ROW:.0f}",
        role="group",
        aria_label=f"Segments of {name}, each as wide as it is large",
    )
    hidden = drawing.hidden and element("p", f"{count_of(drawing.hidden, 'more segment')} not drawn.", class_="note")
    return join([element("div", picture, class_="scroll", tabindex=0), hidden or None])


def _row(blocks: Sequence[Block], index: int, anchors: Anchors) -> Html:
    seams = sum(block.seam is not None for block in blocks)
    room = WIDTH - seams * _SEAM - len(blocks) * _LEAST
    total = sum(block.size_bytes for block in blocks)
    left, top = 0.0, index * _ROW + _TOP
    parts: list[Html] = []
    for block in blocks:
        if block.seam is not None:
            parts.append(_seam(block.seam, block, left, top))
            left += _SEAM
        width = _LEAST + room * (block.size_bytes / total if total else 1 / len(blocks))
        parts.append(_block(block, left, width, top, anchors))
        left += width
    return join(parts)


def _block(block: Block, left: float, width: float, top: float, anchors: Anchors) -> Html:
    inner = max(width - 2, 1.0)
    tone = "whole" if block.count == 1 else "many"
    kind = f"seg {tone}{' active' if block.is_last else ''}"
    box = element(
        "rect", element("title", _title(block)), x=left + 1, y=top, width=inner, height=_HEIGHT, rx=2, class_=kind
    )
    parts: list[Html | None] = [box]
    parts += [_mark(mark, block, (left + 1, inner, top), anchors) for mark in block.marks]
    parts += [_label(block, left, width, top), _badge(block, left + width / 2, top)]
    target = anchors.of_segment(block.path)
    if target is None or block.marks:
        return element("g", *parts)
    return element("a", *parts, href=f"#{target}", aria_label=f"Findings about {_named(block)}")


def _mark(mark: Mark, block: Block, place: tuple[float, float, float], anchors: Anchors) -> Html:
    left, width, top = place
    wide = max((mark.end - mark.start) * width, _MARK_LEAST)
    at = min(left + mark.start * width, left + width - min(wide, width))
    title = element("title", f"Damaged, from byte {mark.position:,} on, in {tail(block.path)}")
    middle = at + wide / 2
    shape = join(
        [
            element("rect", title, x=at, y=top, width=wide, height=_HEIGHT, class_="hurt"),
            element("path", d=f"M{middle - 5:.1f} {top - 11:.0f}h10l-5 8z", class_="hurt"),
        ]
    )
    target = anchors.of_damage(block.path, mark.position)
    label = f"Damage at byte {mark.position:,} of {tail(block.path)}"
    return shape if target is None else element("a", shape, href=f"#{target}", aria_label=label)


def _badge(block: Block, middle: float, top: float) -> Html | None:
    """A sign below a segment that has findings but no damaged place: in an index, say."""
    if block.severity not in {"warning", "error"} or block.marks:
        return None
    at = top + _HEIGHT - 8
    if block.severity == "error":
        return element("path", d=f"M{middle - 5:.1f} {at - 5:.1f}h10v10h-10z", class_="hurt ring")
    return element("circle", cx=middle, cy=at, r=5, class_="odd ring")


def _label(block: Block, left: float, width: float, top: float) -> Html | None:
    size = human_bytes(block.size_bytes) if block.count == 1 else f"{block.count} segments"
    name = str(block.base_offset)
    parts = []
    if len(size) * _LETTER < width - 8 and not block.marks:
        parts.append(element("text", size, x=left + 7, y=top + 15, class_="in"))
    if block.is_last and width > 7 * _LETTER:
        name = f"{name} active" if (len(name) + 7) * _LETTER < width else name
    if len(name) * _LETTER < width:
        parts.append(element("text", name, x=left + 2, y=top + _HEIGHT + 14))
    return join(parts) if parts else None


def _seam(seam: Seam, block: Block, left: float, top: float) -> Html:
    """A hole between two segments, or two halves over each other."""
    what = "are in no segment" if seam.is_gap else "are in both segments"
    title = element("title", f"Before {tail(block.path)}: offsets {seam_text(seam)} {what}")
    kind = "gap" if seam.is_gap else "over"
    return element("rect", title, x=left + 1, y=top - 4, width=_SEAM - 2, height=_HEIGHT + 8, class_=kind)


def seam_text(seam: Seam) -> str:
    """`120 to 159`."""
    if seam.first_offset == seam.last_offset:
        return f"{seam.first_offset:,}"
    return f"{seam.first_offset:,} to {seam.last_offset:,}"


def _named(block: Block) -> str:
    return tail(block.path) if block.count == 1 else f"{block.count} segments from {tail(block.path)} on"


def _title(block: Block) -> str:
    parts = [_named(block) + (" (active: brokers append to it)" if block.is_last else "")]
    parts.append(f"{human_bytes(block.size_bytes)}, {count_of(block.batches, 'batch')}")
    parts.append(f"offsets {span(block.first_offset, block.last_offset)}")
    if block.max_timestamp_ms is not None:
        parts.append(f"{time_cell(block.first_timestamp_ms)} to {time_cell(block.max_timestamp_ms)}")
    if block.damage_count:
        parts.append(f"damaged in {count_of(block.damage_count, 'place')}, {human_bytes(block.damage_bytes)}")
    return "; ".join(parts)


_COLUMNS: Final = ("Segment", "Log", "Batches", "Records", "Offsets", "First to largest timestamp", "What is odd")


def segment_table(drawing: Drawing) -> Html:
    """The same as the map, as a table."""
    head = element("tr", *(element("th", title, scope="col") for title in _COLUMNS))
    rows = [_table_row(block) for block in drawing.blocks]
    table = element(
        "table", element("caption", "Segments"), element("thead", head), element("tbody", *rows), class_="small"
    )
    return element("div", table, class_="scroll", tabindex=0)


def _table_row(block: Block) -> Html:
    times = time_cell(block.first_timestamp_ms)
    if block.max_timestamp_ms != block.first_timestamp_ms:
        times += f" to {time_cell(block.max_timestamp_ms)}"
    cells = [
        element("th", _named(block), scope="row", class_="mono"),
        *(
            element("td", value, class_="num")
            for value in (human_bytes(block.size_bytes), number(block.batches), number(block.records))
        ),
        element("td", span(block.first_offset, block.last_offset), class_="num"),
        element("td", times, class_="mono"),
        element("td", "; ".join(_oddities(block))),
    ]
    return element("tr", *cells)


def _oddities(block: Block) -> list[str]:
    parts = []
    if block.seam is not None:
        what = "in no segment" if block.seam.is_gap else "in two segments"
        parts.append(f"offsets {seam_text(block.seam)} before it are {what}")
    if block.damage_count:
        parts.append(f"damaged in {count_of(block.damage_count, 'place')}, {human_bytes(block.damage_bytes)}")
    elif block.severity in {"warning", "error"}:
        parts.append(f"{block.severity} about its files")
    if block.gaps:
        parts.append(f"offsets missing in {count_of(block.gaps, 'place')}")
    if block.is_last:
        parts.append("active")
    return parts
