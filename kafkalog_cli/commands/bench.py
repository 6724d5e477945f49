"""`kafkalog bench`: how fast this machine reads logs, step by step."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.options import common
from kafkalog_core import kernels
from kafkalog_core.engine.targets import FileTarget, resolve
from kafkalog_core.errors import AccessError, UnknownFileError
from kafkalog_core.format.names import LOG_KINDS
from kafkalog_core.ops.bench import MEASURES, Pass, Recipe, seeded_log, twin_passes
from kafkalog_core.twins import interpreted

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bench_command"]

EXAMPLES = (
    Example("kafkalog bench", "Generated logs of each format and codec"),
    Example("kafkalog bench --output json /var/lib/kafka/orders-0/00000000000000000000.log", "One log of your own"),
)
TURNS: Final = 5
TURNS_SECONDS: Final = 0.5  # a measure that takes longer gets fewer turns
LIMIT_BYTES: Final = 64_000_000 if kernels.COMPILED else 400_000  # of one log: all must be done in 30 seconds
SEEDED: Final = (
    (Recipe(format="v2"), 64_000_000),
    (Recipe(format="v2", shape="single"), 16_000_000),
    (Recipe(format="v2", mixed=True), 16_000_000),
    *((Recipe(format="v2", codec=codec), 16_000_000) for codec in ("gzip", "snappy", "lz4", "zstd")),
    *((Recipe(format=old, shape="single"), 16_000_000) for old in ("v1", "v0", "v07")),
)
HEADING: Final = (
    f"{'log':18} {'measure':11} {'kernels':11} {'GB/s':>7} {'M/s':>9}  {'of':8} {'seconds: min, median, max':>29}"
)


class Figure(NamedTuple):
    """One line of the result; rates are of the median turn."""

    of: str
    measure: str
    kernels: str
    size_bytes: int
    seen: int
    turns: int
    min_seconds: float
    median_seconds: float
    max_seconds: float

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Gigabytes of file and million batches or records a second."""
        if not self.median_seconds:
            return None, None
        return self.size_bytes / 1e9 / self.median_seconds, self.seen / 1e6 / self.median_seconds


@click.command(
    name="bench",
    cls=Command,
    own=("--output",),
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED),
)
@click.argument("file", required=False, type=click.Path())
@common.output_forms("table", "json", "ndjson")
def bench_command(file: str | None, output: str) -> int:
    """Measure how fast this machine reads logs.

    Without FILE, kafkalog generates logs in a temporary directory; with FILE, a log file, it reads the first 64 MB.
    Measures: checksum, a CRC-32C of the bytes in memory, which is the lower limit; walk, batch headers; verify, with
    checksums; decode, records to columns, decompressed; objects, also a Python object for each key and value; dump,
    JSON lines, discarded. The compiled and the interpreted kernels are also measured alone, on the first records. Takes
    less than 30 seconds; nothing else should run at the same time.
    """
    figures = _of_file(file) if file else _of_seeded_logs()
    if output == "json":
        click.echo(json.dumps([_as_object(figure) for figure in figures], indent=1))
        return ExitStatus.CLEAN
    if output == "ndjson":
        for figure in figures:
            click.echo(json.dumps(_as_object(figure)))
        return ExitStatus.CLEAN
    click.echo(HEADING)
    for figure in figures:
        click.echo(_as_line(figure))
    return ExitStatus.CLEAN


def _of_seeded_logs() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="kafkalog-bench-") as scratch:
        for recipe, size_bytes in SEEDED:
            suffix = ".kafka" if recipe.format == "v07" else ".log"
            path = Path(scratch, f"{'0' * 20}{suffix}")
            try:
                with path.open("wb") as log:
                    for piece in seeded_log(recipe, min(size_bytes, LIMIT_BYTES)):
                        log.write(piece.data)
            except OSError as error:
                raise AccessError(f"the generated log cannot be written: {error.strerror}", path=scratch) from error
            yield from _figures(str(path), recipe.name, with_twins=recipe in {Recipe(format="v2"), SEEDED[1][0]})
            path.unlink()


def _of_file(file: str) -> Iterator[Figure]:
    targets = resolve([file])
    if not all(isinstance(target, FileTarget) and target.kind in LOG_KINDS for target in targets):
        raise UnknownFileError("not a log file; name one .log or .kafka file", path=file)
    return _figures(file, Path(file).name, with_twins=True)


def _figures(path: str, of: str, *, with_twins: bool) -> Iterator[Figure]:
    running = "compiled" if kernels.COMPILED else "interpreted"
    MEASURES["checksum"](path, time.perf_counter, LIMIT_BYTES)  # into the page cache
    for name, measure in MEASURES.items():
        turns: list[Pass] = []
        while len(turns) < TURNS and sum(turn.seconds for turn in turns) < TURNS_SECONDS:
            turns.append(measure(path, time.perf_counter, LIMIT_BYTES))
        yield _figure(of, name, "-" if name == "checksum" else running, turns)
    if not with_twins:
        return
    for twin in (kernels, interpreted()) if kernels.COMPILED else (kernels,):
        pairs = [twin_passes(path, twin, time.perf_counter) for _ in range(TURNS)]
        kind = "compiled" if twin.COMPILED else "interpreted"
        yield _figure(of, "twin walk", kind, [walked for walked, _ in pairs])
        yield _figure(of, "twin decode", kind, [decoded for _, decoded in pairs])


def _figure(of: str, measure: str, running: str, turns: list[Pass]) -> Figure:
    seconds = sorted(turn.seconds for turn in turns)
    return Figure(
        of, measure, running, turns[0].size_bytes, turns[0].seen, len(turns), seconds[0], median(seconds), seconds[-1]
    )


def _as_object(figure: Figure) -> dict[str, object]:
    gigabytes, millions = figure.rates
    unit = "batches" if figure.measure in {"walk", "verify", "twin walk"} else "records"
    rates = {"gigabytes_per_second": gigabytes, f"million_{unit}_per_second": millions if figure.seen else None}
    return {"type": "figure", **figure._asdict(), **rates}


def _as_line(figure: Figure) -> str:
    gigabytes, millions = figure.rates
    unit = "batches" if figure.measure in {"walk", "verify", "twin walk"} else "records"
    rate = f"{millions:9.3f}  {unit:8}" if millions else f"{'':9}  {'':8}"
    seconds = f"{figure.min_seconds:9.4f} {figure.median_seconds:9.4f} {figure.max_seconds:9.4f}"
    return f"{figure.of[:18]:18} {figure.measure:11} {figure.kernels:11} {gigabytes or 0:7.3f} {rate} {seconds}"
