"""Kafka's own tools, of releases from 0.8.2 to 4.3.1, read the demo's disk from `kafkalog serve`."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.tool_uses import DEAD, FLOOR, Use
from tests.support import serving
from tests.support.log_dirs import tree_hash
from tests.support.serving import serving_the_floor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.tool_runner import ToolRunner

pytestmark = [pytest.mark.java, pytest.mark.slow]

DEMO: Final = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
REFUSED_SECONDS: Final = 30  # a producer that tries again does so for 60 s or more


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a served demo is found; nothing on its disk has changed when all tools are done."""
    before = tree_hash(DEMO)
    command = [sys.executable, "-m", "kafkalog_cli", "serve", "--listen", "127.0.0.1:0", str(DEMO)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            yield line.split()[-1]
        finally:
            server.terminate()
            assert server.wait(20) == 0
    assert tree_hash(DEMO) == before


@pytest.fixture(scope="module")
def floor() -> Iterator[str]:
    """The same, by a broker that knows old versions alone."""
    with serving_the_floor(DEMO) as broker:
        yield serving.address(broker)


def name_of(use: Use) -> str:
    """A readable test id."""
    words = use.arguments.replace("--bootstrap-server {}", "").replace("--broker-list {}", "").split()
    return "-".join([use.version, use.program.rpartition(".")[2], *words])


def run(use: Use, tools: ToolRunner, address: str) -> None:
    start_s = time.monotonic()
    done = tools.run(use.version, use.program, use.arguments.format(address), use.stdin)
    lasted_s = time.monotonic() - start_s
    missing = [pattern for pattern in use.wanted if not re.search(pattern, done.out + done.err)]
    assert not missing, done
    assert done.status == use.status, done
    if "ConsoleProducer" in use.program:
        assert lasted_s < REFUSED_SECONDS, "a producer is refused at once"


@pytest.mark.parametrize("use", DEAD, ids=name_of)
def test_a_tool_reads_a_dead_disk(use: Use, tools: ToolRunner, address: str) -> None:
    run(use, tools, address)


@pytest.mark.parametrize("use", FLOOR, ids=name_of)
def test_the_newest_tools_read_from_a_broker_that_knows_old_versions_alone(
    use: Use, tools: ToolRunner, floor: str
) -> None:
    run(use, tools, floor)
