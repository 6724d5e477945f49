"""The clean that leaves nothing to be cleaned: where offset maps fill up others go before it, into temporary files."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.ops.cleaning.course import next_pass
from kafkalog_core.ops.cleaning.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.ops.cleaning.bounds import Cleanability
    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.course import CleanPass
    from kafkalog_core.ops.cleaning.log import CleanLog
    from kafkalog_core.ops.cleaning.mapping import KnownMap
    from kafkalog_core.ops.cleaning.rules import CleaningRules
    from kafkalog_core.ops.progress import Progress

__all__ = ["Cleaning", "last_clean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """How a log is cleaned.

    Args:
        config: of the topic.
        rules: of the release.
        now_ms: the time of every clean.
        force: even where a broker would not do it now.
        max_passes: at most so many cleans; null: until a broker would not do another one.
        max_batch_bytes: the largest batch that is read.
        biggest: how many of the biggest keys the first clean looks for.
        progress: told the bytes that are read.
        known: what the first clean fills its map with, where others have found that out.
    """

    config: CleanConfig
    rules: CleaningRules
    now_ms: int
    force: bool
    max_passes: int | None
    max_batch_bytes: int
    biggest: int
    progress: Progress
    known: KnownMap | None = None

    def next_of(self, log: CleanLog, *, is_first: bool = False) -> tuple[Cleanability, CleanPass | None]:
        """What the cleaner says of a log, and the clean of it with its map filled; null: none is done."""
        bounds, work = next_pass(
            log,
            self.config,
            self.rules,
            self.now_ms,
            force=self.force,
            heavy_keys=self.biggest if is_first else 0,
            progress=self.progress,
            max_batch_bytes=self.max_batch_bytes,
        )
        if work is not None:
            work.build(self.known if is_first else None)
        return bounds, work


@contextmanager
def last_clean(
    log: CleanLog, cleaning: Cleaning, see: Callable[[Cleanability, CleanPass], None] | None = None
) -> Iterator[tuple[Cleanability, CleanPass | None]]:
    """What the cleaner says of a log as it is, and the last clean, which is to be carried out.

    While entered the files are there that it reads. `see` is told each clean when it
    has been carried out, and what was known before it. Raises CleanError and StorageError.
    """
    with ExitStack() as spools:
        first, work = cleaning.next_of(log, is_first=True)
        before, number, is_told = first, 1, False
        while work is not None and work.is_full and number != cleaning.max_passes:
            with ExitStack() as newer:
                after = newer.enter_context(Spool()).carry_out(work)
                if see is not None:
                    see(before, work)
                work.release()
                next_before, following = cleaning.next_of(after)
                if following is None:  # this one was the last, and is to be done where its segments stay
                    is_told = True
                    _, work = cleaning.next_of(log)
                    break
                spools.close()
                spools.push(newer.pop_all())
            log, before, work, number = after, next_before, following, number + 1
        try:
            yield first, work
            if work is not None and see is not None and not is_told:
                see(before, work)
        finally:
            if work is not None:
                work.release()
