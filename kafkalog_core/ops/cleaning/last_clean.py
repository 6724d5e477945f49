"""The clean that leaves nothing to be cleaned: where offset maps fill up others go before it, into temporary files."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.ops.cleaning.course import next_pass
from kafkalog_core.ops.cleaning.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.cleaning.bounds import Cleanability
    from kafkalog_core.ops.cleaning.config import CleanConfig
    from kafkalog_core.ops.cleaning.course import CleanPass
    from kafkalog_core.ops.cleaning.log import CleanLog
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
        progress: told the bytes that are read.
    """

    config: CleanConfig
    rules: CleaningRules
    now_ms: int
    force: bool
    max_passes: int | None
    max_batch_bytes: int
    progress: Progress

    def next_of(self, log: CleanLog) -> tuple[Cleanability, CleanPass | None]:
        """What the cleaner says of a log, and the clean of it with its map filled; null: none is done."""
        bounds, work = next_pass(
            log,
            self.config,
            self.rules,
            self.now_ms,
            force=self.force,
            progress=self.progress,
            max_batch_bytes=self.max_batch_bytes,
        )
        if work is not None:
            work.build()
        return bounds, work


@contextmanager
def last_clean(log: CleanLog, cleaning: Cleaning) -> Iterator[tuple[Cleanability, CleanPass | None, int]]:
    """What the cleaner says of a log as it is, the last clean, which is to be carried out, and how many there are.

    While entered the files are there that it reads. Raises CleanError and StorageError.
    """
    with ExitStack() as spools:
        first, work = cleaning.next_of(log)
        number = 1
        while work is not None and work.is_full and number != cleaning.max_passes:
            with ExitStack() as newer:
                after = newer.enter_context(Spool()).carry_out(work)
                work.release()
                _, following = cleaning.next_of(after)
                if following is None:  # this one was the last, and is to be done where its segments stay
                    _, work = cleaning.next_of(log)
                    break
                spools.close()
                spools.push(newer.pop_all())
            log, work, number = after, following, number + 1
        try:
            yield first, work, 0 if work is None else number
        finally:
            if work is not None:
                work.release()
