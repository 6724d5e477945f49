"""The archive for executors: what is in it runs in a Python that has nothing else."""

from __future__ import annotations

import io
import subprocess
import tarfile
import venv
from pathlib import Path

import pytest

from kafkalog_core import kernels
from kafkalog_core.spark.session import workers
from kafkalog_core.spark.session.errors import SparkError
from tests.support.corpus.archives import FIXTURES

PROGRAM = """
import sys
from kafkalog_core import kernels
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.arrow import ArrowRows
from kafkalog_core.spark.lake.parquet import ParquetFile
from kafkalog_core.spark.session.schema import RECORDS
request = DumpRequest(targets=tuple(resolve([sys.argv[1]], Selection())), level="records")
with ParquetFile(Store(sys.argv[2]), "rows.parquet", RECORDS) as file:
    rows = file.gatherer()
    for chunk in dump(request, Report()):
        for batch in rows.add(chunk):
            file.write(batch)
    for batch in rows.flush():
        file.write(batch)
    print(kernels.COMPILED, file.close().rows)
"""


def test_all_that_a_task_needs_is_in_it(tmp_path):
    told = io.BytesIO()
    packed = workers.write_archive(told, with_pyarrow=True)
    assert packed.size_bytes == len(told.getvalue())
    assert packed.compiled == kernels.COMPILED
    told.seek(0)
    with tarfile.open(fileobj=told) as archive:
        archive.extractall(tmp_path / "kafkalog", filter="data")
        assert len(archive.getnames()) == packed.files
    venv.create(tmp_path / "bare", symlinks=True)
    done = subprocess.run(
        [
            tmp_path / "bare" / "bin" / "python",
            "-c",
            PROGRAM,
            FIXTURES / "demo" / "orders-0",
            tmp_path / "rows",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "kafkalog")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", f"{kernels.COMPILED} 92\n")


def test_pyarrow_may_be_left_out():
    told = io.BytesIO()
    packed = workers.write_archive(told, with_pyarrow=False)
    assert "pyarrow" not in packed.distributions
    told.seek(0)
    with tarfile.open(fileobj=told) as archive:
        names = archive.getnames()
    assert {
        "kafkalog_core/spark/session/workers.py",
        "kafkalog_core/spark/session/launcher/bin/java",
        "pyspark_kafkalog.py",
    } <= set(names)
    tops = {Path(name).parts[0] for name in names}
    assert {"kafkalog_core", "lz4", "snappy", "cramjam", "crc32c", "zstandard"} <= tops
    assert not tops & {"pyarrow", "kafkalog_cli", "click", "tests"}
    assert not [name for name in names if "__pycache__" in name]


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(workers, "_REQUIRED", ("nothing-like-it",))
    with pytest.raises(SparkError, match="nothing-like-it is not installed here, and executors need it"):
        workers.write_archive(io.BytesIO(), with_pyarrow=False)
