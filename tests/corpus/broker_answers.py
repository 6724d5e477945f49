"""Offsets and times that real brokers answered for the partitions of the corpus."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


# What the live cluster said last, where in the sheet, and the copies of disks that it is true for.
SHEETS = (
    ("cluster_state.json", "offsets", ("logdir", "after")),
    ("state-final.json", "offsets", ("final/broker-*",)),
    ("case.json", "offsets_before_kill", ("base-unclean",)),
)


@dataclass(frozen=True, slots=True)
class BrokerAnswers:
    """What the live cluster said last of one partition, and the copy of its disk."""

    log_dir: str
    partition: str
    answers: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.log_dir}/{self.partition}"


def all_answers(corpus: Path) -> list[BrokerAnswers]:
    """The answers for every copy of a disk in the corpus that they are true for."""
    found = []
    for name, key, copies in SHEETS:
        for sheet in sorted(corpus.glob(f"modern/*/{name}")):
            said = json.loads(sheet.read_bytes()).get(key, {})
            log_dirs = [path for copy in copies for path in sorted(sheet.parent.glob(copy))]
            found += [
                BrokerAnswers(str(log_dir.relative_to(corpus)), partition, answers)
                for partition, answers in said.items()
                for log_dir in log_dirs
                if (log_dir / partition).is_dir()
            ]
    return found
