"""What the tests of the export share: small logs of known records, and one run of it as a test wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.spark.export.export import ExportOptions, ExportRequest, export
from kafkalog_core.spark.lake.store import Store
from tests.spark.judging import parquet_rows
from tests.support.build import Record, batch_v2
from tests.support.inline import Inline

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafkalog_core.storage.changing.writer import Disk

START_MS = 1_700_000_000_000
NOW_MS = 1_796_000_000_000


def records(offsets: Iterable[int], word: str = "v") -> list[Record]:
    """A record an offset, a second apart."""
    return [
        Record(
            offset=offset,
            timestamp_ms=START_MS + 1000 * offset,
            key=b"k%d" % offset,
            value=b"%s%d" % (word.encode(), offset),
        )
        for offset in offsets
    ]


def batches(first: int, end: int, step: int = 5, word: str = "v", **fields: Any) -> bytes:
    """Batches of `step` records each."""
    return b"".join(
        batch_v2(records(range(start, min(start + step, end)), word), **fields) for start in range(first, end, step)
    )


def write_log(partition: Path, base: int, data: bytes) -> Path:
    """A segment."""
    partition.mkdir(parents=True, exist_ok=True)
    path = partition / f"{base:020}.log"
    path.write_bytes(data)
    return path


class Run:
    """One run of the export, and what it gave out."""

    number = 0

    def __init__(
        self,
        output: Path | Store,
        *paths: Path,
        workers: Any = None,
        disk: Disk | None = None,
        task_bytes: int = 400,
        commit_bytes: int = 1 << 30,
        format: Any = "delta",  # noqa: A002 -- the name of the option
        resync: bool = True,
        committed: bool = False,
        **asked: Any,
    ) -> None:
        Run.number += 1
        self.report = Report()
        request = ExportRequest(
            targets=tuple(resolve([str(path) for path in paths])),
            output=output if isinstance(output, Store) else Store.of(str(output)),
            format=format,
            asked=ExportOptions(**asked),
            task_bytes=task_bytes,
            commit_bytes=commit_bytes,
            resync=resync,
            committed=committed,
        )
        chunks = export(workers or Inline(), request, self.report, run_id=f"run-{Run.number}", now_ms=NOW_MS, disk=disk)
        self.rows = [row for chunk in chunks for row in chunk.rows()]

    @property
    def codes(self) -> list[str]:
        """Codes of the findings."""
        return [str(row["code"]) for row in self.rows if row["type"] == "finding"]

    @property
    def findings(self) -> list[dict[str, object]]:
        """The findings."""
        return [row for row in self.rows if row["type"] == "finding"]

    @property
    def exported(self) -> dict[str, dict[str, object]]:
        """The `export` rows by partition."""
        return {f"{row['topic']}-{row['partition']}": row for row in self.rows if row["type"] == "export"}


def offsets_in(output: Path, topic: str = "t", partition: int = 0) -> list[int]:
    """Offsets of all rows, in order."""
    return sorted(int(str(row["offset"])) for row in parquet_rows(output).get((topic, partition), []))


def values_in(output: Path, topic: str = "t", partition: int = 0) -> list[bytes]:
    """Values of all rows by offset."""
    rows = parquet_rows(output).get((topic, partition), [])
    return [
        value
        for row in sorted(rows, key=lambda row: int(str(row["offset"])))
        if isinstance(value := row["value"], bytes)
    ]


def damage(log: Path) -> None:
    """Flip the bits of one byte of a log."""
    data = bytearray(log.read_bytes())
    data[100] ^= 0xFF
    log.write_bytes(data)
