"""The groups that a client lists from a broker, and what it is told of their committed offsets, by kafka-python.

    python -m tests.integration.listing BOOTSTRAP [GROUP...]

It is a process of its own: the client warns when it is imported, and in tests warnings are errors.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

__all__ = ["Listing", "listed"]


class Listing(NamedTuple):
    """The groups, and the answer for each group that was asked about: `offset N`, `no offset`, or an error."""

    groups: frozenset[str]
    answers: dict[str, str]


def listed(bootstrap: str, *groups: str) -> Listing:
    """List the groups of a broker, and ask for the offset of `plain-0` of some."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.integration.listing", bootstrap, *groups]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    return Listing(frozenset(found["groups"]), found["answers"])


def _main(bootstrap: str, *groups: str) -> None:
    from kafka import KafkaAdminClient, TopicPartition  # noqa: PLC0415 - only in the process of its own
    from kafka.errors import KafkaError  # noqa: PLC0415

    place = TopicPartition("plain", 0)
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    answers = {}
    try:
        for group in groups:
            try:
                offset = client.list_group_offsets({group: [place]})[group][place].offset
                answers[group] = "no offset" if offset < 0 else f"offset {offset}"
            except KafkaError as error:
                answers[group] = type(error).__name__
        found = [each["group_id"] for each in client.list_groups()]
    finally:
        client.close()
    sys.stdout.write(json.dumps({"groups": found, "answers": answers}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
