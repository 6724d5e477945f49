"""Members of groups, each in a process of its own, that join, leave, are killed, or do not fit to the others."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.serve.groups.group_member import SESSION_SECONDS, Member
from tests.support.live import LiveServer, create_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

pytestmark = pytest.mark.slow

ASSIGNORS = ("range", "cooperative-sticky")
PARTITIONS = 6
PATIENCE_SECONDS = 30
TAKEN_OVER_SECONDS = SESSION_SECONDS + 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A live broker with the topic `shared`."""
    with LiveServer(tmp_path_factory.mktemp("live") / "data") as found:
        create_topics(found.address, ["shared"], PARTITIONS)
        yield found
        found.stop()


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    until_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until_s, what
        time.sleep(0.05)


def share_evenly(groups: Sequence[Sequence[Member]]) -> bool:
    """Whether the members of each group have all partitions, each as many as the others."""
    return all(
        sorted(number for each in members for number in each.share) == list(range(PARTITIONS))
        and len({len(each.share) for each in members}) == 1
        for members in groups
    )


def test_partitions_move_to_the_members_that_are_left(server: LiveServer) -> None:
    """One group for each assignor, at the same time: the session of a member that was killed takes seconds to end."""
    with ExitStack() as stack:
        groups = [
            [stack.enter_context(Member(server.address, name, "shared", name)) for _ in range(3)] for name in ASSIGNORS
        ]
        wait_for(lambda: share_evenly(groups), PATIENCE_SECONDS, "three members share")
        for members in groups:
            members.pop().leave()
        wait_for(lambda: share_evenly(groups), SESSION_SECONDS - 1, "of a member that left two take over at once")
        start_s = time.monotonic()
        for members in groups:
            members.pop().kill()
        wait_for(lambda: share_evenly(groups), TAKEN_OVER_SECONDS, "one has all when the session has ended")
        assert time.monotonic() - start_s > SESSION_SECONDS / 2, "a closed connection is not the end of a session"


def test_a_member_without_a_common_assignor_is_refused_and_harms_nobody(server: LiveServer) -> None:
    with (
        Member(server.address, "mixed", "shared", "range") as first,
        ExitStack() as stack,
    ):
        wait_for(lambda: share_evenly([[first]]), PATIENCE_SECONDS, "one has all")
        other = stack.enter_context(Member(server.address, "mixed", "shared", "cooperative-sticky"))
        wait_for(lambda: bool(other.errors), PATIENCE_SECONDS, "the other one is refused")
        assert set(other.errors) == {"INCONSISTENT_GROUP_PROTOCOL"}
        assert (len(first.share), first.errors) == (PARTITIONS, [])
