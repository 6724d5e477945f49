"""The steps of a lookup, and the damage and the unusable indexes that it met: what `--explain` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from kafkalog_core.storage.scan import Damage

__all__ = ["FileDamage", "IndexDoubt", "LookupStep", "Trace"]


class LookupStep(Struct, frozen=True):
    """One step: a stable word, one plain sentence, and the figures in it by name."""

    step: str
    text: str
    figures: dict[str, object]

    def row(self) -> dict[str, object]:
        """Return it as a JSON object of a row."""
        return {"step": self.step, "text": self.text, **self.figures}


class IndexDoubt(Struct, frozen=True):
    """An index that was not used as it is: its path (of a missing one the log's), and the problem as a clause."""

    path: str
    problem: str
    is_missing: bool = False


class FileDamage(NamedTuple):
    """Damage that a scan met in a log file."""

    path: str
    damage: Damage


class Trace(Struct):
    """Filled by one lookup. `index_pages` and `scanned_bytes` are its cost.

    `has_zero_tail`: an index that was searched ends with zeros, which a broker that opens it again takes for entries.
    `has_times`: a timestamp was seen while one was looked for. `has_overlap`: a segment reaches into the next one.
    """

    steps: list[LookupStep] = field(default_factory=list)
    doubts: list[IndexDoubt] = field(default_factory=list)
    damages: list[FileDamage] = field(default_factory=list)
    index_pages: int = 0
    has_zero_tail: bool = False
    has_times: bool = False
    has_overlap: bool = False
    scanned_bytes: int = 0
    scanned_files: set[str] = field(default_factory=set)
    _places: set[tuple[str, int]] = field(default_factory=set)
    _doubted: set[IndexDoubt] = field(default_factory=set)

    def take(self, other: Trace) -> None:
        """Add everything that another lookup noted, which turned out to be a part of this one."""
        self.steps += other.steps
        for doubt in other.doubts:
            self._is_new_doubt(doubt)
        for met in other.damages:
            self._is_new(met)
        self.index_pages += other.index_pages
        self.scanned_bytes += other.scanned_bytes
        self.scanned_files |= other.scanned_files
        self.has_zero_tail |= other.has_zero_tail

    def add(self, step: str, text: str, **figures: object) -> None:
        """Add a step."""
        self.steps.append(LookupStep(step, text, figures))

    def doubt(self, path: str, problem: str, *, is_missing: bool = False) -> None:
        """Note an index that is not used as it is, once for each path and problem."""
        doubt = IndexDoubt(path, problem, is_missing)
        if self._is_new_doubt(doubt):
            self.add("doubt", f"{path.rpartition('/')[2]}: {problem}", path=path)

    def met(self, path: str, damage: Damage) -> None:
        """Note damage, once for each place."""
        if self._is_new(FileDamage(path, damage)):
            self.add("damage", f"damage at byte {damage.position}, {damage.reason}: {damage.detail}", path=path)

    def _is_new(self, met: FileDamage) -> bool:
        """Keep damage at a new place; a log may have hundreds of thousands of damaged places."""
        place = met.path, met.damage.position
        if place in self._places:
            return False
        self._places.add(place)
        self.damages.append(met)
        return True

    def _is_new_doubt(self, doubt: IndexDoubt) -> bool:
        if doubt in self._doubted:
            return False
        self._doubted.add(doubt)
        self.doubts.append(doubt)
        return True
