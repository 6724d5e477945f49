"""What a person damaged in stages of the old cases, as each case's own sheet says: a step lists it by topic."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkalog_core.structs import Struct, replace
from tests.support.corpus import archives

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STEP = re.compile(r"(?:simulated )?damage(?: by the generator)?: (\{.*\})")
_STAGE = re.compile(r"(?<!before the )damage (?:the|by the) generator")
_CUT = re.compile(r"last (\d+) bytes of (\S+) cut")
_ZEROED = re.compile(r"last (\d+) bytes of (\S+) zeroed")
_CHANGED = re.compile(r"byte at position (\d+) of (\S+) xor 0x[0-9a-f]+")
_OVERWRITTEN = re.compile(r"first \d+ entries of (\S+) overwritten with .*")
_REMOVED = "all index files removed"
_FATAL = "Found log file with no corresponding index file"
"""What brokers of 0.8.0 say that refuse to start."""


class Hurt(Struct, frozen=True):
    """One damaged place: `kind` is cut, zeroed, changed, overwritten or removed, `size` a number of bytes or a byte.

    `is_fatal`: the broker of the case refused to start for it.
    """

    kind: str
    partition: str
    file: str = ""
    size: int = 0
    is_fatal: bool = False

    def byte(self, log_dir: Path) -> int:
        """A byte of the file that is damaged."""
        if self.kind == "zeroed":
            return (log_dir / self.partition / self.file).stat().st_size - self.size
        return self.size if self.kind == "changed" else 0

    def is_left(self, before: Path, after: Path) -> bool:
        """Whether a later stage has the damaged bytes still: its file begins as the damaged one, up to the place."""
        if self.kind != "changed":
            return False
        files = [stage / self.partition / self.file for stage in (before, after)]
        heads = [file.read_bytes()[: self.size + 1] for file in files if file.exists()]
        return len(heads) == 2 and heads[0] == heads[1]


@lru_cache(maxsize=1)
def hurts() -> dict[str, tuple[Hurt, ...]]:
    """What was damaged, by log directory in the corpus tree."""
    found = {}
    for path, text in archives.contents(archives.source()).texts.items():
        sheet = json.loads(text)
        if not path.endswith("/case.json") or "stages" not in sheet:
            continue
        damage = tuple(_of_case(sheet))
        for stage in sheet["stages"]:
            if damage and _STAGE.search(stage["comment"]):
                found[f"{path.removesuffix('/case.json')}/{stage['stage']}/logdir"] = damage
    return found


def _of_case(sheet: dict[str, Any]) -> Iterator[Hurt]:
    is_fatal = any(_FATAL in note for note in sheet.get("notes", ()))
    for step in sheet["steps"]:
        match = _STEP.fullmatch(step)
        for place, words in json.loads(match[1]).items() if match else ():
            hurt = _hurt(place if re.fullmatch(r".*-\d+", place) else f"{place}-0", words)
            yield replace(hurt, is_fatal=is_fatal and hurt.kind == "removed")


def _hurt(partition: str, words: str) -> Hurt:
    for kind, pattern in (("cut", _CUT), ("zeroed", _ZEROED), ("changed", _CHANGED)):
        if match := pattern.fullmatch(words):
            return Hurt(kind, partition, match[2], int(match[1]))
    if match := _OVERWRITTEN.fullmatch(words):
        return Hurt("overwritten", partition, match[1])
    if words != _REMOVED:
        message = f"what is {words!r}?"
        raise ValueError(message)
    return Hurt("removed", partition)
