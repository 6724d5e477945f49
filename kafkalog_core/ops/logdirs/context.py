"""What a log directory says about one of its partitions: what a broker knows of it before it opens the first file."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PartitionContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionContext:
    """Plain values, null where they are not known; all of them are null for a partition by itself.

    Args:
        log_dir: path of the log directory.
        is_clean: whether it has the mark of a clean stop, so that a broker recovers nothing.
        is_kraft: whether its meta.properties or its files are those of a KRaft broker.
        recovery_point: up to where the partition has been flushed; null where the checkpoint does not say.
        log_start_offset: as checkpointed, which a broker does where it is not the base of the first segment.
        is_cleaned: whether a broker has compacted it before, as its cleaner's checkpoint names it.
        is_start_known: whether the log start offset is known: the checkpoint was read, and the broker wrote it when it
            stopped (else it may be a minute old).
    """

    log_dir: str | None = None
    is_clean: bool | None = None
    is_kraft: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    is_cleaned: bool | None = None
    is_start_known: bool = False
