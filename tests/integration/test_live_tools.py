"""Kafka's own tools and clients, of releases from 0.8.2 to 4.3.1, at work on `kafkalog serve --read-write`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.integration.tool_uses import CONSUMERS, LIVE, PRODUCERS, SENT
from tests.support.live import LiveServer, read_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.integration.tool_runner import ToolRunner
    from tests.integration.tool_uses import Use

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A live broker that the tests of this module share; each has topics of its own."""
    with LiveServer(tmp_path_factory.mktemp("live") / "data") as found:
        yield found
        found.stop()


def follow(uses: Iterable[Use], tools: ToolRunner, address: str, file: Path) -> None:
    """Run one tool after the other."""
    for use in uses:
        done = tools.run(use.version, use.program, use.arguments.format(address, file=file), use.stdin)
        assert done.status == use.status, (use, done)
        missing = [pattern for pattern in use.wanted if not re.search(pattern, done.out + done.err)]
        assert not missing, (use, done)


@pytest.mark.parametrize("version", LIVE)
def test_the_tools_of_a_release_create_use_and_change(
    version: str, tools: ToolRunner, server: LiveServer, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "new", "partition": 0, "offset": 3}]}))
    follow(LIVE[version], tools, server.address, file)


def test_what_producers_of_all_releases_send_consumers_of_all_releases_read(
    tools: ToolRunner, server: LiveServer, tmp_path: Path
) -> None:
    follow(PRODUCERS, tools, server.address, tmp_path)
    values = [value for rows in read_all(server.address, ["sent"], "read_committed").values() for _, _, value in rows]
    assert sorted(values) == sorted(value.encode() for value in SENT), "each once"
    follow(CONSUMERS, tools, server.address, tmp_path)
