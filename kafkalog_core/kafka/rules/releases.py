"""The table of known releases of Kafka, and `Since`: the first release of each change that this project follows.

To add a release, 4.5:

1. Add its row to `KNOWN`, with its levels of metadata.version (MetadataVersion.java).
2. Add a row to `Since` for each rule that it changes, with the KIP, the JIRA issue, or the class and method.
3. Compare with that row where the rule is a field: `rule_table` (loading, recovery, appends, look-ups),
   `cleaner_rules`, `kafka.sim.retention.rules`, `coordinator_rules`, `metadata_rules`; in `setting_table` for a default
   or a limit; in `kafka.sim.evidence` for a file that shows the release.

No other code compares releases: `tests/kafka/test_releases.py` proves that, and finds texts that still name the release
before as the newest. Finding texts that name other releases are checked by people. `docs/architecture.md` lists the
fixtures and documents.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Final, NamedTuple

from kafkalog_core.errors import SettingError
from kafkalog_core.text import names_near

__all__ = [
    "KNOWN",
    "LATEST",
    "NEWEST_LEVEL",
    "RELEASES",
    "Fix",
    "KnownRelease",
    "Release",
    "bug_fixes",
    "describe_known",
    "parse_release",
    "release_of_level",
    "with_log_files",
]


_SPELLING: Final = re.compile(r"v?(\d{1,3}(?:\.\d{1,3}){1,3})(?:-.*)?", re.ASCII)


class Release(NamedTuple):
    """A release, in its order: `Release(0, 8, 2) < Release(0, 11) < Release(2, 8) < Release(4, 3, 1)`."""

    major: int
    minor: int
    patch: int = 0
    build: int = 0

    def __str__(self) -> str:
        parts = list(self)
        least = 3 if self.major == 0 else 2  # 0.8.2 and 2.8 are what people call a release
        while len(parts) > least and not parts[-1]:
            parts.pop()
        return ".".join(map(str, parts))


class Fix(NamedTuple):
    """A change that came to several lines of releases at once.

    Args:
        first: the release from which on every later one has it.
        patches: the first bug fix with it in each earlier line.
    """

    first: Release
    patches: tuple[Release, ...]

    def is_in(self, release: Release) -> bool:
        """Return whether the release has the change."""
        line = release[:2]
        return release >= self.first or any(patch[:2] == line and release >= patch for patch in self.patches)


class Since:
    """The first release of each change that this project follows: the one table of boundaries.

    A row is named after what exists from that release on (a `Fix`: from each of several bug fixes on), and its comment
    names the KIP, the JIRA issue, or the class and method of Kafka that changed. "2.2.2 does not" means that the
    sources of these two releases were compared. A rule that holds for a span of releases is a pair of rows. Settings
    have their own table (`setting_table`), where each row is a default or a limit.
    """

    START: Final = Release(0, 7)  # the first known release
    NEVER: Final = Release(1000, 0)  # the end of a span that goes on
    LOG_FILES: Final = Release(0, 8, 0)  # KAFKA-506: logical offsets, `.log` files with an `.index`
    RECOVERY_POINTS: Final = Release(0, 8, 1)  # KAFKA-615: checkpointed, so that not only the last segment is recovered
    CLEANER: Final = Release(0, 8, 1)  # KAFKA-631; Log.maybeRoll is also given the size of the message set
    MESSAGE_LIMIT_IN_RECOVERY: Final = Release(0, 8, 1)  # LogSegment.recover(maxMessageSize), until 0.11
    META_PROPERTIES: Final = Release(0, 9)  # BrokerMetadataCheckpoint
    INDEXES_CHECKED_AT_LOAD: Final = Release(0, 9)  # Log.loadSegments calls OffsetIndex.sanityCheck before recovery
    EMPTY_INDEX_FOR_MISSING: Final = Release(0, 9)  # until 0.10.1 (Log.loadSegments; seen of 0.10.0)
    CLEANER_ON_BY_DEFAULT: Final = Release(0, 9)  # log.cleaner.enable, with a smaller dedupe buffer
    CLEANER_GROUPS_BY_LAST_ENTRY: Final = Release(0, 9)  # Cleaner.groupSegmentsBySize, until 0.10.2
    CLEANER_TAKES_NULL_KEYS: Final = Release(0, 9)  # Cleaner.shouldRetainMessage; 0.8.2.2 requires a key
    CLEANER_FILLS_GROUPS: Final = Release(0, 9)  # Cleaner.groupSegmentsBySize compares with <=, 0.8.2.2 with <
    CLEANER_COUNTS_ALL_CLEAN_BYTES: Final = Release(0, 9)  # LogToClean.cleanBytes; 0.8.2.2 ends one offset before
    CLEANER_RESETS_BELOW_START: Final = Release(0, 9)  # LogCleanerManager.grabFilthiestLog; 0.8.2.2 does not
    MAGIC_1: Final = Release(0, 10, 0)  # KIP-31, KIP-32
    TIME_INDEX: Final = Release(0, 10, 1)  # KIP-33, KIP-79: before it a broker knew modification times alone
    COMPACT_AND_DELETE: Final = Release(0, 10, 1)  # KIP-71
    COMPACTION_LAG: Final = Release(0, 10, 1)  # KIP-58
    WHOLE_FIRST_BATCH: Final = Release(0, 10, 1)  # KIP-74
    AGE_BY_RECORDS: Final = Release(0, 10, 1)  # KIP-33: LogSegment.timeWaitedForRoll
    CLEANER_MAPS_RECORDS: Final = Release(0, 10, 1)  # Cleaner.buildOffsetMap fills the map within a segment
    CLEANER_KEEPS_PAST_LATEST: Final = Release(0, 10, 1)  # Cleaner.shouldRetainMessage: pastLatestOffset
    CLEANER_STARTS_ANYWHERE: Final = Release(0, 10, 1)  # Cleaner.buildOffsetMap; 0.10.0.1 requires a base offset
    DELETE_DIRECTORIES: Final = Release(0, 10, 2)  # Log.DeleteDirSuffix: not in 0.10.1.1
    RELATIVE_OFFSETS_BOUNDED: Final = Release(0, 10, 2)  # LogSegment.canConvertToRelativeOffset: not in 0.10.1.1
    CLEANER_FILTERS_WRAPPERS: Final = Release(0, 10, 2)  # MemoryRecords.filterTo
    CLEANER_GROUPS_BY_NEXT_BASE: Final = Release(0, 10, 2)  # Cleaner.lastOffsetForFirstSegment: not in 0.10.1.1
    PRODUCERS: Final = Release(0, 11)  # KIP-98, KIP-101: magic 2, `.txnindex`, snapshots, leader epochs
    LOG_START_OFFSET: Final = Release(0, 11)  # KIP-107: the log may start within its first segment
    FAILED_LOG_DIRS: Final = Release(1, 0)  # KIP-112: a log directory goes offline, and the broker runs on
    DATA_TIME_IN_SNAPSHOT: Final = Release(1, 0)  # ProducerAppendInfo.appendEndTxnMarker; 0.11: last batch
    FUTURE_DIRECTORIES: Final = Release(1, 1)  # KIP-113; Log.FutureDirSuffix is not in 1.0.2
    LAST_OFFSET_IN_INDEX: Final = Release(2, 0)  # LogSegment.append, recover: 1.1.1 has the first offset
    INDEX_MAY_END_AT_BASE: Final = Release(2, 0)  # OffsetIndex.sanityCheck: 1.1.1 compares <=, 2.0.1 <
    PRODUCERS_REBUILT_AT_END: Final = Release(2, 0)  # Log.rebuildProducerState; 1.1.1 has Log.loadProducerState
    EPOCH_FILE_REPAIRED: Final = Release(2, 0)  # LeaderEpochFileCache.assign truncates conflicting entries
    ROLLED_BY_FIRST_OFFSET: Final = Release(2, 0)  # Log.maybeRoll: LogAppendInfo.firstOffset, where known
    EMPTY_MARKERS_READ: Final = Release(2, 0)  # ProducerAppendInfo.append: 1.1.1 asks every control batch for a record
    CLEANER_GROWS_BUFFERS: Final = Release(2, 0)  # Cleaner.growBuffersOrFail
    SEGMENTS_SPLIT: Final = Release(2, 0)  # KAFKA-6264: LogSegmentOffsetOverflowException; 1.1.1 loads such a segment
    OFFSETS_KEPT_A_WEEK: Final = Release(2, 0)  # KIP-186: the default of offsets.retention.minutes
    ZSTD: Final = Release(2, 1)  # KIP-110
    COMMITTED_EPOCHS: Final = Release(2, 1)  # KIP-320, and KIP-211: versions 3 and 2 of values in __consumer_offsets
    OFFSETS_KEPT_FOR_MEMBERS: Final = Release(2, 1)  # KIP-211: GroupMetadata.getExpiredOffsets asks for the state
    WARM_INDEX_SECTION: Final = Release(2, 1)  # KAFKA-6432: AbstractIndex.indexSlotRangeFor
    START_OFFSET_OF_COMPACTED: Final = Release(2, 1)  # KAFKA-7400: Log.deleteOldSegments without the policy delete
    END_COMPARED_WITH_START: Final = Release(2, 2)  # Log.loadSegments: logEndOffset < logStartOffset
    CLEANER_SHARES_TRANSACTIONS: Final = Release(2, 2)  # CleanedTransactionMetadata; 2.1.1: one a segment
    CLEANER_KEEPS_LAST_OFFSET: Final = Release(2, 2, 1)  # KAFKA-8335
    RETENTION_CHECKED: Final = Release(2, 2)  # LogConfig: retention.ms of a topic is at least -1; 2.1.1 takes any
    INDEXES_OPENED_LATE: Final = Release(2, 3)  # LogSegment.sanityCheck: checks the `.txnindex` alone
    GROUP_INSTANCES: Final = Release(2, 3)  # KIP-345: version 3 of a classic group's value
    MAX_COMPACTION_LAG: Final = Release(2, 3)  # KIP-354
    CLEANER_STARTS_AT_LOG_START: Final = Release(2, 3)  # LogCleanerManager.cleanableOffsets; 2.2.2: first base
    CLEANER_RESETS_ABOVE_END: Final = Release(2, 3)  # LogCleanerManager.cleanableOffsets: not in 2.2.2
    CLUSTER_ID: Final = Release(2, 4)  # KafkaServer.checkpointBrokerMetadata: not in 2.3.1
    MARKER_TIME_IN_SNAPSHOT: Final = Release(2, 4)  # ProducerStateEntry.lastTimestamp; 2.3.1: of data alone
    OLD_PRODUCERS_KEPT: Final = Release(2, 4)  # ProducerStateManager.isProducerRetained: in 2.3.1, not in 2.4.1
    OFFSETS_KEPT_FOR_SUBSCRIPTIONS: Final = Release(2, 4)  # KAFKA-8338: GroupMetadata.subscribedTopics; not in 2.3.1
    CLEANER_JUMPS_GAPS: Final = Release(2, 4)  # KAFKA-8764: Cleaner.buildOffsetMapForSegment
    SWAPS_RECOVERED: Final = Release(2, 5)  # Log.completeSwapOperations and what it calls are the same from 2.5 to 2.8
    CLEANER_SKIPS_EMPTY_RANGES: Final = Release(2, 5, 1)  # KAFKA-9826: Log.logSegments; 2.5.0 does not
    SNAPSHOT_IN_JAVA: Final = Release(2, 6)  # ProducerStateManager writes the order of another hash map
    KRAFT: Final = Release(2, 8)  # KIP-500
    PARTITION_METADATA: Final = Release(2, 8)  # KIP-516
    SNAPSHOT_PER_SEGMENT: Final = Release(2, 8)  # KAFKA-9393: ProducerStateManager.removeStraySnapshots
    NO_EMPTY_TRANSACTIONS: Final = Release(2, 8)  # ProducerAppendInfo.appendEndTxnMarker; not in 2.7.2
    RECOVERY_POINT_KEPT: Final = Release(2, 8)  # Log.recoverLog: 2.7.2 replaces it by the log end offset
    LOG_LOADER: Final = Release(3, 0)  # LogLoader, before it Log
    STRAY_DIRECTORIES: Final = Release(
        3, 0
    )  # Log.StrayDirSuffix exists; a start gives it to strays from 3.7 on (STRAYS_RENAMED)
    METADATA_TOPIC: Final = Release(3, 0)  # Topic.METADATA_TOPIC_NAME: __cluster_metadata; 2.8.2 has @metadata
    ABORTED_BY_OFFSET: Final = Release(3, 0)  # KIP-664: TransactionsCommand.AbortTransactionCommand, --start-offset
    START_OFFSET_FIRST: Final = Release(3, 0)  # UnifiedLog.deleteOldSegments: the order of the passes
    CLEANER_HEEDS_HIGH_WATERMARK: Final = Release(3, 0)  # LogCleanerManager.cleanableOffsets: lastStableOffset
    CLEANER_FREES_EMPTY_SEGMENTS: Final = Release(3, 0)  # KAFKA-12889: Cleaner.groupSegmentsBySize
    DELETE_HORIZONS: Final = Release(3, 1)  # KIP-534
    JAVA_17: Final = Release(3, 1)  # the first one that it is documented for: its gzip names another system
    CHECKPOINT_NUMBERS_THROWN: Final = Release(3, 1)  # CheckpointFile in Java; 3.0.2 takes one for a malformed line
    REFUSED_EPOCHS_OFFLINE: Final = Release(3, 2)  # LogManager.loadLogs; seen: 3.1.2 does not start, 3.2.3 does
    KRAFT_COMPLETE: Final = Release(3, 3)  # KIP-833: production ready; 3.2 writes other metadata records
    PRODUCER_EXPIRATION: Final = Release(3, 4)  # KIP-854; up to 3.3.2 LogManager passes transactionalIdExpirationMs on
    SCRAM_IN_METADATA: Final = Release(3, 5)  # KIP-900: RemoveUserScramCredentialRecord
    TIERED: Final = Release(3, 6)  # KIP-405
    DIRECTORY_ID: Final = Release(3, 7)  # KIP-858
    CLEAN_SHUTDOWN_WITH_EPOCH: Final = Release(3, 7)  # CleanShutdownFileHandler: empty in 3.6.2, JSON in 3.7.2
    STRAYS_RENAMED: Final = Release(3, 7)  # LogManager.isStrayReplica: 3.6.2 deletes them
    OPEN_BEYOND_END: Final = Release(3, 8)  # UnifiedLog.maybeConvertToOffsetMetadata: not in 3.7.2
    LEVELS: Final = Release(3, 8)  # KIP-390: compression levels
    VOTERS_IN_LOG: Final = Release(3, 8)  # KIP-853: KRaftControlRecordStateMachine, QuorumStateData of version 1
    KRAFT_VERSION: Final = Release(3, 9)  # KIP-853: the feature kraft.version
    REMOTE_SWITCHES: Final = Release(3, 9)  # KIP-950
    UNKNOWN_KEYS_SKIPPED: Final = Fix(Release(3, 5), (Release(3, 4, 1),))  # KIP-915: UnknownKey; not in 3.4.0
    GROUP_SHARDS: Final = Release(4, 0)  # KIP-848: CoordinatorRuntime loads groups; 3.9.2: GroupMetadataManager
    OWNERS_REPLACED: Final = Fix(Release(4, 2), (Release(4, 0, 2), Release(4, 1, 2)))  # KAFKA-19862
    STREAMS_GROUPS: Final = Release(4, 1)  # KIP-1071: GroupCoordinatorRecordSerde of 4.0.2 does not know them
    COMMITS_BEFORE_STREAMS: Final = Fix(Release(4, 3), (Release(4, 2, 1),))  # KAFKA-20254; not in 4.2.0, 4.1.2
    UNKNOWN_TRANSACTIONS_SKIPPED: Final = Release(4, 3)  # TransactionLog.UnknownValueVersion; not in 4.2.2
    APPENDED_BATCH_BY_BATCH: Final = Release(3, 9)  # LogSegment.append checks the index interval for each batch
    WITHOUT_ZOOKEEPER: Final = Release(4, 0)  # KIP-833: MetadataVersion.MINIMUM_VERSION is 3.3-IV3
    FOUND_BY_BASE: Final = Release(4, 0)  # FileRecords.searchForOffsetWithSize reads the base offset of the batch too
    DEFAULTS_OF_4_0: Final = Release(4, 0)  # other defaults and limits of settings
    CLEANER_CONVERTS_LEGACY: Final = Release(4, 0)  # MemoryRecords.filterTo writes magic 2
    SEARCHED_BY_BASE: Final = Release(4, 1)  # FileRecords.searchForOffsetFromPosition
    SEGMENT_OF_ONE_MIB: Final = Release(4, 1)  # LogConfig: the least segment.bytes; 4.0.2 accepts 3000, 4.1.2 does not
    CLEANER_KEEPS_ROUND_END: Final = Release(4, 1)  # Cleaner.checkBatchRetention, until 4.4
    TIERED_WITHOUT_POLICY: Final = Release(4, 2)  # UnifiedLog.deleteOldSegments with an empty cleanup.policy
    STREAMS_VERSION: Final = Release(4, 2)  # KIP-1071: StreamsVersion.LATEST_PRODUCTION
    LISTS_CHECKED: Final = Release(4, 2)  # KIP-1161, ConfigDef.ValidList: no empty values; not in 4.1.1
    CORDONED_DIRECTORIES: Final = Release(4, 3)  # KIP-1066: RegisterBrokerRecord of version 4; not in 4.2.0
    ABORTED_VERSION_IN_WHOLE: Final = Release(4, 4)  # TransactionIndex.iterator: getShort; 4.3.1 reads one byte of it
    REMOTE_COPY_LAG: Final = Release(4, 4)  # KIP-1241, and the dead-letter queues of KIP-1191
    CLEANER_KEEPS_WATERMARK_END: Final = Release(4, 4)  # Cleaner.checkBatchRetention: highWatermark
    HOST_RANGES: Final = Release(4, 4)  # KAFKA-20088: StandardAuthorizerData.findResult asks CidrUtils
    RECORD_LIMIT: Final = Fix(Release(4, 4), (Release(4, 2, 2),))  # Cleaner passes it to filterTo; not in 4.3.1
    ELEMENT_LIMIT: Final = Fix(Release(4, 4), (Release(4, 2, 2),))  # generated readers; 4.3.1 takes any number
    FEATURES_IN_SNAPSHOT: Final = Release(4, 4)  # kafka-storage format writes no bootstrap.checkpoint


class KnownRelease(NamedTuple):
    """A release without its bug fixes.

    Args:
        release: its first two numbers, before 1.0 its first three.
        levels: the first and last level of metadata.version that came with it; None: it has none.
        testing_level: the highest level that its MetadataVersion names, not for production; None: the last one.
    """

    release: Release
    levels: tuple[int, int] | None = None
    testing_level: int | None = None


KNOWN: Final = (
    *map(KnownRelease, (Release(0, 7), Release(0, 8, 0), Release(0, 8, 1), Release(0, 8, 2), Release(0, 9))),
    *map(KnownRelease, (Release(0, 10, 0), Release(0, 10, 1), Release(0, 10, 2), Release(0, 11))),
    *(KnownRelease(Release(1, minor)) for minor in range(2)),
    *(KnownRelease(Release(2, minor)) for minor in range(9)),
    KnownRelease(Release(3, 0), (1, 1)),  # levels by MetadataVersion.java; the last one is the production default
    KnownRelease(Release(3, 1), (2, 2)),
    KnownRelease(Release(3, 2), (3, 3)),
    KnownRelease(Release(3, 3), (4, 7)),
    KnownRelease(Release(3, 4), (8, 8)),
    KnownRelease(Release(3, 5), (9, 11)),
    KnownRelease(Release(3, 6), (12, 14)),
    KnownRelease(Release(3, 7), (15, 19), 20),
    KnownRelease(Release(3, 8), (20, 20), 21),
    KnownRelease(Release(3, 9), (21, 21), 23),
    KnownRelease(Release(4, 0), (22, 25), 26),
    KnownRelease(Release(4, 1), (26, 27), 29),
    KnownRelease(Release(4, 2), (28, 29), 30),
    KnownRelease(Release(4, 3), (30, 30), 31),
    KnownRelease(Release(4, 4), (31, 33), 34),
)
"""Every release whose rules this project knows."""
RELEASES: Final = tuple(known.release for known in KNOWN)
LATEST: Final = RELEASES[-1]
NEWEST_LEVEL: Final = max(known.levels[1] for known in KNOWN if known.levels is not None)
"""The highest level of metadata.version that a known release uses: a higher one is of a newer release."""


def bug_fixes() -> tuple[Release, ...]:
    """Return the bug fixes that change a rule, in their order: those of `Since`."""
    rows = [value for name, value in vars(Since).items() if name.isupper()]
    fixes = {patch for row in rows if isinstance(row, Fix) for patch in row.patches}
    fixes |= {row for row in rows if isinstance(row, Release) and row.major and row.patch}
    return tuple(sorted(fixes))


def parse_release(text: str) -> Release:
    """Return the release that `text` names: `2.8`, `2.8.2`, `0.11.0.3`, also `3.9.1-rc0`.

    A bug fix counts as known if its release is: bug fixes change no format. Raises SettingError for a text that is not
    a release, and for a release that is not in `KNOWN`: its rules would be a guess.
    """
    match = _SPELLING.fullmatch(text.strip())
    release = Release(*map(int, match[1].split("."))) if match else None
    if release is None or not _is_known(release):
        raise SettingError(_refusal(text.strip(), release))
    return release


def release_of_level(level: int) -> Release | None:
    """Return the release that a level of metadata.version came with; None below the first and above the newest."""
    spans = ((known.release, known.levels) for known in KNOWN if known.levels is not None)
    return next((release for release, (first, last) in spans if first <= level <= last), None)


def describe_known() -> str:
    """Return all known releases, shortened: `0.7, 0.8.0 to 0.8.2, 0.9, ..., 4.0 to 4.4`."""
    spans: list[list[Release]] = []
    for release in RELEASES:
        if spans and _family(spans[-1][-1]) == _family(release):
            spans[-1].append(release)
        else:
            spans.append([release])
    return ", ".join(" to ".join(dict.fromkeys(short_name(span[end]) for end in (0, -1))) for span in spans)


def last_before(release: Release) -> Release:
    """Return the last known release below one."""
    return RELEASES[bisect_left(RELEASES, release) - 1]


def with_log_files(release: Release) -> Release:
    """Return the release, or the first one whose partitions have `.log` files for a release before it (0.7)."""
    return max(release, Since.LOG_FILES)


def _is_known(release: Release) -> bool:
    """Return whether the release is in `KNOWN`.

    From 1.0 on the third number is the bug fix, before that the fourth; 0.7 has only three.
    """
    if release.major:
        return not release.build and Release(release.major, release.minor) in RELEASES
    if (release.major, release.minor) == RELEASES[0][:2]:
        return not release.build
    return release._replace(build=0) in RELEASES


def _refusal(text: str, release: Release | None) -> str:
    near = _neighbours(release) if release is not None else names_near(text, map(short_name, RELEASES))
    newer = f"Kafka {text} is newer than this kafkalog knows ({LATEST})"
    said = newer if release is not None and release > LATEST else f"{text!r} is not a release that kafkalog knows"
    advice = f"; the nearest: {' or '.join(near)}" if near else ""
    return f"{said}{advice}. Known releases, each with its bug fixes: {describe_known()}"


def _neighbours(release: Release) -> list[str]:
    """Return the known releases just before and after an unknown one."""
    place = bisect_right(RELEASES, release)
    return [short_name(each) for each in RELEASES[max(0, place - 1) : place + 1]]


def _family(release: Release) -> tuple[int, ...]:
    """Return the common numbers of releases that `describe_known` writes as one span."""
    return release[:1] if release.major else release[:2]


_RELEASES_IN: Final = Counter(map(_family, RELEASES))


def short_name(release: Release) -> str:
    """Return a release as people write it: 0.7, not 0.7.0."""
    return str(release) if _RELEASES_IN[_family(release)] > 1 else f"{release.major}.{release.minor}"
