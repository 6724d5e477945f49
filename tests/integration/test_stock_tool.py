"""Batch rows agree with the output of the broker's own dump tool, run on a copy: it may write to what it reads."""

from __future__ import annotations

import asyncio
import gzip
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.records import dump
from tests.support import jars
from tests.support.corpus import goldens

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.broker import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_batches_are_those_of_the_stock_tool(broker: Broker, libs: Path, tmp_path: Path) -> None:
    topic = "compared"

    async def write() -> None:
        await clients.create_topic(broker, topic, {"internal.segment.bytes": "30000"})
        await clients.send_everything(broker, random.Random(topic), topic, 60)

    asyncio.run(write())
    copy = tmp_path / f"{topic}-0"
    shutil.copytree(broker.partition_dir(topic), copy)
    logs = sorted(copy.glob("*.log"))
    sections = goldens.sections(_run_tool(libs, logs, tmp_path / "tool.txt.gz"))
    assert [section.file for section in sections] == [log.name for log in logs]
    for section in sections:
        expected = section.batches()
        rows = dump("--batches", copy / section.file).of_type("batch")
        assert expected
        assert [{name: row[name] for name in expected[0]} for row in rows] == expected


def _run_tool(libs: Path, logs: list[Path], output: Path) -> Path:
    tool = ["java", "-Xmx256m", *jars.QUICK, "-cp", f"{libs}/*", "org.apache.kafka.tools.DumpLogSegments"]
    files = ",".join(map(str, logs))
    done = subprocess.run([*tool, "--files", files], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    output.write_bytes(gzip.compress(done.stdout.encode()))
    return output
