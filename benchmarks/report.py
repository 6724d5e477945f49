"""Seconds of all turns -> rates and ratios with their spread, a JSON object for the file and a line for the table."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.data import LogFile
    from benchmarks.machine import ProcessPass

__all__ = ["HEADING", "cell", "line", "process_cell", "process_lines"]

# ratio: its name, who is compared (how many times faster), with whom
_RATIOS: Final = (
    ("verify_to_checksum", "verify", "checksum"),
    ("decode_to_checksum", "decode", "checksum"),
    ("decode_to_aiokafka", "decode", "aiokafka"),
    ("objects_to_aiokafka", "objects", "aiokafka"),
    ("dump_to_java", "dump", "java"),
)
_COLUMNS: Final = (
    ("crc GB/s", "rates", "checksum", "gigabytes_per_second"),
    ("walk GB/s", "rates", "walk", "gigabytes_per_second"),
    ("verify GB/s", "rates", "verify", "gigabytes_per_second"),
    ("decode GB/s", "rates", "decode", "gigabytes_per_second"),
    ("decode M/s", "rates", "decode", "million_records_per_second"),
    ("objects M/s", "rates", "objects", "million_records_per_second"),
    ("aiokafka M/s", "rates", "aiokafka", "million_records_per_second"),
    ("dump M/s", "rates", "dump", "million_records_per_second"),
    ("java M/s", "rates", "java", "million_records_per_second"),
    ("dec:aiokafka", "ratios", "decode_to_aiokafka", None),
    ("obj:aiokafka", "ratios", "objects_to_aiokafka", None),
    ("dump:java", "ratios", "dump_to_java", None),
)
_NAME_WIDTH: Final = 21
HEADING: Final = f"{'medians':{_NAME_WIDTH}}" + "".join(f"{title:>13}" for title, *_ in _COLUMNS)


def cell(name: str, log: LogFile, seconds: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Rates of each reader, and ratios made of figures of one turn each."""
    rates = {
        reader: {
            "seconds": _spread(turns),
            "gigabytes_per_second": _spread(log.size_bytes / 1e9 / turn for turn in turns),
            "million_records_per_second": _spread(log.record_count / 1e6 / turn for turn in turns),
        }
        for reader, turns in seconds.items()
    }
    ratios = {
        ratio: _spread(other / ours for ours, other in zip(seconds[fast], seconds[slow], strict=False))
        for ratio, fast, slow in _RATIOS
        if fast in seconds and slow in seconds
    }
    counts = {"size_bytes": log.size_bytes, "batches": log.batch_count, "records": log.record_count}
    return {"recipe": name, **counts, "rates": rates, "ratios": ratios}


def line(cell_: Mapping[str, Any]) -> str:
    """One line of the table."""
    return f"{cell_['recipe']:{_NAME_WIDTH}}" + "".join(f"{_shown(cell_, *path):>13}" for _, *path in _COLUMNS)


def process_cell(name: str, turns: Mapping[LogFile, Sequence[ProcessPass]], start: ProcessPass) -> dict[str, Any]:
    """Memory and time of whole processes by the size of the log; `start` is one on a log of one batch."""
    sizes = [
        {
            "size_bytes": log.size_bytes,
            "records": log.record_count,
            "seconds": _spread(one.seconds for one in passes),
            "cpu_seconds": _spread(one.cpu_seconds for one in passes),
            "peak_rss_bytes": max(one.peak_rss_bytes for one in passes),
            "microseconds_per_record": _spread(
                (one.seconds - start.seconds) * 1e6 / log.record_count for one in passes
            ),
        }
        for log, passes in turns.items()
    ]
    return {"recipe": name, "start_seconds": start.seconds, "start_rss_bytes": start.peak_rss_bytes, "sizes": sizes}


def process_lines(cell_: Mapping[str, Any]) -> str:
    """One line a size."""
    start = f"start {cell_['start_seconds']:.2f} s, {cell_['start_rss_bytes'] / 1e6:.0f} MB"
    lines = [f"dump process, {cell_['recipe']}: {start}"]
    lines += [
        f"  {one['size_bytes'] / 1e6:6.0f} MB log: {one['seconds']['median']:6.2f} s,"
        f" {one['microseconds_per_record']['median']:.3f} us a record,"
        f" peak {one['peak_rss_bytes'] / 1e6:.0f} MB resident"
        for one in cell_["sizes"]
    ]
    return "\n".join(lines)


def _spread(values: Iterable[float]) -> dict[str, float]:
    known = sorted(values)
    return {"min": known[0], "median": median(known), "max": known[-1]}


def _shown(cell_: Mapping[str, Any], group: str, name: str, unit: str | None) -> str:
    found = cell_[group].get(name)
    if found is None:
        return "-"
    figure = (found if unit is None else found[unit])["median"]
    return f"{figure:.2f}" + ("x" if unit is None else "")
