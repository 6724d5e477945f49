"""--stats for people: the figures of one partition, and small bars for how they are spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import human_bytes, place_of, safe_text, span, time_cell
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["stats_lines"]

BAR_WIDTH: Final = 30
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def stats_lines(row: Mapping[str, object], encoding: str) -> list[Text]:
    """One block: a bold heading, the figures, then a chart for each spread that has anything in it."""
    solid = encoding.lower().replace("-", "") == "utf8"
    lines = [Text(), Text(place_of(row) or "(no partition)", "bold cyan")]
    unread = row.get("unread_segments")
    if unread:
        of_all = f"{unread} of {count_of(row.get('segments'), 'segment')} could not be read"
        lines.append(
            Text(f"  {of_all}{'' if row.get('batches') is None else '; the figures are of the rest'}", "bold red")
        )
    if row.get("batches") is None:
        return lines
    read = ", ".join(count_of(row.get(f"{name}s"), name) for name in ("segment", "record"))
    lines.append(Text(f"  {read}, {count_of(row.get('batches'), 'batch')}, {human_bytes(row.get('bytes'))}"))
    lines.append(Text(f"  offsets  {span(row.get('first_offset'), row.get('last_offset'))}"))
    if row.get("max_timestamp_ms") is not None:
        times = f"{time_cell(row.get('min_base_timestamp_ms'))} to {time_cell(row['max_timestamp_ms'])}"
        lines.append(Text(f"  times    {times}"))
    if row.get("control_records") or row.get("transactional_records"):
        transactional, control = (
            row.get("transactional_records"),
            count_of(row.get("control_records"), "control record"),
        )
        lines.append(Text(f"  transactions  {count_of(transactional, 'record')} in them, {control}"))
    if row.get("damage_count"):
        place = count_of(row["damage_count"], "place")
        lines.append(Text(f"  DAMAGE in {place}, {human_bytes(row.get('damage_bytes'))}", "bold red"))
    lines += _chart("batches by format", row.get("formats"), solid=solid)
    lines += _chart("batches by codec", row.get("codecs"), solid=solid)
    lines += _chart("bytes by codec", row.get("codec_bytes"), solid=solid, sizes=True)
    lines += _chart("batches by size, up to", row.get("batch_sizes"), solid=solid, size_names=True)
    producers = f"records by producer id ({count_of(row.get('producer_count'), 'producer')})"
    lines += _chart(producers, row.get("producers"), solid=solid)
    return lines


def _chart(title: str, counts: object, *, solid: bool, sizes: bool = False, size_names: bool = False) -> list[Text]:
    spread = cast("dict[str, int]", counts or {})
    if not spread:
        return []
    names = [human_bytes(int(name)) if size_names else safe_text(str(name)) for name in spread]
    figures = [human_bytes(count) if sizes else str(count) for count in spread.values()]
    name_width, figure_width = max(map(len, names)), max(map(len, figures))
    largest, total = max(spread.values()), sum(spread.values())
    lines = [Text(f"  {title}", "bold")]
    for name, figure, count in zip(names, figures, spread.values(), strict=True):
        share = f"{100 * count / total:5.1f} %" if total else ""
        line = Text(f"    {name:>{name_width}}  {figure:>{figure_width}}  {share}  ")
        line.append(_bar(count, largest, solid=solid), "cyan")
        lines.append(line)
    return lines


def _bar(count: int, largest: int, *, solid: bool) -> str:
    """A bar of up to `BAR_WIDTH` cells; anything above zero shows."""
    if count <= 0 or largest <= 0:
        return ""
    if not solid:
        return "#" * max(1, round(count / largest * BAR_WIDTH))
    eighths = max(1, round(count / largest * BAR_WIDTH * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
