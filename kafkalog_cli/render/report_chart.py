"""Offsets over time: a box for each segment, as it was written; in a healthy log they climb from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import span, time_cell
from kafkalog_cli.render.report_blocks import tail
from kafkalog_cli.render.report_html import Html, element, join

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_cli.render.report_blocks import Block, Drawing

__all__ = ["timeline"]

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


@dataclass(frozen=True, slots=True)
class _Scale:
    first_time: int
    last_time: int
    first_offset: int
    last_offset: int

    @property
    def left(self) -> float:
        """Where the plot begins: labels of offsets stand before it."""
        longest = max(len(f"{self.first_offset:,}"), len(f"{self.last_offset:,}"), len("offsets"))
        return longest * _LETTER + _STRIP_ROOM

    def x(self, time_ms: int) -> float:
        """Where a time is; what lies outside stands at the edge."""
        inside = min(max(time_ms, self.first_time), self.last_time) - self.first_time
        return self.left + inside * (_RIGHT - self.left) / max(self.last_time - self.first_time, 1)

    def y(self, offset: int) -> float:
        """Where an offset is, the first one at the bottom."""
        inside = min(max(offset, self.first_offset), self.last_offset) - self.first_offset
        return _BOTTOM - inside * (_BOTTOM - _TOP) / max(self.last_offset - self.first_offset, 1)


def timeline(drawing: Drawing, name: str, now_ms: int) -> Html:
    """The chart, or a sentence where there are no times."""
    blocks = [block for block in drawing.blocks if block.first_offset is not None and block.last_offset is not None]
    scale = _scale(blocks, now_ms)
    if scale is None:
        return element("p", "No timeline: nothing in it has a timestamp.", class_="note")
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
    note = outside and element(
        "p", "Timestamps later than a day after this check stand at the right edge.", class_="note"
    )
    return join([element("div", picture, class_="scroll", tabindex=0), note or None])


def _scale(blocks: Sequence[Block], now_ms: int) -> _Scale | None:
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
    margin = max(highest - lowest, 1)  # a lost span may reach to an offset that nothing bears out
    near = [offset for offset in lost if lowest - margin <= offset <= highest + margin]
    return _Scale(first, last, min([lowest, *near]), max([highest, *near]))


def _times(blocks: Iterable[Block]) -> Iterable[int]:
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


def _strip(block: Block, scale: _Scale) -> Html:
    """Offsets that the segment holds, on the scale at the left."""
    top, height = _vertical(block.first_offset or 0, block.last_offset or 0, scale)
    return element("rect", x=scale.left - _STRIP - 2, y=top, width=_STRIP, height=height, class_="held")


def _gap(block: Block, scale: _Scale) -> Html | None:
    """Offsets before the segment that are in none, on the scale at the left."""
    if block.seam is None or not block.seam.is_gap:
        return None
    top, height = _vertical(block.seam.first_offset, block.seam.last_offset, scale)
    return element("rect", x=scale.left - _STRIP - 1, y=top, width=_STRIP - 2, height=height, class_="gap")


def _lost(block: Block, scale: _Scale) -> Html:
    """Offsets that may be lost, across the whole width."""
    parts = []
    for first, last in block.lost_offsets:
        top, height = _vertical(first, last, scale)
        title = element("title", f"Offsets {span(first, last)} may be lost, in {tail(block.path)}")
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


def _box(block: Block, scale: _Scale) -> Html | None:
    if block.first_timestamp_ms is None or block.max_timestamp_ms is None:
        return None
    top, height = _vertical(block.first_offset or 0, block.last_offset or 0, scale)
    left, right = sorted((scale.x(block.first_timestamp_ms), scale.x(block.max_timestamp_ms)))
    left = min(left, _RIGHT - _LEAST)
    title = (
        f"{tail(block.path)}: offsets {span(block.first_offset, block.last_offset)}, "
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
