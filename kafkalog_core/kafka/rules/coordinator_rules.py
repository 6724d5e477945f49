"""What each release does when a coordinator loads `__consumer_offsets` or `__transaction_state`, as values."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from kafkalog_core.kafka.rules.releases import Since
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.releases import Release

__all__ = ["CoordinatorRules", "coordinator_rules"]

_OFFSET_TYPES: Final = (0, 1)
_CLASSIC_TYPE: Final = 2
_CLASSIC_TYPES: Final = frozenset((*_OFFSET_TYPES, _CLASSIC_TYPE))
_MODERN_TYPES: Final = frozenset((3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16))
"""Records of consumer groups (KIP-848) and share groups (KIP-932).

4.0 has share groups as a preview: its records of type 9 are skipped here too, as every later release does.
"""
_STREAMS_TYPES: Final = frozenset((17, 19, 20, 21, 22, 23))


class CoordinatorRules(Struct, frozen=True, kw_only=True):
    """How a release loads the partitions of its coordinators.

    Args:
        has_shards: a partition whose load fails is not served (`CoordinatorRuntime`, state FAILED). Else the load is
            logged as an error, and the partition is served without the groups of the log (`GroupMetadataManager`).
        types: the record types of `__consumer_offsets` that it knows.
        skips_unknown_types: a record of another type is skipped with a warning; else it ends the load. This holds for
            `__transaction_state` too.
        last_offset_version: the highest version of a committed offset's value.
        last_group_version: the highest version of a classic group's value.
        last_transaction_version: the highest version of a value in `__transaction_state`.
        skips_unknown_transactions: a value of a higher version in `__transaction_state` is skipped; else the load ends
            there, and the coordinator serves what it has read before.
        replaces_owners: a partition that a member has while another one has it at an earlier epoch changes its owner
            (KAFKA-19862); else the load fails.
        takes_commits_before_streams: the records of a streams group may follow commits of the group, which made a
            group without members (KAFKA-20254); else the load fails.
    """

    has_shards: bool
    types: frozenset[int]
    skips_unknown_types: bool
    last_offset_version: int
    last_group_version: int
    last_transaction_version: int
    skips_unknown_transactions: bool
    replaces_owners: bool
    takes_commits_before_streams: bool

    def last_version(self, record_type: int) -> int:
        """Return the highest version of the value of a record type in `__consumer_offsets`."""
        if record_type in _OFFSET_TYPES:
            return self.last_offset_version
        return self.last_group_version if record_type == _CLASSIC_TYPE else 0


@cache
def coordinator_rules(release: Release) -> CoordinatorRules | None:
    """Return the rules of a release; None: it is one before 0.11, whose loads are not followed.

    Up to 3.9 those of the coordinator that `group.coordinator.rebalance.protocols=classic`, the default, selects.
    The highest versions are those of the generated classes, before 2.7 those of the schemas in `GroupMetadataManager`.
    """
    if release < Since.PRODUCERS:
        return None
    is_flexible = Since.UNKNOWN_KEYS_SKIPPED.is_in(release)  # KIP-915 brought both
    types = _CLASSIC_TYPES
    if release >= Since.GROUP_SHARDS:
        types |= _MODERN_TYPES
    if release >= Since.STREAMS_GROUPS:
        types |= _STREAMS_TYPES
    offsets, groups = 4, 4
    if not is_flexible:
        offsets = 3 if release >= Since.COMMITTED_EPOCHS else 1
        groups = 3 if release >= Since.GROUP_INSTANCES else 2 if release >= Since.COMMITTED_EPOCHS else 1
    return CoordinatorRules(
        has_shards=release >= Since.GROUP_SHARDS,
        types=types,
        skips_unknown_types=is_flexible,
        last_offset_version=offsets,
        last_group_version=groups,
        last_transaction_version=int(is_flexible),
        skips_unknown_transactions=release >= Since.UNKNOWN_TRANSACTIONS_SKIPPED,
        replaces_owners=Since.OWNERS_REPLACED.is_in(release),
        takes_commits_before_streams=Since.COMMITS_BEFORE_STREAMS.is_in(release),
    )
