"""The load of a coordinator's partition by a release: what it serves afterwards, and which record ends the load.

The broker that leads a partition of `__consumer_offsets` or `__transaction_state` reads its whole log after the start.
A record that the release does not know, or cannot replay, is skipped or ends the load (`coordinator_rules`):

- the group coordinator of 4.0 and later (`CoordinatorLoaderImpl`): the partition is not served, and its groups answer
  NOT_COORDINATOR. `group_shard` has the records that it cannot replay;
- the one before (`GroupMetadataManager.doLoadGroupsAndOffsets`): the partition is served without any of its groups, so
  that consumers begin where auto.offset.reset says;
- the transaction coordinator (`TransactionStateManager.loadTransactionMetadata`): what was read before is served, and
  what follows is not known.

The log is read and decoded once for any number of releases.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from kafkalog_core.errors import ProtocolError, StorageError
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, MAX_INT64, TRANSACTIONAL_BIT
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.sim.coordinator_logs import records_of
from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.kafka.sim.start.group_shard import GroupShard, ReplayError
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct
from kafkalog_core.topics.group_states import GroupStates
from kafkalog_core.topics.record_decoders import GROUP_RECORDS, coordinator_record_names
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC, TransactionPhase
from kafkalog_core.wire.codec import VERSION_BYTES, codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.rules.coordinator_rules import CoordinatorRules
    from kafkalog_core.storage.scan import Run

__all__ = ["COORDINATOR_TOPICS", "GROUPS_TOPIC", "CoordinatorLoad", "LoadStop", "load_coordinator"]

GROUPS_TOPIC: Final = "__consumer_offsets"
COORDINATOR_TOPICS: Final = (GROUPS_TOPIC, TRANSACTIONS_TOPIC)
"""The topics whose partitions `load_coordinator` loads."""

_COMMIT_MARKER: Final = 1  # ControlRecordType
_SIZE_AT: Final = 8
_ENVELOPE_BYTES: Final = 12
_TRANSACTION_TYPE: Final = 0
_STATUSES: Final = frozenset((*TransactionPhase, 7))  # 7: PrepareEpochFence, which no broker writes

Served = Literal["all", "before", "none", "empty"]
"""What is served after the load: all that was read; what was read before the record that ended it; nothing, and clients
are refused; the partition, as if its log were empty."""


class LoadStop(Struct, frozen=True, kw_only=True):
    """Where a load ends before the end of the log.

    Args:
        path: of the log file.
        offset: of the record; of a batch that cannot be read its base offset. None: unknown.
        position: the byte where the log cannot be read; None: the record was read.
        record: what the record is: its name and the group or the transactional id; empty: it is not known.
        reason: why the release cannot load it.
        is_silent: whether a broker takes the place for the end of the log: the load ends there without an error.
    """

    path: str
    offset: int | None
    position: int | None = None
    record: str = ""
    reason: str = ""
    is_silent: bool = False

    @property
    def text(self) -> str:
        """Where and what, as a phrase."""
        place = f"byte {self.position}" if self.offset is None else f"offset {self.offset}"
        what = f", {self.record}" if self.record else ""
        return f"{self.path}, {place}{what}: {self.reason}"


class CoordinatorLoad(Struct, frozen=True, kw_only=True):
    """What a release makes of a coordinator's partition.

    Args:
        path: of the partition.
        served: what it serves afterwards.
        stop: where the load ends; None: at the end of the log.
        skipped: how many records it skips with a warning in its log, by what they are: it forgets what they say.
        names: the groups, or the transactional ids, that it knows afterwards.
        forgotten: those of which it skips records or does not read them.
    """

    path: str
    served: Served
    stop: LoadStop | None
    skipped: Mapping[str, int]
    names: frozenset[str]
    forgotten: frozenset[str]

    @property
    def is_whole(self) -> bool:
        """Whether the coordinator knows all that the log says."""
        return self.stop is None and not self.skipped


class _Record(NamedTuple):
    """A record or a marker, in the order of the log; `producer` None: it is of no transaction."""

    path: str
    offset: int
    key: bytes | None
    value: bytes | None
    producer: int | None
    is_commit: bool | None = None


def load_coordinator(
    topic: str,
    directory: str,
    releases: Sequence[CoordinatorRules],
    *,
    start_offset: int = 0,
    end_offset: int = MAX_INT64,
    sizes: Mapping[int, int] | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> list[CoordinatorLoad]:
    """Return what each of some releases makes of a partition. Raises StorageError if it cannot be listed.

    Args:
        topic: one of `COORDINATOR_TOPICS`.
        directory: of the partition.
        releases: their rules.
        start_offset: the log start offset.
        end_offset: the log end offset after the start of the broker, which may have truncated the log.
        sizes: the sizes of the log files after the start, in bytes, by base offset; of damage the offset is not known,
            so the sizes show whether the start has truncated it. None: as they are on the disk.
        max_batch_bytes: larger batches are damage.
    """
    topic_loads = _GroupLoads if topic == GROUPS_TOPIC else _TransactionLoads
    loads = topic_loads(dict.fromkeys(releases))
    for item in _items(directory, sizes, max_batch_bytes):
        if item.offset is None or start_offset <= item.offset < end_offset:
            loads.replay(item)
    return [loads.result(rules, directory) for rules in releases]


# --- reading ----------------------------------------------------------------------------------------------------------
def _items(directory: str, sizes: Mapping[int, int] | None, max_bytes: int) -> Iterator[_Record | LoadStop]:
    """Yield the records and markers of a partition, and what of it no broker can read.

    No coordinator computes a checksum: each release loads what is in a batch whose checksum is wrong.
    """
    options = ScanOptions(max_batch_bytes=max_bytes, check=False, resync=True)
    for file in unit_of_partition(read_partition(directory), None).files:
        end = MAX_INT64 if sizes is None or file.base_offset is None else sizes.get(file.base_offset, 0)
        if not end:  # the start has deleted or emptied it
            continue
        try:
            with Source.open(file.path) as source:
                for item in scan(source, base_offset=file.base_offset, options=options):
                    if not isinstance(item, Damage):
                        yield from _records(file.path, item, max_bytes)
                    # A remark about the order of offsets has no bytes: all batches of one read are loaded
                    elif item.size_bytes and not item.is_plain_tail and item.position < end:
                        yield _stop(source, item)
        except StorageError as error:
            yield LoadStop(path=file.path, offset=None, position=0, reason=str(error))


def _stop(source: Source, damage: Damage) -> LoadStop:
    """Return the end of a load at damage.

    A size beyond the end of the file is to a broker as an append that was cut short: `FileLogInputStream.nextBatch` and
    `ByteBufferLogInputStream.nextBatch` return no batch. Each release finishes such a load, and knows what is before.
    """
    size = int.from_bytes(source.read(damage.position, _ENVELOPE_BYTES)[_SIZE_AT:], "big", signed=True)
    rest = source.size_bytes - damage.position - _ENVELOPE_BYTES
    if size <= max(rest, 0):
        return LoadStop(path=source.path, offset=None, position=damage.position, reason=damage.detail)
    reason = f"the length field at byte {damage.position + _SIZE_AT} gives {size} bytes, and the file has {rest}"
    return LoadStop(path=source.path, offset=None, position=damage.position, reason=reason, is_silent=True)


def _records(path: str, run: Run, max_bytes: int) -> Iterator[_Record | LoadStop]:
    """Yield the records and markers of a run of batches, in their order."""
    batches = run.batches
    formats, attributes = batches.column("format"), batches.column("attributes")
    producers, offsets = batches.column("producer_id"), batches.column("base_offset")
    flags = [value if magic == MAGIC_V2 else 0 for value, magic in zip(attributes, formats, strict=True)]
    found: list[tuple[int, _Record | LoadStop]] = [
        (row, _Record(path, offsets[row], b"", None, producers[row], marker.type_id == _COMMIT_MARKER))
        for row, marker in markers_of(run.memory, batches, max_bytes=max_bytes).items()
    ]
    for item in decode_run(run.memory, batches, max_bytes=max_bytes, wanted=lambda row: not flags[row] & CONTROL_BIT):
        if isinstance(item, PayloadDamage):
            stop = LoadStop(path=path, offset=offsets[item.batch], reason=f"the batch cannot be read: {item.detail}")
            found.append((item.batch, stop))
            continue
        for row, offset, _, key, value in records_of(item):
            producer = producers[row] if flags[row] & TRANSACTIONAL_BIT else None
            found.append((row, _Record(path, offset, key, value, producer)))
    found.sort(key=lambda each: each[0])  # stable: records of a batch keep their order
    yield from (item for _, item in found)


class _Decoded(NamedTuple):
    """A record as far as it decodes.

    Args:
        record: as it is in the log.
        record_type: the type in its key.
        name: the group or the transactional id in its key; None: it has none.
        key: the fields of the key; None: the type is not known.
        version: of the value; None: a tombstone.
        value: the fields of the value; None: a tombstone, or it does not decode.
        key_problem: why no release decodes the key.
        value_problem: why no release that knows the version decodes the value.
    """

    record: _Record
    record_type: int = -1
    name: str | None = None
    key: dict[str, Any] | None = None
    version: int | None = None
    value: dict[str, Any] | None = None
    key_problem: str = ""
    value_problem: str = ""


class _RefusedError(Exception):
    """Why a record ends a load."""


class _UnknownVersionError(_RefusedError):
    """The version of a value is not known."""


class _Load:
    """What the load by the rules of one release has come to."""

    def __init__(self, rules: CoordinatorRules) -> None:
        self.rules = rules
        self.stop: LoadStop | None = None
        self.skipped: Counter[str] = Counter()
        self.forgotten: set[str] = set()
        self.shard = GroupShard(rules) if rules.has_shards else None
        self.known: set[str] = set()

    def miss(self, name: str | None) -> None:
        """Note what a record that is not loaded is about."""
        if name is not None:
            self.forgotten.add(name)

    def skip(self, what: str, name: str | None) -> None:
        """Skip a record."""
        self.skipped[what] += 1
        self.miss(name)


class _Loads:
    """The loads of one partition by the rules of some releases."""

    names: Mapping[int, str]

    def __init__(self, releases: Iterable[CoordinatorRules]) -> None:
        self.loads = {rules: _Load(rules) for rules in releases}

    def replay(self, item: _Record | LoadStop) -> None:
        """Replay a record or a marker, or stop where the log cannot be read."""
        if isinstance(item, LoadStop):
            for load in self.loads.values():
                load.stop = load.stop or item
            return
        if item.is_commit is not None:
            self.end_transaction(item)
            return
        decoded = self._decode(item)
        for load in self.loads.values():
            if load.stop is not None:
                load.miss(decoded.name)
                continue
            try:
                self.replay_by(load, decoded)
            except _RefusedError as error:
                text = self._text(decoded)
                load.stop = LoadStop(path=item.path, offset=item.offset, record=text, reason=str(error))
                load.miss(decoded.name)
        self.replayed(decoded)

    def end_transaction(self, marker: _Record) -> None:
        """Replay a marker."""

    def replay_by(self, load: _Load, decoded: _Decoded) -> None:
        """Replay a record by the rules of a release. Raises _RefusedError."""
        raise NotImplementedError

    def replayed(self, decoded: _Decoded) -> None:
        """Keep what a record says, whatever releases make of it."""

    def result(self, rules: CoordinatorRules, path: str) -> CoordinatorLoad:
        """Return what a release made of the partition."""
        raise NotImplementedError

    def _decode(self, record: _Record) -> _Decoded:
        key, value = record.key, record.value
        if key is None or len(key) < VERSION_BYTES:
            return _Decoded(record, key_problem="the record has no key" if key is None else "the key has no type")
        record_type = int.from_bytes(key[:VERSION_BYTES], "big", signed=True)
        schema = self.names.get(record_type)
        if schema is None:
            return _Decoded(record, record_type)
        start = 2 * VERSION_BYTES
        name = key[start : start + int.from_bytes(key[VERSION_BYTES:start], "big")].decode("utf-8", "replace")
        try:
            # bytes after the last field are ignored, as ApiMessage.read does
            fields, _ = codec(f"{schema}Key", 0).decode(key, VERSION_BYTES)
        except ProtocolError as error:
            return _Decoded(record, record_type, name, key_problem=f"its key does not decode: {error}")
        decoded = _Decoded(record, record_type, name, fields)
        return decoded if value is None else _with_value(decoded, schema, value)

    def _text(self, decoded: _Decoded) -> str:
        if decoded.record_type < 0:
            return ""
        of = "" if decoded.name is None else f" of {decoded.name!r}"
        return f"a record of type {decoded.record_type} ({self.names.get(decoded.record_type, 'unknown')}){of}"


def _with_value(decoded: _Decoded, schema: str, value: bytes) -> _Decoded:
    """Return a record with its value, as far as that decodes."""
    if len(value) < VERSION_BYTES:
        return decoded._replace(version=-1, value_problem="its value has no version")
    version = int.from_bytes(value[:VERSION_BYTES], "big", signed=True)
    # up to 4.0 a commit has the value of type 1 under both types
    name = "OffsetCommit" if schema == "LegacyOffsetCommit" and version else schema
    try:
        said, _ = codec(f"{name}Value", version).decode(value, VERSION_BYTES)
    except ProtocolError as error:
        return decoded._replace(version=version, value_problem=f"its value does not decode: {error}")
    return decoded._replace(version=version, value=said)


def _check(decoded: _Decoded, last_version: int) -> None:
    """Raise _RefusedError for a record of a known type that a release does not decode."""
    if decoded.key_problem:
        raise _RefusedError(decoded.key_problem)
    version = decoded.version
    if version is None:
        return
    if len(decoded.record.value or b"") >= VERSION_BYTES and not 0 <= version <= last_version:
        raise _UnknownVersionError(f"its value has version {version}, and the last known one is {last_version}")
    if decoded.value_problem:
        raise _RefusedError(decoded.value_problem)


class _GroupLoads(_Loads):
    """Groups and committed offsets."""

    def __init__(self, releases: Iterable[CoordinatorRules]) -> None:
        super().__init__(releases)
        self.names = coordinator_record_names(*GROUP_RECORDS)
        self._states = GroupStates()

    def end_transaction(self, marker: _Record) -> None:
        """Replay a marker."""
        self._states.end_transaction(marker.producer or 0, is_commit=bool(marker.is_commit))

    def replayed(self, decoded: _Decoded) -> None:
        """Replay a record into the state of all groups, of which each release knows a part."""
        record = decoded.record
        self._states.replay(record.key, record.value, record.offset, record.producer)

    def replay_by(self, load: _Load, decoded: _Decoded) -> None:
        """Replay a record by the rules of a release. Raises _RefusedError."""
        rules, number = load.rules, decoded.record_type
        if number < 0:
            raise _RefusedError(decoded.key_problem or f"the release does not know type {number}")
        if number not in rules.types:
            if not rules.skips_unknown_types:
                raise _RefusedError(f"the release does not know type {number}")
            load.skip(f"type {number} ({self.names.get(number, 'unknown')})", decoded.name)
            return
        _check(decoded, rules.last_version(number))
        if load.shard is not None and decoded.key is not None:
            try:
                load.shard.replay(number, decoded.key, decoded.value)
            except ReplayError as error:
                raise _RefusedError(str(error)) from error

    def result(self, rules: CoordinatorRules, path: str) -> CoordinatorLoad:
        """Return what a release made of the partition."""
        load, states = self.loads[rules], self._states
        known = {*states.classic, *states.offsets.offsets, *(each for each, _ in self._pending())}
        if rules.has_shards:  # a group of commits that were deleted again exists for a shard alone
            known |= states.simple
        for number, groups in _GROUPS_BY_TYPE.items():
            if number in rules.types:
                known |= getattr(states, groups).keys()
        served: Served = "all"
        if load.stop is not None and load.stop.is_silent:
            served = "before"
            known -= load.forgotten
        elif load.stop is not None:
            served = "none" if rules.has_shards else "empty"
            load.forgotten |= known
            known = set()
        return CoordinatorLoad(
            path=path,
            served=served,
            stop=load.stop,
            skipped=dict(load.skipped),
            names=frozenset(known),
            forgotten=frozenset(load.forgotten),
        )

    def _pending(self) -> Iterator[tuple[str, object]]:
        for offsets in self._states.offsets.pending.values():
            yield from offsets


_GROUPS_BY_TYPE: Final = {3: "consumers", 11: "shares", 17: "streams"}
"""The groups of `GroupStates` that a release with a record type knows."""


class _TransactionLoads(_Loads):
    """Transactional ids."""

    def __init__(self, releases: Iterable[CoordinatorRules]) -> None:
        super().__init__(releases)
        self.names = coordinator_record_names("TransactionLog")

    def replay_by(self, load: _Load, decoded: _Decoded) -> None:
        """Replay a record by the rules of a release. Raises _RefusedError."""
        rules = load.rules
        if decoded.record_type < 0:
            raise _RefusedError(decoded.key_problem or f"the release does not know type {decoded.record_type}")
        if decoded.record_type != _TRANSACTION_TYPE:
            if not rules.skips_unknown_types:
                raise _RefusedError(f"the release does not know type {decoded.record_type}")
            load.skip(f"type {decoded.record_type} (unknown)", None)
            return
        try:
            _check(decoded, rules.last_transaction_version)
        except _UnknownVersionError as error:
            if not rules.skips_unknown_transactions:
                raise
            load.skip(str(error), decoded.name)
            return
        name = decoded.name or ""
        if decoded.value is None:
            load.known.discard(name)
            return
        status = decoded.value["transaction_status"]
        if status not in _STATUSES:
            raise _RefusedError(f"its status {status} is unknown")
        load.known.add(name)

    def result(self, rules: CoordinatorRules, path: str) -> CoordinatorLoad:
        """Return what a release made of the partition."""
        load = self.loads[rules]
        return CoordinatorLoad(
            path=path,
            served="all" if load.stop is None else "before",
            stop=load.stop,
            skipped=dict(load.skipped),
            names=frozenset(load.known),
            forgotten=frozenset(load.forgotten),
        )
