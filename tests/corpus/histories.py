"""Where each version of a segment is in two copies of a partition, taken before and after passes of a cleaner.

Every pass writes a segment again, and the broker renames what was there to `.deleted`, over what an earlier pass has
renamed. So of each segment the last version that was renamed is there, and the one that was not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.corpus.cleaner_logs import LoggedPass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.corpus.cleaner_logs import LoggedDeletion

KINDS: Final = ("log", "index", "timeindex", "txnindex")
_ENDING: Final = ".deleted"
_BESIDE: Final = ("leader-epoch-checkpoint", "partition.metadata")

Step = tuple[LoggedPass, dict[int, int], dict[int, int], frozenset[int]]
"""A pass; the version of each segment that it found, the active one's too, and made; what was gone afterwards."""


class History:
    """The segments of one partition.

    Args:
        files: all paths of the corpus.
        before: the partition's directory in the copy before, with a slash at its end.
        after: in the copy after.
        mtimes: modification times in milliseconds by path.
    """

    def __init__(self, files: frozenset[str], before: str, after: str, mtimes: Mapping[str, int]) -> None:
        self._before, self._after, self._mtimes = before, after, mtimes
        self._files = {path for path in files if path.startswith((before, after))}
        self._at_start = self._bases(before)
        self._at_end = self._bases(after)
        self._now = dict.fromkeys(self._at_start | self._at_end, 0)
        self._renamed: dict[int, int] = {}
        self._made_ms: dict[tuple[int, int], int] = {}

    def _bases(self, directory: str) -> set[int]:
        names = [path.removeprefix(directory) for path in self._files if path.startswith(directory)]
        return {int(name[:20]) for name in names if name.endswith(".log")}

    @property
    def is_there(self) -> bool:
        """Whether both copies hold the partition."""
        return bool(self._at_start and self._at_end)

    @property
    def first_active(self) -> int:
        """Base offset of the segment that was the active one in the copy before."""
        return max(self._at_start)

    def play(self, events: list[LoggedPass | LoggedDeletion]) -> Iterator[Step]:
        """Follow the broker's log; the active segment begins where a pass ends."""
        for event in events:
            if not isinstance(event, LoggedPass):
                self._renamed[event.base] = self._now[event.base]
                continue
            sources = [base for swap in event.swaps for base in swap.sources]
            found = {base: self._now.setdefault(base, 0) for base in [*sources, event.end]}
            for base in sources:
                self._renamed[base] = self._now[base]
            bases = {swap.base for swap in event.swaps}
            for base in bases:
                self._now[base] += 1
                self._made_ms[base, self._now[base]] = event.began_ms
            yield event, found, {base: self._now[base] for base in bases}, frozenset(sources) - bases

    def copies(self, base: int, version: int, *, is_closed: bool) -> dict[str, str]:
        """File name -> path of one version of a segment, once all was played; none: it is lost.

        Args:
            base: of the segment.
            version: 0 as it was written, else by that many passes.
            is_closed: nothing was appended to the segment that was the active one.
        """
        if version == 0 and base in self._at_start and (is_closed or base != self.first_active):
            return self._there(self._before, base, "")
        if self._renamed.get(base) == version:
            return {
                name: path
                for name, path in self._there(self._after, base, _ENDING).items()
                if not path.endswith(f".txnindex{_ENDING}") or self._is_of(path, base, version)
            }
        return self._there(self._after, base, "") if base in self._at_end and self._now[base] == version else {}

    def _is_of(self, path: str, base: int, version: int) -> bool:
        """Whether a transaction index is of this version: not each has one, and an older one's stays then."""
        made_ms, replaced_ms = self._made_ms.get((base, version)), self._made_ms.get((base, version + 1))
        mtime = self._mtimes[path]
        return (made_ms is None or mtime >= made_ms) and (replaced_ms is None or mtime < replaced_ms)

    def any_copy(self, base: int) -> dict[str, str]:
        """Of the active segment as it was at the start, else as a later pass left it: a pass reads no record of it."""
        found = self._there(self._before, base, "")
        return found or self._there(self._after, base, _ENDING) or self._there(self._after, base, "")

    def _there(self, directory: str, base: int, ending: str) -> dict[str, str]:
        paths = {f"{base:020d}.{kind}": f"{directory}{base:020d}.{kind}{ending}" for kind in KINDS}
        return {name: path for name, path in paths.items() if path in self._files}

    def others(self, end: int, *, wrote: bool) -> Iterator[str]:
        """What else a cleaner reads: snapshots up to the active segment, leader epochs, the partition's id."""
        seen: set[str] = set()
        for directory in (self._before, self._after) if wrote else (self._before,):
            for path in sorted(each for each in self._files if each.startswith(directory)):
                name = path.removeprefix(directory)
                is_snapshot = name.endswith(".snapshot") and (not wrote or int(name[:20]) <= end)
                if name not in seen and (is_snapshot or name in _BESIDE):
                    seen.add(name)
                    yield path
