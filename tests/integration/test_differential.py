"""Random logs through Kafka's own classes and through kafkalog: the same files come out.

`KAFKALOG_SEEDS=FIRST:COUNT` takes other seeds; `python -m tests.integration.differential_report` takes many, and keeps
what came of them in `differential.txt`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.differential import KINDS, MEMORY
from tests.integration.log_harness import running_harness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.log_harness import LogHarness

pytestmark = [pytest.mark.java, pytest.mark.slow]

FIRST, COUNT = map(int, os.environ.get("KAFKALOG_SEEDS", "0:30").split(":"))
SEEDS: Final = range(FIRST, FIRST + COUNT)


@pytest.fixture(scope="module")
def harness(libs: Path) -> Iterator[LogHarness]:
    """One Java process for all of these tests."""
    with running_harness(libs) as harness:
        yield harness


@pytest.fixture
def work_dir() -> Iterator[Path]:
    """A directory for thousands of small files that nobody needs to keep."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as path:
        yield Path(path)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_kafka_and_kafkalog_agree(harness: LogHarness, work_dir: Path, kind: str, seed: int) -> None:
    draw, compare = KINDS[kind]
    verdict = compare(harness, draw(seed), work_dir)
    assert verdict.differences == []
