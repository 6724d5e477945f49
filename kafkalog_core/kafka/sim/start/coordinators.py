"""The load of a coordinator's partition by a release: what it serves afterwards, and which record ends the load.

The broker that leads a partition of `__consumer_offsets` or `__transaction_state` reads its whole log after the start.
A record that the release does not know, or cannot replay, is skipped or ends the load (`coordinator_rules`):

- the group coordinator of 4.0 and later (`CoordinatorLoaderImpl`): the partition is not served, and its groups answer
  NOT_COORDINATOR. `group_shard` has the records that it cannot replay;
- the one before (`GroupMetadataManager.doLoadGroupsAndOffsets`): the partition is served without any of its groups, so
  that consumers begin where auto.offset.reset says;
- the transaction coordinator (`TransactionStateManager.loadTransactionMetadata`): what was read before is served, and
  what follows is not known.

The log is read once for any number of releases.
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
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.kafka.rules.coordinator_rules import CoordinatorRules
    from kafkalog_core.storage.scan import Run

__all__ = ["COORDINATOR_TOPICS", "GROUPS_TOPIC", "CoordinatorLoad", "LoadStop", "load_coordinator"]

GROUPS_TOPIC: Final = "__consumer_offsets"
COORDINATOR_TOPICS: Final = (GROUPS_TOPIC, TRANSACTIONS_TOPIC)
"""The topics whose partitions `load_coordinator` loads."""

_COMMIT_MARKER: Final = 1  # ControlRecordType
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
    """

    path: str
    offset: int | None
    position: int | None = None
    record: str = ""
    reason: str = ""

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
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> list[CoordinatorLoad]:
    """Return what each of some releases makes of a partition. Raises StorageError if it cannot be listed.

    Args:
        topic: one of `COORDINATOR_TOPICS`.
        directory: of the partition.
        releases: their rules.
        start_offset: the log start offset.
        end_offset: the log end offset after the start of the broker, which may have truncated the log.
        max_batch_bytes: larger batches are damage.
    """
    kind = _GroupLoad if topic == GROUPS_TOPIC else _TransactionLoad
    loads = {rules: kind(rules) for rules in releases}
    for item in _items(directory, max_batch_bytes):
        offset = item.offset
        if offset is not None and not start_offset <= offset < end_offset:
            continue
        for load in loads.values():
            if load.stop is not None:
                if isinstance(item, _Record):
                    load.miss(item)
            elif isinstance(item, LoadStop):
                load.stop = item
            else:
                load.replay(item)
    return [loads[rules].result(directory) for rules in releases]


# --- reading ----------------------------------------------------------------------------------------------------------
def _items(directory: str, max_bytes: int) -> Iterator[_Record | LoadStop]:
    """Yield the records and markers of a partition, and what of it no broker can read."""
    options = ScanOptions(max_batch_bytes=max_bytes, resync=True)
    for file in unit_of_partition(read_partition(directory), None).files:
        try:
            with Source.open(file.path) as source:
                for item in scan(source, base_offset=file.base_offset, options=options):
                    if not isinstance(item, Damage):
                        yield from _records(file.path, item, max_bytes)
                    elif not item.is_plain_tail:
                        yield LoadStop(path=file.path, offset=None, position=item.position, reason=item.detail)
        except StorageError as error:
            yield LoadStop(path=file.path, offset=None, position=0, reason=str(error))


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


class _Fields(NamedTuple):
    """A decoded record."""

    record_type: int
    key: dict[str, Any]
    value: dict[str, Any] | None


class _RefusedError(Exception):
    """Why a record ends a load; `record`: what it is."""

    def __init__(self, reason: str, record: str = "") -> None:
        super().__init__(reason)
        self.record = record


class _Load:
    """One load by the rules of a release."""

    _names: Mapping[int, str]

    def __init__(self, rules: CoordinatorRules) -> None:
        self._rules = rules
        self.stop: LoadStop | None = None
        self._skipped: Counter[str] = Counter()
        self._forgotten: set[str] = set()

    def replay(self, record: _Record) -> None:
        """Replay a record or a marker, or stop at it."""
        try:
            self._replay(record)
        except _RefusedError as error:
            self.stop = LoadStop(path=record.path, offset=record.offset, record=error.record, reason=str(error))
            self.miss(record)

    def miss(self, record: _Record) -> None:
        """Note what a record that is not loaded is about."""
        name = self._name_of(record.key)
        if name is not None:
            self._forgotten.add(name)

    def _replay(self, record: _Record) -> None:
        raise NotImplementedError

    def result(self, path: str) -> CoordinatorLoad:
        """Return what the load made of the partition."""
        raise NotImplementedError

    def _name_of(self, key: bytes | None) -> str | None:
        """Return the group, or the transactional id, in a key: its first field after the type; None: it has none."""
        if not key or int.from_bytes(key[:VERSION_BYTES], "big") not in self._names:
            return None
        start = 2 * VERSION_BYTES
        size = int.from_bytes(key[VERSION_BYTES:start], "big")
        return key[start : start + size].decode("utf-8", "replace")

    def _text(self, record_type: int, key: bytes) -> str:
        name, of = self._names.get(record_type, "unknown"), self._name_of(key)
        return f"a record of type {record_type} ({name})" + ("" if of is None else f" of {of!r}")

    def _type(self, key: bytes | None) -> int:
        if key is None:
            raise _RefusedError("the record has no key")
        if len(key) < VERSION_BYTES:
            raise _RefusedError("the key has no type")
        return int.from_bytes(key[:VERSION_BYTES], "big", signed=True)

    def _decoded(self, record_type: int, key: bytes, value: bytes | None, last_version: int) -> _Fields:
        """Decode a record. Bytes after the last field are ignored, as `ApiMessage.read` does. Raises _RefusedError."""
        name = self._names[record_type]
        try:
            fields, _ = codec(f"{name}Key", 0).decode(key, VERSION_BYTES)
        except ProtocolError as error:
            raise _RefusedError(f"its key does not decode: {error}", f"a record of type {record_type}") from error
        if value is None:
            return _Fields(record_type, fields, None)
        text = self._text(record_type, key)
        if len(value) < VERSION_BYTES:
            raise _RefusedError("its value has no version", text)
        version = int.from_bytes(value[:VERSION_BYTES], "big", signed=True)
        if not 0 <= version <= last_version:
            raise _UnknownVersionError(
                f"its value has version {version}, and the last known one is {last_version}", text
            )
        # Up to 4.0 a commit has the value of type 1 under both types.
        schema = "OffsetCommit" if name == "LegacyOffsetCommit" and version else name
        try:
            return _Fields(record_type, fields, codec(f"{schema}Value", version).decode(value, VERSION_BYTES)[0])
        except ProtocolError as error:
            raise _RefusedError(f"its value does not decode: {error}", text) from error


class _UnknownVersionError(_RefusedError):
    """The version of a value is not known."""


class _GroupLoad(_Load):
    """Groups and committed offsets."""

    def __init__(self, rules: CoordinatorRules) -> None:
        super().__init__(rules)
        self._names = coordinator_record_names(*GROUP_RECORDS)
        self._states = GroupStates()
        self._shard = GroupShard(rules) if rules.has_shards else None

    def _replay(self, record: _Record) -> None:
        if record.is_commit is not None:
            self._states.end_transaction(record.producer or 0, is_commit=record.is_commit)
            return
        rules, key = self._rules, record.key
        record_type = self._type(key)
        if key is None or record_type not in rules.types:
            if not rules.skips_unknown_types:
                raise _RefusedError(
                    f"the release does not know type {record_type}", self._text(record_type, key or b"")
                )
            self._skipped[f"type {record_type} ({self._names.get(record_type, 'unknown')})"] += 1
            self.miss(record)
            return
        fields = self._decoded(record_type, key, record.value, rules.last_version(record_type))
        if self._shard is not None:
            try:
                self._shard.replay(*fields)
            except ReplayError as error:
                raise _RefusedError(str(error), self._text(record_type, key)) from error
        self._states.replay(key, record.value, record.offset, record.producer)

    def result(self, path: str) -> CoordinatorLoad:
        """Return what the load made of the partition."""
        states = self._states
        if self._shard is None:  # a group of commits that were deleted again exists for a shard alone
            states.simple.clear()
        names = frozenset(states.names())
        served: Served = "all"
        if self.stop is not None:
            served = "none" if self._rules.has_shards else "empty"
            self._forgotten |= names
            names = frozenset()
        return CoordinatorLoad(
            path=path,
            served=served,
            stop=self.stop,
            skipped=dict(self._skipped),
            names=names,
            forgotten=frozenset(self._forgotten),
        )


class _TransactionLoad(_Load):
    """Transactional ids."""

    def __init__(self, rules: CoordinatorRules) -> None:
        super().__init__(rules)
        self._names = coordinator_record_names("TransactionLog")
        self._known: set[str] = set()

    def _replay(self, record: _Record) -> None:
        if record.is_commit is not None:
            return  # a control batch has no meaning here
        rules, key = self._rules, record.key
        record_type = self._type(key)
        if key is None or record_type != _TRANSACTION_TYPE:
            if not rules.skips_unknown_types:
                raise _RefusedError(f"the release does not know type {record_type}", f"a record of type {record_type}")
            self._skipped[f"type {record_type} (unknown)"] += 1
            return
        try:
            fields = self._decoded(record_type, key, record.value, rules.last_transaction_version)
        except _UnknownVersionError as error:
            if not rules.skips_unknown_transactions:
                raise
            self._skipped[str(error)] += 1
            self.miss(record)
            return
        name = fields.key["transactional_id"]
        if fields.value is None:
            self._known.discard(name)
            return
        status = fields.value["transaction_status"]
        if status not in _STATUSES:
            raise _RefusedError(f"its status {status} is unknown", self._text(record_type, key))
        self._known.add(name)

    def result(self, path: str) -> CoordinatorLoad:
        """Return what the load made of the partition."""
        return CoordinatorLoad(
            path=path,
            served="all" if self.stop is None else "before",
            stop=self.stop,
            skipped=dict(self._skipped),
            names=frozenset(self._known),
            forgotten=frozenset(self._forgotten),
        )
