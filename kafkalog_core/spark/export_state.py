"""How far each partition has been exported, and by what its log is known again.

The state is part of every commit, so that it never says anything else than the files do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_core.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.reading.trail import Mark

__all__ = ["Exported", "LastBatch", "States", "Unread"]

Name = tuple[str, int]
"""Topic and partition."""


class LastBatch(NamedTuple):
    """The batch that was exported last: `header` are its first bytes, its checksum and leader epoch among them."""

    segment: str
    position: int
    size_bytes: int
    last_offset: int
    header: bytes

    @classmethod
    def of(cls, mark: Mark, segment: str) -> LastBatch:
        """From what a reader has seen last of a file."""
        return cls(segment, mark.position, mark.size_bytes, mark.last_offset, mark.header)

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.position + self.size_bytes


class Unread(NamedTuple):
    """A segment that could not be opened, and the offsets of it that are not exported; `last` null: to its end."""

    segment: str
    first: int
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One partition: all below `next_offset` is exported, but for what is unread, damaged or was never there.

    Args:
        next_offset: where the next run goes on.
        last_batch: what stands before it in the log; null: nothing was read yet.
        topic_id: of `partition.metadata`; null: there is none.
        path: of the directory it was read from last.
        unread: segments to try again.
        is_asked: it begins at an offset that somebody asked for, which the log need not have reached.
    """

    next_offset: int
    last_batch: LastBatch | None = None
    topic_id: str | None = None
    path: str = ""
    unread: tuple[Unread, ...] = ()
    is_asked: bool = False

    def to_json(self) -> dict[str, object]:
        """As JSON has it."""
        last = self.last_batch
        return {
            "next_offset": self.next_offset,
            "last_batch": None if last is None else {**last._asdict(), "header": last.header.hex()},
            "topic_id": self.topic_id,
            "path": self.path.encode("utf-8", "backslashreplace").decode(),
            "unread": [unread._asdict() for unread in self.unread],
            "is_asked": self.is_asked,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Exported:
        """Raises KeyError, TypeError or ValueError for anything else than `to_json` gave."""
        last = value["last_batch"]
        return cls(
            next_offset=int(value["next_offset"]),
            last_batch=None if last is None else LastBatch(**{**last, "header": bytes.fromhex(last["header"])}),
            topic_id=value["topic_id"],
            path=str(value["path"]),
            unread=tuple(Unread(**unread) for unread in value["unread"]),
            is_asked=bool(value["is_asked"]),
        )

    def read_up_to(self, next_offset: int, last_batch: LastBatch | None) -> Exported:
        """After more of its log was read; offsets never go back."""
        return replace(self, next_offset=max(self.next_offset, next_offset), last_batch=last_batch or self.last_batch)


@dataclass(slots=True)
class States:
    """The state of an export: of each partition how far it is."""

    of: dict[Name, Exported] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], path: str) -> States:
        """From a commit's state. Raises RefusedError where it is none of an export."""
        try:
            partitions = value.get("partitions", {})
            return cls(
                {
                    (topic, int(partition)): Exported.from_json(state)
                    for topic, states in partitions.items()
                    for partition, state in states.items()
                }
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise RefusedError(
                f"its state is not one that exports of this release leave ({problem}); export into another "
                f"directory: --to DIR",
                path=path,
            ) from error

    def to_json(self) -> dict[str, Any]:
        """As a commit has it."""
        partitions: dict[str, dict[str, object]] = {}
        for (topic, partition), state in sorted(self.of.items()):
            partitions.setdefault(topic, {})[str(partition)] = state.to_json()
        return {"partitions": partitions}
