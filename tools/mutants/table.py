"""The table of survivors: `docs/mutants.txt`, a word to each mutant that no test is to kill.

An entry survives changes elsewhere in its module: it names the module, the function, the text before and after.

    kafkalog_core/storage/changing/journal.py  Journal.saved
      - the line as it is
      + the line as the mutant has it
      equivalent: why nothing that a test may look at differs

The word is `equivalent` where behaviour is the same, `elsewhere` where tests find it that no run here includes, `left`
where it differs and no test is worth its cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Identity = tuple[str, str, str, str]

WORDS: Final = ("equivalent", "elsewhere", "left")


def read(path: Path) -> dict[Identity, str]:
    """Return the words by module, function, text before and after. Raises ValueError for an entry that is none."""
    known: dict[Identity, str] = {}
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    for number in range(0, len(lines), 4):
        place, old, new, word = (*lines[number : number + 4], "", "", "")[:4]
        module, _, function = place.partition("  ")
        if not (old.startswith("  - ") and new.startswith("  + ") and word.strip().partition(":")[0] in WORDS):
            raise ValueError(f"{path}: no entry: {place}")
        known[module, function, old[4:], new[4:]] = word.strip()
    return known


def entry(identity: Identity, word: str) -> str:
    """Return the lines of an entry."""
    module, function, old, new = identity
    return f"{module}  {function}\n  - {old}\n  + {new}\n  {word}\n"


def stale(known: Mapping[Identity, str], root: Path) -> list[Identity]:
    """Return the entries whose text is no longer in their module."""
    gone = []
    for identity in known:
        path = root / identity[0]
        text = " ".join(path.read_text(encoding="utf-8").split()) if path.exists() else ""
        if " ".join(identity[2].split()) not in text:
            gone.append(identity)
    return gone
