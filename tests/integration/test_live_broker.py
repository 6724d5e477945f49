"""What clients write through `kafkalog serve --read-write`, a real broker goes on with; and the other way round."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.successor import AT_EVERY_START, Successor
from tests.support.live import LiveServer, committed, create_topics, group_types, modern_members, read_all, work
from tests.support.raw_clients import produced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPICS: Final = ["plain", "money"]
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
OURS: Final = "plain|money|__consumer_offsets|__transaction_state|stray"
COMPLAINT: Final = re.compile(rf"^(?!.*{AT_EVERY_START}).*(?:WARN|ERROR).*(?:{OURS}).*$", re.MULTILINE)


def state_of(address: str) -> tuple[Any, ...]:
    """What clients see: all records in both isolations, the groups and their offsets."""
    return (
        *(read_all(address, TOPICS, isolation) for isolation in ISOLATIONS),
        *(committed(address, group) for group in ("billing", "modern")),
        group_types(address),
    )


@pytest.fixture
def successor(libs: Path, tmp_path: Path) -> Iterator[Successor]:
    """A real broker over the directory `data`."""
    (tmp_path / "data").mkdir()
    broker = Successor(libs, tmp_path / "real", tmp_path / "data")
    yield broker
    broker.close()


@pytest.mark.parametrize(("seed", "is_crash"), [(1, False), (2, True), (3, False), (4, True)])
def test_a_real_broker_goes_on_with_what_was_written(successor: Successor, seed: int, is_crash: bool) -> None:
    server = LiveServer(successor.log_dir)
    with server:
        work(server.address, seed)
        with modern_members(server.address, TOPICS):
            before = state_of(server.address)
            if is_crash:
                server.kill()
            else:
                server.stop()
    successor.start()
    try:
        assert state_of(successor.bootstrap) == before
        assert not COMPLAINT.search(successor.output), COMPLAINT.findall(successor.output)
        create_topics(successor.bootstrap, ["later"])
        after = state_of(successor.bootstrap)
    finally:
        successor.stop()
    with server:  # and it goes on with what the real broker left
        assert state_of(server.address) == after
        assert read_all(server.address, ["later"], "read_committed") == {("later", 0): [], ("later", 1): []}
        server.stop()


def test_a_real_broker_goes_on_after_a_crash_in_the_creation_of_a_topic(successor: Successor) -> None:
    """The directories are empty: of a topic that the metadata log does not know yet, and of one that it knows."""
    with LiveServer(successor.log_dir) as server:
        create_topics(server.address, ["plain", "known"])
        produced(server.address, "plain", 0, 20)
        before = read_all(server.address, ["plain"], "read_committed")
        server.kill()
    for number in (0, 1):
        (successor.log_dir / f"unknown-{number}").mkdir()
        shutil.rmtree(successor.log_dir / f"known-{number}")
        (successor.log_dir / f"known-{number}").mkdir()
    successor.start()
    try:
        create_topics(successor.bootstrap, ["unknown"])
        for name in ("known", "unknown"):
            values = produced(successor.bootstrap, name, 0, 20)
            found = read_all(successor.bootstrap, [name], "read_committed")
            assert [value for _, _, value in found[name, 0]] == values
        assert read_all(successor.bootstrap, ["plain"], "read_committed") == before
    finally:
        successor.stop()
