"""When offsets expire, by the state of the group and the release."""

from __future__ import annotations

import pytest

from kafkalog_core.kafka.rules.offset_expiry import expiry_ms
from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.topics.group_offsets import CommittedOffset
from kafkalog_core.topics.group_states import DescribedGroup, DescribedMember

READER = DescribedMember(member_id="m", instance_id=None, client_id="c", host="h", topics=frozenset({"t"}))
PATTERN = DescribedMember(member_id="m", instance_id=None, client_id="c", host="h", topics=None)
SIMPLE = DescribedGroup(name="g", type="classic", state="Empty")
EMPTY = DescribedGroup(name="g", type="classic", state="Empty", protocol_type="consumer", state_ms=500)
EMPTY_OF_UNKNOWN_TIME = DescribedGroup(name="g", type="classic", state="Empty", protocol_type="consumer")
STABLE = DescribedGroup(name="g", type="classic", state="Stable", protocol_type="consumer", members=(READER,))
CONNECT = DescribedGroup(name="g", type="classic", state="Stable", protocol_type="connect", members=(PATTERN,))
CONSUMER = DescribedGroup(name="g", type="consumer", state="Stable", protocol_type="consumer", members=(READER,))
BY_PATTERN = DescribedGroup(name="g", type="consumer", state="Stable", protocol_type="consumer", members=(PATTERN,))
LEFT = DescribedGroup(name="g", type="consumer", state="Empty", protocol_type="consumer")


@pytest.mark.parametrize(
    ("group", "topic", "release", "expected"),
    [
        (SIMPLE, "t", (4, 4), 1100),
        (EMPTY, "t", (4, 4), 1500),
        (EMPTY_OF_UNKNOWN_TIME, "t", (4, 4), 1100),
        (STABLE, "t", (4, 4), None),
        (STABLE, "other", (4, 4), 1100),
        (STABLE, "other", (2, 4), 1100),
        (STABLE, "other", (2, 3), None),
        (CONNECT, "t", (4, 4), None),
        (CONSUMER, "t", (4, 4), None),
        (CONSUMER, "other", (4, 4), 1100),
        (BY_PATTERN, "other", (4, 4), None),
        (LEFT, "t", (4, 4), 1100),
        (STABLE, "t", (2, 0), 1100),
        (EMPTY, "t", (2, 0), 1100),
        (EMPTY, "t", (2, 1), 1500),
    ],
)
def test_the_state_decides(group: DescribedGroup, topic: str, release: tuple[int, int], expected: int | None) -> None:
    offset = CommittedOffset(3, commit_timestamp_ms=100)
    assert expiry_ms(group, topic, offset, retention_ms=1000, release=Release(*release)) == expected


def test_a_time_in_the_record_counts_where_the_state_lets_it_expire() -> None:
    offset = CommittedOffset(3, commit_timestamp_ms=100, expires_ms=7)
    assert expiry_ms(EMPTY, "t", offset, retention_ms=1000, release=Release(4, 4)) == 7
    assert expiry_ms(STABLE, "t", offset, retention_ms=1000, release=Release(4, 4)) is None
    assert expiry_ms(STABLE, "t", offset, retention_ms=1000, release=Release(1, 1)) == 7
