"""Random logs through Kafka's own classes and through kafkalog: the same files come out.

`KAFKALOG_SEEDS=FIRST:COUNT` takes other seeds; `python -m tests.integration.differential_report` takes many, and keeps
what came of them in `differential.txt`; of starts in `starts.txt` (each `--kind start...`, `--count 300`), of all kinds
of faults in `faults.txt`, of recoveries in `recoveries.txt`. What those once showed are cases in
`tests/kafka/start/test_once_different.py` and `tests/ops/recover/test_once_wrong.py`.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.kinds import KINDS
from tests.integration.log_harness import running_harness
from tests.support.jars import MissingError
from tests.support.scratch import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.log_harness import LogHarness

pytestmark = [pytest.mark.java, pytest.mark.slow]

FIRST, COUNT = map(int, os.environ.get("KAFKALOG_SEEDS", "0:30").split(":"))
SEEDS: Final = range(FIRST, FIRST + COUNT)
ONCE_DIFFERENT: Final = (31, 57, 486, 505, 1147, 1261, 1341, 5123, 20074, 20078)
"""Seeds of starts that were not foreseen: compressed messages, overlaps, replacements, transactions, splits."""
NOT_SERVED: Final = (470020, 470062)
"""Seeds of recover-4.4: compressed messages that do not open, at which fetches of others failed."""


@pytest.fixture(scope="module")
def harnesses() -> Iterator[Callable[[str], LogHarness]]:
    """One Java process a release for all of these tests."""
    with ExitStack() as stack:

        @cache
        def start(version: str) -> LogHarness:
            return stack.enter_context(running_harness(version))

        yield start


@pytest.fixture
def work_dir() -> Iterator[Path]:
    """A directory for thousands of small files that nobody needs to keep."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as path:
        yield Path(path)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *((name, seed) for name, kind in KINDS.items() for seed in SEEDS[:: kind.every]),
        *((name, seed) for name in KINDS if name.startswith("start") for seed in ONCE_DIFFERENT),
        *(("recover-4.4", seed) for seed in NOT_SERVED),
    ],
)
def test_kafka_and_kafkalog_agree(harnesses: Callable[[str], LogHarness], work_dir: Path, name: str, seed: int) -> None:
    kind = KINDS[name]
    try:
        harness = harnesses(kind.version)
    except MissingError as missing:
        pytest.skip(str(missing))
    assert kind.compare(harness, kind.draw(seed), work_dir).differences == []
