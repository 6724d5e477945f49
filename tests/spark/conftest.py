"""What the tests on Spark share: one session, as each costs seconds. All tests in this directory are marked `spark`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.spark.session.session import SessionSettings, spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.spark.forking import Forks

HERE = Path(__file__).parent
HAS_LAKE, HAS_ENGINES = (
    all(importlib.util.find_spec(name) is not None for name in names)
    for names in (("pyspark", "pyarrow", "deltalake"), ("polars", "duckdb"))
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Where the extras are not installed, these tests are not there: CI has a leg where they are."""
    if not collection_path.is_relative_to(HERE):
        return None
    return True if not HAS_LAKE or (collection_path.name == "test_engines.py" and not HAS_ENGINES) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this directory."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores of this machine, and with as many partitions after a shuffle; Spark's own are 200."""
    confs = {"spark.sql.shuffle.partitions": "2"}
    with spark_session(SessionSettings(master="local[2]", confs=confs, is_light=True)) as session:
        yield session


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """What runs exports in processes of their own."""
    from tests.spark.forking import Forks  # noqa: PLC0415 -- it needs the extras

    running = Forks()
    yield running
    running.close()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Two partitions of 100 records each."""
    from tests.spark.exporting import batches, write_log  # noqa: PLC0415 -- they need the extras

    for name in ("t-0", "u-0"):
        write_log(tmp_path / "disk" / name, 0, batches(0, 50))
        write_log(tmp_path / "disk" / name, 50, batches(50, 100))
    return tmp_path / "disk"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where an output may be, which is not there yet."""
    return tmp_path / "out"
