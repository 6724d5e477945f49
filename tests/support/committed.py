"""The disk on which groups have committed past the end of a log, and what Kafka's own tool said about it."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import NamedTuple

__all__ = ["CommittedPast", "committed_past_end"]

_ARCHIVE = Path(__file__).resolve().parents[2] / "fixtures" / "groups" / "committed-past-end-4.3.1.tgz"


class CommittedPast(NamedTuple):
    """The log directory, and (topic, partition, committed offset, log end offset, lag) by group."""

    log_dir: Path
    described: dict[str, tuple[str, int, int, int, int]]


def committed_past_end(place: Path) -> CommittedPast:
    """Unpack the disk; `describe.txt` in it is from `kafka-consumer-groups.sh --describe --all-groups` of 4.3.1."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(place, filter="data")
    case = place / "committed-past-end-4.3.1"
    described = {}
    for line in (case / "describe.txt").read_text().splitlines()[1:]:
        group, topic, partition, *offsets = line.split()[:6]
        committed, end, lag = map(int, offsets)
        described[group] = topic, int(partition), committed, end, lag
    return CommittedPast(case / "logdir", described)
