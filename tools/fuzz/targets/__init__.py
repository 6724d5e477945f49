"""What is fuzzed: each target takes any bytes and gives a plain value that both twins of the kernels must agree on.

A target accepts only a value, or one of our own errors (which becomes a value here). The target checks everything else
that is promised; `FailedError` names the promise that was broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from tools.fuzz.directories import mutated
from tools.fuzz.targets.columns import batch_checks, index_checks, record_checks, replays
from tools.fuzz.targets.dumping import dumped
from tools.fuzz.targets.files import checkpoints, control, indexes, names, properties, sniffing
from tools.fuzz.targets.logs import legacy, lines, records, v07, walk
from tools.fuzz.targets.own_topics import own_topics
from tools.fuzz.targets.payloads import codecs
from tools.fuzz.targets.repairing import repaired
from tools.fuzz.targets.verifying import verification
from tools.fuzz.targets.zookeeper import zookeeper_logs, zookeeper_nodes, zookeeper_records, zookeeper_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FAMILIES", "Family"]


class Family(NamedTuple):
    """One decoder family; inputs have at most `max_bytes` bytes, of which the first `switch_bytes` choose options.

    `mutate` changes an input that has a form to keep: bytes, largest size, a seed, and libFuzzer's mutations of a part.
    """

    target: Callable[[bytes], object]
    max_bytes: int
    switch_bytes: int
    mutate: Callable[[bytes, int, int, Callable[[bytes, int], bytes]], bytes] | None = None
    is_compiled: bool = kernels.COMPILED


def _one_of(*targets: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Several targets in one family; the first byte says which."""

    def run(data: bytes) -> object:
        return targets[data[0] % len(targets)](data[1:]) if data else None

    return run


FAMILIES: Final = {
    "walk": Family(walk, 1500, 2),
    "records": Family(records, 1000, 2),
    "legacy": Family(legacy, 1000, 2),
    "v07": Family(v07, 800, 2),
    "codecs": Family(codecs, 2000, 1),
    "indexes": Family(indexes, 800, 1),
    "texts": Family(_one_of(checkpoints, properties), 800, 2),
    "small": Family(_one_of(control, names, sniffing), 400, 2),
    "lines": Family(lines, 800, 2),
    "decoders": Family(own_topics, 1000, 2),
    "zookeeper": Family(_one_of(zookeeper_records, zookeeper_snapshots, zookeeper_logs, zookeeper_nodes), 1500, 2),
    "columns": Family(_one_of(batch_checks, record_checks, replays, index_checks), 600, 3),
    "dump": Family(dumped, 3000, 2, mutated),
    "verify": Family(verification, 3000, 2, mutated),
    "repair": Family(repaired, 3000, 2, mutated),
}
