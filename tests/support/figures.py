"""What rows about a clean log directory must say: every figure computed from its files by `tests.support.plain_log`.

`check` compares a row with what is expected of it and leaves no figure out: a column with a number, a truth value or a
map that nobody has computed fails, so that a new one cannot go untested.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.output.tables import TABLES
from tests.support import plain_log
from tests.support.plain_log import Batch, log_of, segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "DEMO",
    "Ran",
    "batch_row",
    "check",
    "check_all",
    "mtime_ms",
    "of_logs",
    "partitions",
    "place",
    "record_rows",
    "run",
    "segment_row",
    "stats_row",
    "summary",
]

Row = dict[str, Any]

DEMO: Final = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
_FIGURES: Final = frozenset({"int8", "int16", "int32", "int64", "uint32", "double", "bool", "bytes", "headers", "map"})
_OF_V2: Final = (
    "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "is_transactional", "is_control",
)  # fmt: skip
_NONE: Final = {
    "batch": {"resynced": False},
    "record": {"resynced": False},
    "segment": {"damage_count": 0, "damage_bytes": 0},
    "stats": {"damage_count": 0, "damage_bytes": 0, "unread_segments": 0},
    "partition": {"damage_count": 0, "damage_bytes": 0},
    "summary": {
        "unchanged_bytes": 0,
        "uncounted_batches": 0,
        "damage_count": 0,
        "damage_bytes": 0,
        "severities": {},
        "codes": {},
        "interrupted": False,
        "exit_status": 0,
    },
}
"""What there is none of in a clean log."""


class Ran(NamedTuple):
    """What a command said: its rows, the last of them the summary."""

    status: int
    rows: list[Row]
    text: str

    def of(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row["type"] == kind]

    @property
    def summary(self) -> Row:
        assert self.rows[-1]["type"] == "summary"
        return self.rows[-1]


def run(*arguments: object, output: str = "ndjson") -> Ran:
    """Run a command; with another form of output the text alone is there."""
    words = [str(word) for word in arguments]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(cli, [*words, "--output", output], catch_exceptions=False)
    rows = [json.loads(line) for line in result.stdout.splitlines()] if output == "ndjson" else []
    return Ran(result.exit_code, rows, result.stderr + result.stdout)  # a summary is the last line of stdout


def check(row: Row, expected: Row) -> None:
    """Compare a row with all that is expected of it, every figure among it."""
    kind = row["type"]
    wanted = {"type": kind} | _NONE.get(kind, {}) | expected
    found = {name: row.get(name, row.get(f"{name}_hex")) for name in wanted}
    differing = {name: (found[name], value) for name, value in wanted.items() if found[name] != value}
    assert not differing, f"{kind}: what it says, and what the files say: {differing}"
    figures = {column.name for column in TABLES[kind].columns if column.kind in _FIGURES}
    assert not figures - wanted.keys(), f"figures of {kind} rows that nobody computes"


def check_all(rows: Sequence[Row], expected: Sequence[Row]) -> None:
    """Compare rows one by one."""
    for row, wanted in zip(rows, expected, strict=False):
        check(row, wanted)
    assert len(rows) == len(expected)


def summary(ran: Ran, **expected: object) -> None:
    """Compare the summary of a whole result: as many files and partitions as there were."""
    totals = {f"{name}_total": expected[name] for name in ("files", "partitions", "bytes")}
    check(ran.summary, {"rows": len(ran.rows) - 1, "unopened_batches": 0, **totals, **expected})
    assert ran.status == ran.summary["exit_status"]


# --- what the files hold ----------------------------------------------------------------------------------------------
def partitions(log_dir: Path) -> list[Path]:
    """Partition directories in their order."""
    return sorted(path for path in log_dir.iterdir() if path.is_dir())


def place(directory: Path) -> Row:
    """Topic and partition of a directory."""
    topic, _, number = directory.name.rpartition("-")
    return {"topic": topic, "partition": int(number)}


def of_logs(*directories: Path) -> dict[str, int]:
    """What a summary says of whole logs."""
    logs = [path for directory in directories for path in segments(directory).values()]
    found = [batch for directory in directories for batch in log_of(directory)]
    return {
        "files": len(logs),
        "partitions": len(directories),
        "bytes": sum(path.stat().st_size for path in logs),
        "batches": len(found),
        "records": sum(len(batch.records) for batch in found),
    }


def mtime_ms(path: Path) -> int:
    """Modification time."""
    return path.stat().st_mtime_ns // 1_000_000


def batch_row(directory: Path, batch: Batch) -> Row:
    """A `batch` row."""
    is_wrapper = batch.magic < 2 and batch.codec != "none"
    return place(directory) | {
        "segment": batch.segment,
        "position": batch.position,
        "size_bytes": batch.size_bytes,
        "base_offset": None if is_wrapper else batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": None if is_wrapper else batch.header_count,
        "format": batch.format,
        "codec": batch.codec,
        "timestamp_type": batch.timestamp_type,
        "base_timestamp_ms": batch.base_timestamp_ms,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "delete_horizon_ms": batch.base_timestamp_ms if batch.has_horizon else None,
        "crc_stored": batch.crc,
        "crc_computed": batch.crc,
        "crc_ok": True,
        **{name: getattr(batch, name) if batch.magic == 2 else None for name in _OF_V2},
    }


def record_rows(directory: Path, batch: Batch) -> list[Row]:
    """The `record` rows of a batch, of `--bytes hex`."""
    return [
        place(directory)
        | {
            "segment": batch.segment,
            "position": batch.position,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "timestamp_type": batch.timestamp_type,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
            "headers": [
                {"key": name, "value_hex": None if value is None else value.hex()} for name, value in record.headers
            ],
            "format": batch.format,
            "codec": batch.codec,
            "leader_epoch": batch.leader_epoch,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "sequence": -1 if batch.base_sequence < 0 else batch.base_sequence + record.offset - batch.base_offset,
            "is_transactional": batch.is_transactional,
            "control_type": batch.control_type(record),
        }
        for record in batch.records
    ]


def _times(found: Iterable[Batch]) -> Row:
    """The smallest first timestamp and the largest one: what headers say, but of wrappers of magic 1 their records."""
    first: list[int] = []
    every: list[int] = []
    for batch in found:
        inside = [record.timestamp_ms for record in batch.records if record.timestamp_ms is not None]
        if batch.magic == 2:
            is_first = not batch.has_horizon and batch.timestamp_type == "create"
            times = [batch.base_timestamp_ms if is_first else batch.max_timestamp_ms, batch.max_timestamp_ms]
            inside = [time for time in times if time is not None]
        first += inside
        every += [*inside, -1 if batch.max_timestamp_ms is None else batch.max_timestamp_ms]
    return {
        "min_base_timestamp_ms": min((time for time in first if time >= 0), default=None),
        "max_timestamp_ms": max((time for time in every if time >= 0), default=None),
    }


def segment_row(directory: Path, path: Path) -> Row:
    """A `segment` row."""
    found = plain_log.batches_of(path)
    sizes = {
        f"{name}_bytes": beside.stat().st_size if (beside := path.with_suffix(f".{name}")).exists() else None
        for name in ("index", "timeindex", "txnindex", "snapshot")
    }
    return {
        **place(directory),
        **sizes,
        **_times(found),
        "segment": path.name,
        "base_offset": int(path.stem),
        "state": "active" if path == [*segments(directory).values()][-1] else "closed",
        "size_bytes": path.stat().st_size,
        "mtime_ms": mtime_ms(path),
        "first_offset": found[0].base_offset if found else None,
        "last_offset": found[-1].last_offset if found else None,
        "batch_count": len(found),
        "record_count": sum(len(batch.records) for batch in found),
        "formats": ",".join(sorted({batch.format for batch in found})),
        "codecs": ",".join(sorted({batch.codec for batch in found})),
    }


def stats_row(directory: Path) -> Row:
    """A `stats` row."""
    found = log_of(directory)
    sizes: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    producers: Counter[str] = Counter()
    for batch in found:
        sizes[batch.codec] += batch.size_bytes
        classes[str(next(1 << bits for bits in range(40) if batch.size_bytes <= 1 << bits))] += 1
        if batch.producer_id >= 0:
            producers[str(batch.producer_id)] += len(batch.records)
    counts = [(batch, len(batch.records)) for batch in found]
    return {
        **place(directory),
        **_times(found),
        "segments": len(segments(directory)),
        "bytes": sum(batch.size_bytes for batch in found),
        "batches": len(found),
        "records": sum(count for _, count in counts),
        "control_records": sum(count for batch, count in counts if batch.is_control),
        "transactional_records": sum(
            count for batch, count in counts if batch.is_transactional and not batch.is_control
        ),
        "first_offset": found[0].base_offset if found else None,
        "last_offset": found[-1].last_offset if found else None,
        "formats": dict(Counter(batch.format for batch in found)),
        "codecs": dict(Counter(batch.codec for batch in found)),
        "codec_bytes": dict(sizes),
        "batch_sizes": dict(classes),
        "producers": dict(producers),
        "producer_count": len(producers),
    }
