"""The pictures of the HTML report: offsets over time, the map of segments, and the same as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import human_bytes, span, time_cell
from kafkalog_cli.render.report.data import base_name, stem
from kafkalog_cli.render.report.html import Html, element, join, number
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_cli.render.report.data import DamageMark, Discontinuity, PartitionMap, SegmentBlock

__all__ = ["FindingAnchors", "segment_map", "segment_table", "timeline"]


WIDTH: Final = 1000.0
HEIGHT: Final = 240.0
_STRIP_ROOM: Final = 24.0
_LETTER: Final = 6.6
_TOP: Final = 12.0
_BOTTOM: Final = 200.0
_RIGHT: Final = 988.0
_STRIP: Final = 12.0
_LEAST: Final = 3.0
_DAY_MS: Final = 86_400_000


class _Scale(Struct, frozen=True):
    first_time: int
    last_time: int
    first_offset: int
    last_offset: int

    @property
    def left(self) -> float:
        """The left edge of the plot; the labels of the offsets are left of it."""
        longest = max(len(f"{self.first_offset:,}"), len(f"{self.last_offset:,}"), len("offsets"))
        return longest * _LETTER + _STRIP_ROOM

    def x(self, time_ms: int) -> float:
        """Return the x of a time; times outside the axis are at its edge."""
        inside = min(max(time_ms, self.first_time), self.last_time) - self.first_time
        return self.left + inside * (_RIGHT - self.left) / max(self.last_time - self.first_time, 1)

    def y(self, offset: int) -> float:
        """Return the y of an offset; the first one is at the bottom."""
        inside = min(max(offset, self.first_offset), self.last_offset) - self.first_offset
        return _BOTTOM - inside * (_BOTTOM - _TOP) / max(self.last_offset - self.first_offset, 1)


def timeline(drawing: PartitionMap, name: str, now_ms: int) -> Html:
    """Return the chart of offsets over time, or a sentence if there are no timestamps."""
    blocks = [block for block in drawing.blocks if block.first_offset is not None and block.last_offset is not None]
    scale = _scale(blocks, now_ms)
    if scale is None:
        return element("p", "No timeline: no batch has a timestamp.", class_="note")
    picture = element(
        "svg",
        _axes(scale),
        *(_strip(block, scale) for block in blocks),
        *(_gap(block, scale) for block in blocks),
        *(_lost(block, scale) for block in blocks),
        *(_box(block, scale) for block in blocks),
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        role="img",
        aria_label=(
            f"{name}: offsets {scale.first_offset} to {scale.last_offset} from {time_cell(scale.first_time)} to "
            f"{time_cell(scale.last_time)}; the table of segments has the same numbers"
        ),
    )
    outside = [block for block in blocks if (block.max_timestamp_ms or 0) > scale.last_time]
    note = outside and element("p", "Timestamps more than a day after this check are at the right edge.", class_="note")
    return join([element("div", picture, class_="scroll", tabindex=0), note or None])


def _scale(blocks: Sequence[SegmentBlock], now_ms: int) -> _Scale | None:
    times = list(_times(blocks))
    if not times:
        return None
    first, last = min(times), max(times)
    if first < now_ms + _DAY_MS < last:
        last = max(time for time in times if time <= now_ms + _DAY_MS)
    positive = [time for time in times if 0 < time <= last]
    first = min(positive, default=first)
    offsets = [offset for block in blocks for offset in (block.first_offset, block.last_offset) if offset is not None]
    lost = [offset for block in blocks for pair in block.lost_offsets for offset in pair]
    lowest, highest = min(offsets), max(offsets)
    margin = max(highest - lowest, 1)  # the end of a lost range may be an absurd offset, from a damaged header
    near = [offset for offset in lost if lowest - margin <= offset <= highest + margin]
    return _Scale(first, last, min([lowest, *near]), max([highest, *near]))


def _times(blocks: Iterable[SegmentBlock]) -> Iterable[int]:
    for block in blocks:
        yield from (time for time in (block.first_timestamp_ms, block.max_timestamp_ms) if time is not None)


def _axes(scale: _Scale) -> Html:
    middle = (scale.first_time + scale.last_time) // 2
    parts = [
        element("rect", x=scale.left, y=_TOP, width=_RIGHT - scale.left, height=_BOTTOM - _TOP, class_="plot"),
        element("text", f"{scale.last_offset:,}", x=scale.left - 20, y=_TOP + 10, text_anchor="end"),
        element("text", f"{scale.first_offset:,}", x=scale.left - 20, y=_BOTTOM, text_anchor="end"),
        element("text", "offsets", x=scale.left - 20, y=(_TOP + _BOTTOM) / 2, text_anchor="end", class_="axis"),
    ]
    if scale.last_time - scale.first_time > 1:
        at = scale.x(middle)
        parts.append(element("path", d=f"M{at:.1f} {_TOP}V{_BOTTOM}", class_="grid"))
        parts.append(element("text", _time(middle), x=at, y=_BOTTOM + 18, text_anchor="middle"))
    if scale.last_time != scale.first_time:
        parts.append(element("text", _time(scale.last_time), x=_RIGHT, y=_BOTTOM + 18, text_anchor="end"))
    parts.append(element("text", _time(scale.first_time), x=scale.left, y=_BOTTOM + 18))
    parts.append(element("text", "timestamps of the batches, UTC", x=scale.left, y=_BOTTOM + 34, class_="axis"))
    return join(parts)


def _time(time_ms: int) -> str:
    return time_cell(time_ms).replace("T", " ").replace("Z", "")


def _strip(block: SegmentBlock, scale: _Scale) -> Html:
    """Return the bar of the segment's offsets, in the strip at the left."""
    top, height = _vertical(block.first_offset or 0, block.last_offset or 0, scale)
    return element("rect", x=scale.left - _STRIP - 2, y=top, width=_STRIP, height=height, class_="held")


def _gap(block: SegmentBlock, scale: _Scale) -> Html | None:
    """Return the bar of the gap before the segment, in the strip at the left."""
    if block.discontinuity is None or not block.discontinuity.is_gap:
        return None
    top, height = _vertical(block.discontinuity.first_offset, block.discontinuity.last_offset, scale)
    return element("rect", x=scale.left - _STRIP - 1, y=top, width=_STRIP - 2, height=height, class_="gap")


def _lost(block: SegmentBlock, scale: _Scale) -> Html:
    """Return the bars of the offsets that may be lost, across the whole width."""
    parts = []
    for first, last in block.lost_offsets:
        top, height = _vertical(first, last, scale)
        title = element("title", f"Offsets {span(first, last)} may be lost, in {base_name(block.path)}")
        parts.append(
            element(
                "rect",
                title,
                x=scale.left - _STRIP - 2,
                y=top,
                width=_RIGHT - scale.left + _STRIP + 2,
                height=height,
                class_="lost",
            )
        )
    return join(parts)


def _box(block: SegmentBlock, scale: _Scale) -> Html | None:
    if block.first_timestamp_ms is None or block.max_timestamp_ms is None:
        return None
    top, height = _vertical(block.first_offset or 0, block.last_offset or 0, scale)
    left, right = sorted((scale.x(block.first_timestamp_ms), scale.x(block.max_timestamp_ms)))
    left = min(left, _RIGHT - _LEAST)
    title = (
        f"{base_name(block.path)}: offsets {span(block.first_offset, block.last_offset)}, "
        f"{time_cell(block.first_timestamp_ms)} to {time_cell(block.max_timestamp_ms)}"
    )
    tone = "bad" if block.marks else "active" if block.is_last else "good"
    return element(
        "rect",
        element("title", title),
        x=left,
        y=top,
        width=max(right - left, _LEAST),
        height=height,
        class_=f"box {tone}",
    )


def _vertical(first: int, last: int, scale: _Scale) -> tuple[float, float]:
    top, bottom = scale.y(max(first, last)), scale.y(min(first, last))
    height = max(bottom - top, _LEAST)
    return min(top, _BOTTOM - height), height


MAP_WIDTH: Final = 1000.0
ROW_BLOCKS: Final = 32
_MAPS_TOP: Final = 14.0
_HEIGHT: Final = 38.0
_ROW: Final = 84.0
_DISCONTINUITY_WIDTH: Final = 12.0
_MAPS_LEAST: Final = 12.0
_MAPS_LETTER: Final = 6.8
_MARK_LEAST: Final = 3.0


class FindingAnchors:
    """The anchors of the findings of a partition, by file and position."""

    def __init__(self, places: Mapping[tuple[str, int | None], str]) -> None:
        self._places = dict(places)
        self._stems: dict[str, str] = {}
        for (path, _), anchor in places.items():
            self._stems.setdefault(stem(path), anchor)

    def of_damage(self, path: str, position: int) -> str | None:
        """Return the anchor of the finding about this place, else of one about the segment."""
        return self._places.get((path, position)) or self.of_segment(path)

    def of_segment(self, path: str) -> str | None:
        """Return the anchor of the first finding about any file of the segment."""
        return self._stems.get(stem(path))


def segment_map(drawing: PartitionMap, anchors: FindingAnchors, name: str) -> Html:
    """Return the map of segments, in rows."""
    rows = [drawing.blocks[at : at + ROW_BLOCKS] for at in range(0, len(drawing.blocks), ROW_BLOCKS)]
    if not rows:
        return element("p", "The partition has no segment.", class_="note")
    drawn = [_row(row, index, anchors) for index, row in enumerate(rows)]
    picture = element(
        "svg",
        *drawn,
        viewBox=f"0 0 {MAP_WIDTH:.0f} {len(rows) * _ROW:.0f}",
        role="group",
        aria_label=f"Segments of {name}; the width of each shows its size",
    )
    hidden = drawing.hidden and element("p", f"{count_of(drawing.hidden, 'more segment')} not drawn.", class_="note")
    return join([element("div", picture, class_="scroll", tabindex=0), hidden or None])


def _row(blocks: Sequence[SegmentBlock], index: int, anchors: FindingAnchors) -> Html:
    discontinuities = sum(block.discontinuity is not None for block in blocks)
    room = MAP_WIDTH - discontinuities * _DISCONTINUITY_WIDTH - len(blocks) * _MAPS_LEAST
    total = sum(block.size_bytes for block in blocks)
    left, top = 0.0, index * _ROW + _MAPS_TOP
    parts: list[Html] = []
    for block in blocks:
        if block.discontinuity is not None:
            parts.append(_discontinuity(block.discontinuity, block, left, top))
            left += _DISCONTINUITY_WIDTH
        width = _MAPS_LEAST + room * (block.size_bytes / total if total else 1 / len(blocks))
        parts.append(_block(block, left, width, top, anchors))
        left += width
    return join(parts)


def _block(block: SegmentBlock, left: float, width: float, top: float, anchors: FindingAnchors) -> Html:
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


def _mark(mark: DamageMark, block: SegmentBlock, place: tuple[float, float, float], anchors: FindingAnchors) -> Html:
    left, width, top = place
    wide = max((mark.end - mark.start) * width, _MARK_LEAST)
    at = min(left + mark.start * width, left + width - min(wide, width))
    title = element("title", f"Damage from byte {mark.position:,} on, in {base_name(block.path)}")
    middle = at + wide / 2
    shape = join(
        [
            element("rect", title, x=at, y=top, width=wide, height=_HEIGHT, class_="hurt"),
            element("path", d=f"M{middle - 5:.1f} {top - 11:.0f}h10l-5 8z", class_="hurt"),
        ]
    )
    target = anchors.of_damage(block.path, mark.position)
    label = f"Damage at byte {mark.position:,} of {base_name(block.path)}"
    return shape if target is None else element("a", shape, href=f"#{target}", aria_label=label)


def _badge(block: SegmentBlock, middle: float, top: float) -> Html | None:
    """Return the sign of a segment with findings but without damage, for example in an index."""
    if block.severity not in {"warning", "error"} or block.marks:
        return None
    at = top + _HEIGHT - 8
    if block.severity == "error":
        return element("path", d=f"M{middle - 5:.1f} {at - 5:.1f}h10v10h-10z", class_="hurt ring")
    return element("circle", cx=middle, cy=at, r=5, class_="odd ring")


def _label(block: SegmentBlock, left: float, width: float, top: float) -> Html | None:
    size = human_bytes(block.size_bytes) if block.count == 1 else f"{block.count} segments"
    name = str(block.base_offset)
    parts = []
    if len(size) * _MAPS_LETTER < width - 8 and not block.marks:
        parts.append(element("text", size, x=left + 7, y=top + 15, class_="in"))
    if block.is_last and width > 7 * _MAPS_LETTER:
        name = f"{name} active" if (len(name) + 7) * _MAPS_LETTER < width else name
    if len(name) * _MAPS_LETTER < width:
        parts.append(element("text", name, x=left + 2, y=top + _HEIGHT + 14))
    return join(parts) if parts else None


def _discontinuity(discontinuity: Discontinuity, block: SegmentBlock, left: float, top: float) -> Html:
    """Return the sign of a gap or an overlap between two segments."""
    what = "are in no segment" if discontinuity.is_gap else "are in both segments"
    title = element("title", f"Before {base_name(block.path)}: offsets {offsets_text(discontinuity)} {what}")
    kind = "gap" if discontinuity.is_gap else "over"
    return element(
        "rect", title, x=left + 1, y=top - 4, width=_DISCONTINUITY_WIDTH - 2, height=_HEIGHT + 8, class_=kind
    )


def offsets_text(discontinuity: Discontinuity) -> str:
    """Return `120 to 159`."""
    if discontinuity.first_offset == discontinuity.last_offset:
        return f"{discontinuity.first_offset:,}"
    return f"{discontinuity.first_offset:,} to {discontinuity.last_offset:,}"


def _named(block: SegmentBlock) -> str:
    return base_name(block.path) if block.count == 1 else f"{block.count} segments from {base_name(block.path)} on"


def _title(block: SegmentBlock) -> str:
    parts = [_named(block) + (" (active: brokers append to it)" if block.is_last else "")]
    parts.append(f"{human_bytes(block.size_bytes)}, {count_of(block.batches, 'batch')}")
    parts.append(f"offsets {span(block.first_offset, block.last_offset)}")
    if block.max_timestamp_ms is not None:
        parts.append(f"{time_cell(block.first_timestamp_ms)} to {time_cell(block.max_timestamp_ms)}")
    if block.damage_count:
        parts.append(f"damaged in {count_of(block.damage_count, 'place')}, {human_bytes(block.damage_bytes)}")
    return "; ".join(parts)


_COLUMNS: Final = ("Segment", "Log", "Batches", "Records", "Offsets", "First to largest timestamp", "Notes")


def segment_table(drawing: PartitionMap) -> Html:
    """Return the map as a table."""
    head = element("tr", *(element("th", title, scope="col") for title in _COLUMNS))
    rows = [_table_row(block) for block in drawing.blocks]
    table = element(
        "table", element("caption", "Segments"), element("thead", head), element("tbody", *rows), class_="small"
    )
    return element("div", table, class_="scroll", tabindex=0)


def _table_row(block: SegmentBlock) -> Html:
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
        element("td", "; ".join(_notes(block))),
    ]
    return element("tr", *cells)


def _notes(block: SegmentBlock) -> list[str]:
    parts = []
    if block.discontinuity is not None:
        what = "in no segment" if block.discontinuity.is_gap else "in two segments"
        parts.append(f"offsets {offsets_text(block.discontinuity)} before it are {what}")
    if block.damage_count:
        parts.append(f"damaged in {count_of(block.damage_count, 'place')}, {human_bytes(block.damage_bytes)}")
    elif block.severity in {"warning", "error"}:
        parts.append(f"{block.severity} about its files")
    if block.gaps:
        parts.append(f"offsets missing in {count_of(block.gaps, 'place')}")
    if block.is_last:
        parts.append("active")
    return parts
