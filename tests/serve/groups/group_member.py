"""A member of a group in its own process: `python -m tests.serve.groups.group_member SERVER GROUP TOPIC ASSIGNOR`.

It writes a line with the partitions that it has whenever they change, and leaves the group when stdin ends.
"""

from __future__ import annotations

import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer

SESSION_SECONDS = 6


def main(server: str, group: str, topic: str, assignor: str) -> None:
    """Poll until stdin ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": server,
            "group.id": group,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": SESSION_SECONDS * 1000,
            "heartbeat.interval.ms": 300,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    before: list[int] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            print(message.error().name(), flush=True)  # noqa: T201 - the test reads it
        now = sorted(each.partition for each in consumer.assignment())
        if now != before:
            print(*now, flush=True)  # noqa: T201 - the test reads it
            before = now
    consumer.close()


class Member:
    """Such a process; a context manager that ends it."""

    def __init__(self, server: str, group: str, topic: str, assignor: str) -> None:
        command = [sys.executable, "-m", "tests.serve.groups.group_member", server, group, topic, assignor]
        root = Path(__file__).resolve().parents[3]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        self.share: frozenset[int] = frozenset()
        self.errors: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if all(map(str.isdecimal, words)):
                self.share = frozenset(map(int, words))
            else:
                self.errors.append(line.strip())

    def leave(self) -> None:
        """Close the consumer."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(20) == 0

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
