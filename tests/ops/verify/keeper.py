"""A keeper of state lines in memory, and verdicts of runs with one."""

from __future__ import annotations

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.resume import place_of

NOW_MS = 1_796_000_000_000


class Kept:
    """A keeper whose lines are in memory; every one of them is right."""

    def __init__(self):
        self.lines = {}
        self.skipped_bytes = 0
        self.written = []

    def lines_of(self, partition):
        return list(self.lines.get(partition, ()))

    def keep(self, partition, index, line):
        assert place_of(line) == (partition, index)
        self.lines.setdefault(partition, [])[index:] = [line]
        self.written.append(index)

    def skipped(self, size_bytes):
        self.skipped_bytes += size_bytes

    def run(self, *paths, **options):
        """The verdicts, how many bytes were not read, and which segments were."""
        self.skipped_bytes, self.written = 0, []
        verdicts = check(*paths, keeper=self, **options)
        return verdicts, self.skipped_bytes, self.written


def check(*paths, keeper=None, **options):
    """The verdicts of a run."""
    options = {"now_ms": NOW_MS} | options
    request = VerifyRequest(targets=tuple(resolve([str(path) for path in paths])), **options)
    return list(verify(request, keeper=keeper))
