"""What `kafkalog groups` is asked, and what it finds, as items that become rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.layout import MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.group_states import Moment
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.output.schema import Table

__all__ = ["LEFT_OUT", "GroupBasis", "GroupEvents", "GroupResult", "GroupsRequest", "Row", "rows_of"]

Row = dict[str, object]

PAST_END: Final = "past-end"
BELOW_START: Final = "below-start"
TOPIC_DELETED: Final = "topic-deleted"
TOPIC_RECREATED: Final = "topic-recreated"
NOT_HERE: Final = "not-here"
NOT_COMMITTED: Final = "not-committed"
UNKNOWN_THEN: Final = "unknown-then"
WRONG: Final = (PAST_END, BELOW_START, TOPIC_RECREATED, TOPIC_DELETED, UNKNOWN_THEN)
"""The states of a position at which a consumer does not just go on, the worst first."""


class GroupsRequest(Struct, frozen=True, kw_only=True):
    """The request of `kafkalog groups`.

    Args:
        targets: log directories, partitions and files, from `targets.resolve`.
        groups: the ids of the groups that are shown; empty: all.
        topics: globs of the topics whose offsets are shown; empty: all.
        moment: the end of what is replayed.
        now_ms: the time by which offsets expire.
        kafka: the release and the settings of the coordinator.
        has_positions: whether members and offsets of each group are wanted, and not only its sums.
        jobs: the most processes.
        max_batch_bytes: larger batches are damage.
        zookeeper_dirs: data directories of the ZooKeeper servers in which old consumers kept their offsets.
    """

    targets: tuple[Target, ...]
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    moment: Moment = field(default_factory=Moment)
    now_ms: int
    kafka: SettingsRequest = field(default_factory=SettingsRequest)
    has_positions: bool = True
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES
    zookeeper_dirs: tuple[str, ...] = ()

    @property
    def until_ms(self) -> int | None:
        """The time that is asked for; None: the end, or an offset."""
        return None if self.moment.until_ms == MAX_INT64 else self.moment.until_ms


LEFT_OUT: Final = "left out: "
"""How a note begins that names what no offset is shown or exported of."""


class GroupBasis(Struct, frozen=True, kw_only=True):
    """What the answer depends on.

    Args:
        notes: sentences: which copies were read, as of when, by which settings.
        findings: about the logs.
        known_from_ms: the time of the first record, if all logs begin after the moment; None: they do not.
    """

    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    known_from_ms: int | None = None


class GroupResult(Struct, frozen=True, kw_only=True):
    """A group: its row, those of its members, and those of its offsets."""

    group: Row
    members: tuple[Row, ...] = ()
    offsets: tuple[Row, ...] = ()


class GroupEvents(Struct, frozen=True):
    """Some events of a group, in the order of the log."""

    rows: tuple[Row, ...]


def rows_of(item: GroupBasis | GroupResult | GroupEvents) -> Iterator[RowChunk]:
    """Yield the rows of an item."""
    chunks: tuple[tuple[Table, tuple[Row, ...]], ...]
    if isinstance(item, GroupBasis):
        chunks = ((tables.FINDING, tuple(finding.row() for finding in item.findings)),)
    elif isinstance(item, GroupEvents):
        chunks = ((tables.GROUP_EVENT, item.rows),)
    else:
        chunks = (
            (tables.GROUP, (item.group,)),
            (tables.GROUP_MEMBER, item.members),
            (tables.GROUP_OFFSET, item.offsets),
        )
    for table, rows in chunks:
        if rows:
            yield RowChunk(table, rows)
