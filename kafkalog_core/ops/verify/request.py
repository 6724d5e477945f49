"""What is to be verified, and how deep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_core.format.layout import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from kafkalog_core.ops.selecting.targets import Target
    from kafkalog_core.ops.verify.check import Level

__all__ = ["VerifyRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What to verify.

    Args:
        targets: files, partitions and log directories, from `targets.resolve`.
        now_ms: time of the check, ms since 1970: timestamps behind it lie in the future.
        level: `headers` reads batch headers alone, `checksums` every byte, `records` also decodes every record.
        max_batch_bytes: the largest batch that is read, inflated too.
        jobs: processes; 1: none beside this one.
        others: what somebody else verifies at the same time, and then `verify_across` all of it: their partitions are
            named where some are missed here. Null: this is all that is verified.
    """

    targets: tuple[Target, ...]
    now_ms: int
    level: Level = "records"
    max_batch_bytes: int = MAX_BATCH_BYTES
    jobs: int = 1
    others: tuple[Target, ...] | None = None
