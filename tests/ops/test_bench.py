"""Seeded logs hold what they promise, and the measures see all of it."""

from __future__ import annotations

import itertools
import json
import zlib
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.commands import bench as bench_module
from kafkalog_cli.main import cli
from kafkalog_core import kernels
from kafkalog_core.ops import bench
from kafkalog_core.ops.bench import CODECS, MEASURES, Recipe, seeded_log, seeded_records
from tests.support.figures import DEMO
from tests.support.plain_log import Record, batches_of

if TYPE_CHECKING:
    from pathlib import Path

BATCHES = {"16k": 2, "single": 9}
RECIPES = [
    Recipe(format=name, codec=codec, shape=shape, mixed=mixed)
    for name, codecs in CODECS.items()
    for codec in codecs
    for shape, mixed in (("16k", False), ("single", True))
]
FIRST_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are written more than once in a small log."""
    for shape, count in BATCHES.items():
        monkeypatch.setitem(bench.BLOCK_BATCHES, shape, count)


def _write(path: Path, recipe: Recipe) -> tuple[int, int]:
    """A log of two blocks and a half; how many batches and records it says to have."""
    block_bytes = sum(len(piece.data) for piece in seeded_log(recipe, 1)) * BATCHES[recipe.shape]
    limit_bytes = block_bytes * 5 // 2
    batches = records = 0
    with path.open("wb") as log:
        for piece in seeded_log(recipe, limit_bytes):
            log.write(piece.data)
            batches, records = batches + piece.batch_count, records + piece.record_count
    assert BATCHES[recipe.shape] < batches, "no block is written twice"
    assert path.stat().st_size <= limit_bytes
    return batches, records


def _values(recipe: Recipe, count: int) -> list[tuple[bytes | None, bytes | None, bytes | None]]:
    """Key, value and header of each record: a block's own records again and again."""
    made = bench.build_block(recipe)
    block = list(itertools.islice(seeded_records(mixed=recipe.mixed), made.record_ends[-1]))
    return list(itertools.islice(itertools.cycle(block), count))


@pytest.mark.parametrize("recipe", [each for each in RECIPES if each.format != "v07"], ids=lambda recipe: recipe.name)
def test_a_seeded_log_is_one_that_a_client_writes(tmp_path: Path, recipe: Recipe) -> None:
    batches, records = _write(tmp_path / f"{0:020}.log", recipe)
    found = batches_of(tmp_path / f"{0:020}.log")
    inside = [record for batch in found for record in batch.records]
    assert (len(found), len(inside)) == (batches, records)
    assert {batch.format for batch in found} == {recipe.format}
    assert {batch.codec for batch in found} == {recipe.codec}
    assert [record.offset for record in inside] == list(range(records))
    assert [batch.last_offset for batch in found] == [batch.records[-1].offset for batch in found]
    for record, (key, value, header) in zip(inside, _values(recipe, records), strict=True):
        headers = (("correlation-id", header),) if recipe.format == "v2" else ()
        assert record == Record(record.offset, record.timestamp_ms, key, value, headers)
    for batch in found:
        times = [record.timestamp_ms for record in batch.records]
        if recipe.format == "v2":
            assert times == [FIRST_MS + number for number in range(len(times))]
            assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (times[0], times[-1])
            assert (batch.base_offset, batch.header_count) == (batch.records[0].offset, len(times))
        else:
            assert set(times) == {FIRST_MS if recipe.format == "v1" else None}
        if recipe.shape == "single":
            assert len(times) == 1
        elif recipe.is_wrapped:
            assert sum(len(record.key or b"") + len(record.value or b"") for record in batch.records) > 8 * 1024


@pytest.mark.parametrize("codec", CODECS["v07"])
def test_a_seeded_log_of_0_7(tmp_path: Path, codec: str) -> None:
    """Length, magic, attributes, checksum, payload; of a wrapper the payload is what it wraps."""
    recipe, path = Recipe(format="v07", codec=codec, shape="single"), tmp_path / f"{0:020}.kafka"
    batches, records = _write(path, recipe)
    data, at, payloads = path.read_bytes(), 0, []
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        assert data[at + 4 : at + 6] == bytes([1, recipe.codec_id])
        assert zlib.crc32(data[at + 10 : end]) == int.from_bytes(data[at + 6 : at + 10], "big")
        payloads.append(data[at + 10 : end])
        at = end
    assert len(payloads) == batches == records
    if codec == "none":
        assert payloads == [value or b"" for _, value, _ in _values(recipe, records)]


def test_seeded_records_have_the_sizes_that_are_promised() -> None:
    for mixed in (False, True):
        some = list(itertools.islice(seeded_records(mixed=mixed), 200))
        assert {len(each.key) for each in some if each.key is not None} == {bench.KEY_BYTES}
        assert {len(each.value) for each in some if each.value} == {bench.VALUE_BYTES}
        assert any(None in each for each in some) is mixed
        assert len(set(some)) == 200


# --- measures ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("limit_bytes", [None, 10**9])
@pytest.mark.parametrize("recipe", RECIPES[::3], ids=lambda recipe: recipe.name)
def test_measures_see_all_of_a_log(tmp_path: Path, recipe: Recipe, limit_bytes: int | None) -> None:
    path = tmp_path / f"{0:020}{'.kafka' if recipe.format == 'v07' else '.log'}"
    batches, records = _write(path, recipe)
    ticks = itertools.count()
    for name, measure in MEASURES.items():
        seconds, size_bytes, seen = measure(str(path), lambda: float(next(ticks)), limit_bytes)
        assert seconds == 1
        assert size_bytes == path.stat().st_size
        assert seen == {"checksum": 0, "walk": batches, "verify": batches}.get(name, records)


def test_measures_end_at_a_limit(tmp_path: Path) -> None:
    """A batch that begins at the limit is not among them."""
    path = tmp_path / f"{0:020}.log"
    _write(path, Recipe(format="v2"))
    third = batches_of(path)[2]
    records = sum(len(batch.records) for batch in batches_of(path)[:2])
    for name, measure in MEASURES.items():
        _, size_bytes, seen = measure(str(path), lambda: 0.0, third.position)
        assert (size_bytes, seen) == (third.position, {"checksum": 0, "walk": 2, "verify": 2}.get(name, records))


def _figures(*arguments: object) -> list[dict[str, object]]:
    result = CliRunner().invoke(cli, ["bench", "--output", "json", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    rows: list[dict[str, object]] = json.loads(result.stdout)
    return rows


def test_bench_of_a_file() -> None:
    path = DEMO / "orders-0" / f"{41:020}.log"
    batches = batches_of(path)
    records = sum(len(batch.records) for batch in batches)
    twins = ("compiled", "interpreted") if kernels.COMPILED else ("interpreted",)
    rows = _figures(path)
    assert [(row["measure"], row["kernels"]) for row in rows] == [
        ("checksum", "-"),
        *((name, twins[0]) for name in ("walk", "verify", "decode", "objects", "dump")),
        *((name, twin) for twin in twins for name in ("twin walk", "twin decode")),
    ]
    for row in rows:
        is_walk = row["measure"] in {"walk", "verify", "twin walk"}
        assert row["of"] == path.name
        assert row["seen"] == (0 if row["measure"] == "checksum" else len(batches) if is_walk else records)
        if row["measure"] != "twin decode":  # of what is inflated
            assert row["size_bytes"] == path.stat().st_size
        seconds = [row["min_seconds"], row["median_seconds"], row["max_seconds"]]
        assert seconds == sorted(seconds)  # type: ignore[type-var]
        assert row["turns"] in range(1, bench_module.TURNS + 1)
        median, unit = row["median_seconds"], "batches" if is_walk else "records"
        assert row["gigabytes_per_second"] == row["size_bytes"] / 1e9 / median  # type: ignore[operator]
        rate = row["seen"] / 1e6 / median if row["seen"] else None  # type: ignore[operator]
        assert row[f"million_{unit}_per_second"] == rate


def test_bench_of_seeded_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "LIMIT_BYTES", 40_000)
    monkeypatch.setattr(bench_module, "TURNS", 1)
    rows = _figures()
    assert [*dict.fromkeys(row["of"] for row in rows)] == [recipe.name for recipe, _ in bench_module.SEEDED]
    for recipe, _ in bench_module.SEEDED:
        pieces = list(seeded_log(recipe, 40_000))
        size_bytes = sum(len(piece.data) for piece in pieces)
        batches, records = (sum(each) for each in zip(*(piece[1:] for piece in pieces), strict=True))
        seen = {"checksum": 0, "walk": batches, "verify": batches}
        for row in rows:
            if row["of"] == recipe.name and not str(row["measure"]).startswith("twin"):
                assert (row["size_bytes"], row["seen"]) == (size_bytes, seen.get(str(row["measure"]), records))
