"""What each release with KRaft knows of the records in the cluster metadata log, as values.

Read from `QuorumFeatures.defaultSupportedFeatureMap` and `MetadataRecordType` of each release.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.kafka.rules.releases import KNOWN, Since
from kafkalog_core.structs import Struct
from kafkalog_core.topics.metadata_records import METADATA_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.kafka.rules.releases import Release

__all__ = ["ClusterModes", "MetadataRules", "can_downgrade", "cluster_modes", "metadata_rules"]

_FIRST_LEVEL: Final = 1
_FIRST_LEVEL_WITHOUT_ZOOKEEPER: Final = 7  # MetadataVersion.MINIMUM_VERSION of 4.0: 3.3-IV3

_RECORDS_OF_3_3: Final[Mapping[int, int]] = {
    **dict.fromkeys((1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, 18, 19, 20), 0),
    0: 1,
    17: 1,
}
"""The highest version of each record type in 3.3, without 6 (AccessControl), which no release wrote."""


class ClusterModes(NamedTuple):
    """How a broker of a release may keep the metadata of its cluster.

    Args:
        has_zookeeper: in ZooKeeper.
        has_kraft: in a metadata log; None: as a preview (2.8 to 3.2), which is not followed.
        reads_log: whether that log is `__cluster_metadata`; in 2.8 it is `@metadata`.
    """

    has_zookeeper: bool
    has_kraft: bool | None
    reads_log: bool


def cluster_modes(release: Release) -> ClusterModes:
    """Return how a broker of a release may keep the metadata of its cluster."""
    is_preview = Since.KRAFT <= release < Since.KRAFT_COMPLETE
    return ClusterModes(
        has_zookeeper=release < Since.WITHOUT_ZOOKEEPER,
        has_kraft=None if is_preview else release >= Since.KRAFT_COMPLETE,
        reads_log=release >= Since.METADATA_TOPIC,
    )


class MetadataRules(Struct, frozen=True, kw_only=True):
    """What a release takes from a metadata log.

    Args:
        levels: the first and the last level of metadata.version, for a controller.
        bootstrap_levels: the levels that bootstrap.checkpoint may have, from the first to the last that MetadataVersion
            names; None: it is not looked at.
        features: the highest level of each other feature; one that is not here has no level but 0.
        records: the highest version of each record type.
        knows_voters: whether it reads quorum-state of version 1, and voters in the log (KIP-853). Then it decodes all
            records before it replays the first one (`KRaftControlRecordStateMachine`).
    """

    levels: tuple[int, int]
    bootstrap_levels: tuple[int, int] | None
    features: Mapping[str, int]
    records: Mapping[int, int]
    knows_voters: bool

    def range_of(self, feature: str) -> tuple[int, int]:
        """Return the lowest and the highest level of a feature."""
        return self.levels if feature == METADATA_VERSION else (0, self.features.get(feature, 0))


@cache
def metadata_rules(release: Release) -> MetadataRules | None:
    """Return the rules of a release; None: it has no KRaft, or only the preview before 3.3, which is not followed."""
    if release < Since.KRAFT_COMPLETE:
        return None
    known = next(each for each in KNOWN if each.release[:2] == release[:2])
    last = 0 if known.levels is None else known.levels[1]
    with_zookeeper = release < Since.WITHOUT_ZOOKEEPER
    first = _FIRST_LEVEL if with_zookeeper else _FIRST_LEVEL_WITHOUT_ZOOKEEPER
    return MetadataRules(
        levels=(first, last),
        bootstrap_levels=(first, known.testing_level or last) if with_zookeeper else None,  # BootstrapMetadata
        features=_features(release),
        records=_records(release),
        knows_voters=release >= Since.VOTERS_IN_LOG,
    )


def _features(release: Release) -> Mapping[str, int]:
    found = {}
    if release >= Since.KRAFT_VERSION:
        found["kraft.version"] = 1
    if release >= Since.WITHOUT_ZOOKEEPER:
        found |= {"transaction.version": 2, "group.version": 1, "eligible.leader.replicas.version": 1}
    if release >= Since.STREAMS_GROUPS:
        found["share.version"] = 1  # ShareVersion.LATEST_PRODUCTION of 4.1.2
    if release >= Since.STREAMS_VERSION:
        found["streams.version"] = 1
    if release >= Since.REMOTE_COPY_LAG:
        found["share.version"] = 2  # KIP-1191
    return found


def _records(release: Release) -> Mapping[int, int]:
    found = dict(_RECORDS_OF_3_3)
    if release >= Since.PRODUCER_EXPIRATION:  # 3.4, KIP-866: migration from ZooKeeper
        found |= {0: 2, 21: 0}
    if release >= Since.SCRAM_IN_METADATA:
        found[22] = 0
    if release >= Since.TIERED:  # 3.6, KIP-868: metadata transactions, and delegation tokens
        found |= dict.fromkeys((23, 24, 25, 26), 0)
    if release >= Since.DIRECTORY_ID:  # 3.7, KIP-858, and KIP-966: eligible leader replicas
        found |= {0: 3, 3: 2, 5: 2, 17: 2, 27: 0}
    if release >= Since.WITHOUT_ZOOKEEPER:  # ClearElrRecord
        found[28] = 0
    if release >= Since.CORDONED_DIRECTORIES:
        found |= {0: 4, 17: 3}
    if release >= Since.HOST_RANGES:  # 4.4: UnregisterControllerRecord
        found[29] = 0
    return found


_CHANGED_LEVELS: Final = frozenset((1, 3, 5, 6, 7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33))
"""Levels of metadata.version with new metadata records (`MetadataVersion.didMetadataChange` of 4.4)."""


def can_downgrade(level: int, target: int) -> bool:
    """Return whether the controllers of a cluster lower metadata.version (`FeatureControlManager`).

    They refuse a downgrade over a level that changed the records, also an unsafe one (KAFKA-13896).
    """
    return target < level and not any(target < changed <= level for changed in _CHANGED_LEVELS)
