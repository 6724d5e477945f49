"""Seconds of all turns -> rates and ratios with their spread, a JSON object for the file and a line for the table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.data import LogFile
    from benchmarks.machine import ProcessPass

Ratios = Sequence[tuple[str, str, str]]
Columns = Sequence[tuple[str, str, str, str | None]]
__all__ = [
    "HEADING",
    "VERIFY_COLUMNS",
    "VERIFY_RATIOS",
    "cell",
    "heading",
    "line",
    "process_cell",
    "process_lines",
    "spread",
]

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
# of verify: how many times the time of the bare checksum a level takes, and the stock tool that of the level
VERIFY_RATIOS: Final = (
    ("headers_in_checksums", "checksum_cpu", "headers_cpu"),
    ("checksums_in_checksums", "checksum_cpu", "checksums_cpu"),
    ("records_in_checksums", "checksum_cpu", "records_cpu"),
    ("checksums_to_java", "checksums", "java_shallow"),
    ("records_to_java", "records", "java_deep"),
)
VERIFY_COLUMNS: Final = (
    ("crc GB/s", "rates", "checksum", "gigabytes_per_second"),
    ("headers", "rates", "headers", "gigabytes_per_second"),
    ("checksums", "rates", "checksums", "gigabytes_per_second"),
    ("records", "rates", "records", "gigabytes_per_second"),
    ("records M/s", "rates", "records", "million_records_per_second"),
    ("checksums:crc", "ratios", "checksums_in_checksums", None),
    ("records:crc", "ratios", "records_in_checksums", None),
    ("sums:java", "ratios", "checksums_to_java", None),
    ("recs:java", "ratios", "records_to_java", None),
)
_NAME_WIDTH: Final = 25


def heading(columns: Columns = _COLUMNS) -> str:
    """The line above the table."""
    return f"{'medians':{_NAME_WIDTH}}" + "".join(f"{title:>14}" for title, *_ in columns)


HEADING: Final = heading()


def cell(
    name: str, log: LogFile, seconds: Mapping[str, Sequence[float]], ratios_of: Ratios = _RATIOS
) -> dict[str, Any]:
    """Rates of each reader, and ratios made of figures of one turn each."""
    rates = {
        reader: {
            "seconds": spread(turns),
            "gigabytes_per_second": spread(log.size_bytes / 1e9 / turn for turn in turns),
            "million_records_per_second": spread(log.record_count / 1e6 / turn for turn in turns),
        }
        for reader, turns in seconds.items()
    }
    ratios = {
        ratio: spread(other / ours for ours, other in zip(seconds[fast], seconds[slow], strict=False))
        for ratio, fast, slow in ratios_of
        if fast in seconds and slow in seconds
    }
    counts = {"size_bytes": log.size_bytes, "batches": log.batch_count, "records": log.record_count}
    return {"recipe": name, **counts, "rates": rates, "ratios": ratios}


def line(cell_: Mapping[str, Any], columns: Columns = _COLUMNS) -> str:
    """One line of the table."""
    shown = (_shown(cell_, group, name, unit) for _, group, name, unit in columns)
    return f"{cell_['recipe']:{_NAME_WIDTH}}" + "".join(f"{text:>14}" for text in shown)


def process_cell(name: str, turns: Mapping[LogFile, Sequence[ProcessPass]], start: ProcessPass) -> dict[str, Any]:
    """Memory and time of whole processes by the size of the log; `start` is one on a log of one batch."""
    sizes = [
        {
            "size_bytes": log.size_bytes,
            "records": log.record_count,
            "seconds": spread(one.seconds for one in passes),
            "cpu_seconds": spread(one.cpu_seconds for one in passes),
            "peak_rss_bytes": max(one.peak_rss_bytes for one in passes),
            "microseconds_per_record": spread((one.seconds - start.seconds) * 1e6 / log.record_count for one in passes),
        }
        for log, passes in turns.items()
    ]
    return {"recipe": name, "start_seconds": start.seconds, "start_rss_bytes": start.peak_rss_bytes, "sizes": sizes}


def process_lines(cell_: Mapping[str, Any], command: str = "dump") -> str:
    """One line a size."""
    start = f"start {cell_['start_seconds']:.2f} s, {cell_['start_rss_bytes'] / 1e6:.0f} MB"
    lines = [f"{command} process, {cell_['recipe']}: {start}"]
    lines += [
        f"  {one['size_bytes'] / 1e6:6.0f} MB log: {one['seconds']['median']:6.2f} s,"
        f" {one['microseconds_per_record']['median']:.3f} us a record,"
        f" peak {one['peak_rss_bytes'] / 1e6:.0f} MB resident"
        for one in cell_["sizes"]
    ]
    return "\n".join(lines)


def spread(values: Iterable[float]) -> dict[str, float]:
    """Least, median and largest."""
    known = sorted(values)
    return {"min": known[0], "median": median(known), "max": known[-1]}


def _shown(cell_: Mapping[str, Any], group: str, name: str, unit: str | None) -> str:
    found = cell_[group].get(name)
    if found is None:
        return "-"
    figure = (found if unit is None else found[unit])["median"]
    return f"{figure:.2f}" + ("x" if unit is None else "")
