"""`kafkalog spark sql`: queries over the tables, their rows in every form, and nothing that changes anything."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.spark.source.sql import views_in
from tests.support.corpus.archives import FIXTURES
from tests.support.logs import dump_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DEMO = FIXTURES / "demo"


def _run(*arguments: str, output: str = "ndjson") -> Any:
    return CliRunner().invoke(cli, ["spark", "sql", "--output", output, *arguments], catch_exceptions=False)


def _rows(*arguments: str) -> list[dict[str, Any]]:
    result = _run(*arguments)
    assert result.exit_code == 0, result.stderr
    *rows, summary = map(json.loads, result.stdout.splitlines())
    assert summary["type"] == "summary"
    assert summary["rows"] == len(rows)
    assert {row.pop("type") for row in rows} <= {"row"}
    return rows


def test_counts_are_those_of_a_dump(spark: SparkSession) -> None:
    wanted: dict[str, int] = {}
    for row in dump_rows(DEMO, level="records"):
        if row["type"] == "record":
            wanted[row["topic"]] = wanted.get(row["topic"], 0) + 1
    rows = _rows("SELECT topic, count(*) AS records FROM records GROUP BY topic", str(DEMO))
    assert {row["topic"]: row["records"] for row in rows} == wanted


def test_tables_are_joined(spark: SparkSession) -> None:
    text = (
        "SELECT b.topic, sum(b.record_count) AS counted, count(DISTINCT s.path) AS files\n"
        "FROM batches b JOIN segments s ON b.path = s.path -- records are in a comment only\n"
        "GROUP BY b.topic ORDER BY b.topic;"
    )
    rows = _rows(text, "--option", "topics=orders,payments", str(DEMO))
    batches = [row for row in dump_rows(DEMO, level="batches") if row["topic"] in {"orders", "payments"}]
    assert [(row["topic"], row["counted"]) for row in rows] == [
        (topic, sum(row["record_count"] for row in batches if row["topic"] == topic))
        for topic in ("orders", "payments")
    ]


def test_values_of_every_kind(spark: SparkSession) -> None:
    text = (
        "SELECT b, b, CAST(x'ff00' AS binary) AS raw, CAST('text' AS binary) AS `type`, array(1, NULL) AS list, "
        "map('k', x'41') AS map, named_struct('key', 'h', 'value', x'ff') AS header, CAST('NaN' AS double) AS nan, "
        "1.5BD AS exact, timestamp_millis(1700000000001) AS at, DATE '2026-01-31' AS day, true AS yes, "
        "NULL AS nothing, TIMESTAMP_NTZ '2026-01-31 00:00:00' AS plain FROM VALUES (7) AS t(b)"
    )
    (row,) = _rows(text, str(DEMO))
    assert row == {
        "b": 7,
        "b_2": 7,
        "raw_b64": "/wA=",
        "type_2": "text",
        "list": [1, None],
        "map": {"k": "A"},
        "header": {"key": "h", "value_b64": "/w=="},
        "nan": "NaN",
        "exact": "1.5",
        "at": "2023-11-14T22:13:20.001000Z",
        "day": "2026-01-31",
        "yes": True,
        "nothing": None,
        "plain": "2026-01-31T00:00:00",
    }


def test_other_forms(spark: SparkSession) -> None:
    text = "SELECT key, offset FROM records WHERE topic = 'orders' ORDER BY partition, offset LIMIT 3"
    table = _run(text, str(DEMO), output="table").stdout.splitlines()
    assert table[0].split() == ["key", "offset"]
    assert table[-1] == "3 rows"
    result = _run(text, str(DEMO), "--bytes", "hex", output="csv")
    header, *rows = csv.reader(io.StringIO(result.stdout))
    assert header == ["type", "key_hex", "offset"]
    assert len(rows) == 3
    assert json.loads(_run(text, str(DEMO), output="json").stdout)[-1]["rows"] == 3


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["SELECT nothing FROM batches", "{demo}"], 3, "nothing"),
        (["SELEKT 1", "{demo}"], 3, "SELEKT"),
        (["SELECT * FROM nowhere", "{demo}"], 3, "nowhere"),
        (["SELECT * FROM partitions", "{demo}"], 3, "name a catalog"),
        (["SELECT * FROM records", "--catalog", "{out}/none"], 3, "name log directories or an export"),
        (["SELECT * FROM batches", "--catalog", "{out}/none"], 3, "none"),
        (["SELECT * FROM records", "--export", "{out}/none"], 3, "none"),
        (["SELECT * FROM batches"], 2, "--catalog DIR"),
        (["SELECT * FROM batches", "{out}/none"], 3, "none"),
        (["SELECT * FROM batches", "s3a://bucket/logs"], 3, "s3a"),
        (["SELECT * FROM batches", "--option", "topics", "{demo}"], 2, "NAME=VALUE"),
        (["SELECT * FROM batches", "--option", "inferSchema=true", "{demo}"], 3, "inferSchema"),
        (["SELECT * FROM batches", "--option", "splitBytes=x", "{demo}"], 3, "splitBytes"),
        (["INSERT OVERWRITE DIRECTORY '{out}/new' USING parquet SELECT * FROM batches", "{demo}"], 3, "is not a query"),
        (
            ["WITH b AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{out}/new' USING parquet SELECT * FROM b", "{demo}"],
            3,
            "is not a query",
        ),
        (
            ["CREATE TABLE batches_too USING parquet LOCATION '{out}/new' AS SELECT * FROM batches", "{demo}"],
            3,
            "is not a query",
        ),
        (["DROP VIEW batches", "{demo}"], 3, "is not a query"),
        (["", "{demo}"], 3, ""),
    ],
)
def test_what_cannot_be_is_one_sentence(
    spark: SparkSession, tmp_path: Path, arguments: list[str], status: int, words: str
) -> None:
    result = _run(*(text.format(demo=DEMO, out=tmp_path) for text in arguments))
    assert result.exit_code == status
    assert words in result.stderr
    assert status == 2 or len(result.stderr.splitlines()) == 1
    assert not any(word in result.stderr for word in ("Traceback", "java.", "org.apache", "Py4J"))
    assert list(tmp_path.iterdir()) == []


def test_show_and_describe(spark: SparkSession) -> None:
    assert {"records", "batches", "segments", "findings"} <= {row["viewName"] for row in _rows("SHOW VIEWS", str(DEMO))}
    columns = {row["col_name"]: row["comment"] for row in _rows("DESCRIBE batches", str(DEMO))}
    assert columns["leader_epoch"] == "-1: none"


def test_names_in_a_statement() -> None:
    assert views_in("select * from Records /* batches */ join segments") == ["records", "segments"]
    assert views_in("SELECT '--' , offset FROM records") == ["records"]
    assert views_in("-- findings\nSELECT 1") == []
    assert "partitions" in views_in("  show views")
