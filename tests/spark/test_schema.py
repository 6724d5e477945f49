"""One declaration of all columns: what Spark, Arrow and DDL say of a table is the same, and what the table says."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkalog_core.errors import SelectionError
from kafkalog_core.output.tables import TABLES
from kafkalog_core.spark.session.arrow import arrow_schema
from kafkalog_core.spark.session.schema import BATCHES, RECORDS, SPARK_TABLES, columns_of, ddl, struct_type

ALL = sorted(TABLES.values(), key=lambda table: table.name)


@pytest.mark.parametrize("table", [*ALL, *SPARK_TABLES.values()], ids=lambda table: table.name)
def test_spark_makes_the_same_arrow_schema(table):
    """Exactly: Spark refuses batches whose schema differs from the one that it makes itself."""
    schema = arrow_schema(table)
    assert schema.equals(to_arrow_schema(struct_type(table), timezone="UTC"))
    assert schema.names == [name for name in table.names if name != "type"]


def test_schema_of_records():
    schema = arrow_schema(RECORDS)
    assert schema.names[:6] == ["topic", "partition", "segment", "path", "position", "offset"]
    assert schema.field("partition").type == pa.int32()
    assert schema.field("producer_epoch").type == pa.int16()
    assert schema.field("timestamp_ms").type == pa.int64()
    assert schema.field("key").type == schema.field("value").type == pa.binary()
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    assert schema.field("headers").type == pa.list_(pa.field("element", header))
    assert all(field.nullable for field in schema)
    assert arrow_schema(BATCHES).field("crc_stored").type == pa.int64(), "Spark has no unsigned integers"


def test_ddl_says_the_same(spark):
    del spark  # Spark's parser needs a session
    for table in SPARK_TABLES.values():
        parsed = StructType.fromDDL(ddl(table))
        plain = StructType.fromJson({"type": "struct", "fields": []})
        for field in struct_type(table):
            plain = plain.add(field.name, field.dataType)
        assert parsed == plain


def test_columns_in_the_order_that_is_asked_for():
    assert [column.name for column in columns_of(RECORDS, ["value", "offset"])] == ["value", "offset"]
    assert arrow_schema(RECORDS, ["value", "offset"]).names == ["value", "offset"]
    assert ddl(RECORDS, ["value", "offset"]) == "`value` binary, `offset` bigint"
    assert struct_type(RECORDS, ["value", "offset"]).names == ["value", "offset"]
    assert columns_of(RECORDS, []) == ()


@pytest.mark.parametrize("names", [["ofset"], ["offset", "type"], ["offset", "key", "offset"]])
def test_columns_that_there_are_not(names):
    with pytest.raises(SelectionError, match=r"no column '\w+'; their columns are topic, partition|twice"):
        columns_of(RECORDS, names)


def test_tables_are_known_without_pyspark_and_pyarrow():
    code = "import sys; from kafkalog_core.spark.session.schema import ddl, RECORDS; ddl(RECORDS); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyspark", "pyarrow"} & {*loaded}
