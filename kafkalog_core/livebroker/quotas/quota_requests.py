"""DescribeClientQuotas and AlterClientQuotas (KIP-546): quotas in the metadata log.

Rules and messages follow `ClientQuotaControlManager` and `ClientQuotasImage` of Kafka 4.3.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kafkalog_core.livebroker.cluster.client_quotas import (
    CLIENT_ID,
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
    entity_of,
)
from kafkalog_core.livebroker.topics.topic_changes import MAX_CHANGES, RefusedChange
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_core.livebroker.cluster.cluster_log import ClusterLog, MetadataChange
    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["QuotaRequests"]

_TYPES: Final = frozenset({USER, CLIENT_ID, IP})
_EXACT, _DEFAULT, _ANY = range(3)  # DescribeClientQuotasRequest.MATCH_TYPE_*
_MATCH_NAMES: Final = {_EXACT: "EXACT", _DEFAULT: "DEFAULT", _ANY: "SPECIFIED"}
_INTEGER_LIMITS: Final = {
    PRODUCER_RATE: ("LONG", 2.0**63),
    CONSUMER_RATE: ("LONG", 2.0**63),
    CONNECTION_RATE: ("INT", 2.0**31 - 1),
}
"""Type and largest value of the keys that take no fraction (QuotaConfig)."""
_KEYS: Final = frozenset({PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE, MUTATION_RATE})
_KEYS_OF_IP: Final = frozenset({CONNECTION_RATE})
_SMALLEST_FRACTION: Final = 1e-6


class QuotaRequests:
    """The handlers of the requests about quotas of clients."""

    def __init__(self, disks: LiveDisks, resolve: Callable[[str], str | None]) -> None:
        """Take the disks. resolve: returns the address of a host, or None."""
        self._disks = disks
        self._resolve = resolve

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"DescribeClientQuotas": (1, self.describe), "AlterClientQuotas": (1, self.alter)}

    # --- DescribeClientQuotas -----------------------------------------------------------------------------------------
    def describe(self, context: RequestContext) -> Answer:
        """Answer DescribeClientQuotas: the quotas of the entities that fit a filter."""
        answer: Body = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": "", "entries": None}
        try:
            exact, present = _filter_of(context.body["components"])
        except RefusedChange as refusal:
            return context.reply(answer | {"error_code": refusal.code, "error_message": str(refusal)})
        number = len(exact) + len(present) if context.body["strict"] else None
        entries = [
            {
                "entity": _entity_body(entity),
                "values": [{"key": key, "value": value} for key, value in quotas.items()],
            }
            for entity, quotas in sorted(self._disks.quotas.entities.items(), key=_order)
            if _matches(dict(entity), exact, present, number)
        ]
        return context.reply(answer | {"entries": entries})

    # --- AlterClientQuotas --------------------------------------------------------------------------------------------
    def alter(self, context: RequestContext) -> Answer:
        """Answer AlterClientQuotas: all valid changes are one batch of the log."""
        results: dict[QuotaEntity, RefusedChange | None] = {}
        changes: list[MetadataChange] = []
        # Held until the write, so that what was checked is still true then.
        with self._disks.changing() as cluster:
            for entry in context.body["entries"]:
                # ClientQuotaControlManager.alterClientQuotas reports a second entry, after it has taken the first one
                names = {each["entity_type"]: each["entity_name"] for each in entry["entity"]}
                entity = entity_of(names)
                try:
                    _check_once(names, entry["ops"], is_known=entity in results)
                    changes += self._changes(entity, names, entry["ops"], cluster)
                    results[entity] = None
                except RefusedChange as refusal:
                    results[entity] = refusal
            if len(changes) > MAX_CHANGES:
                message = "Unable to perform excessively large batch operation."
                results = dict.fromkeys(results, RefusedChange(ErrorCode.POLICY_VIOLATION, message))
            elif not context.body["validate_only"]:
                cluster.write(changes)
        entries = [
            {
                "error_code": ErrorCode.NONE if refusal is None else refusal.code,
                "error_message": None if refusal is None else str(refusal),
                "entity": _entity_body(entity),
            }
            for entity, refusal in results.items()
        ]
        return context.reply({"throttle_time_ms": 0, "entries": entries})

    def _changes(
        self, entity: QuotaEntity, names: Mapping[str, str | None], operations: Iterable[Body], cluster: ClusterLog
    ) -> list[MetadataChange]:
        """Return the records of one entity (`ClientQuotaControlManager.alterClientQuotaEntity`)."""
        if not cluster.is_kept:
            message = "there is no metadata log here (a broker with ZooKeeper), so quotas cannot be stored"
            raise RefusedChange(ErrorCode.UNSUPPORTED_VERSION, message)
        known = self._keys_of(names)
        present = cluster.quotas.entities.get(entity, {})
        changes: list[MetadataChange] = []
        for each in operations:
            key, value = each["key"], each["value"]
            fields = {"entity": _entity_body(entity), "key": key, "value": 0.0, "remove": True}
            if not each["remove"]:
                _check_value(known, key, value)
                fields |= {"value": value, "remove": False}
                # A record that changes nothing is not written.
                if present.get(key) == value:
                    continue
            elif key not in present:
                continue
            changes.append(("ClientQuotaRecord", 0, fields))
        return changes

    def _keys_of(self, names: Mapping[str, str | None]) -> frozenset[str]:
        """Return the keys that an entity may have (`validateEntity`, `configKeysForEntityType`)."""
        if not names:
            raise RefusedChange(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
        for kind, name in names.items():
            if kind not in _TYPES:
                raise RefusedChange(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
            if name == "":
                raise RefusedChange(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
        if IP not in names:
            return _KEYS
        if len(names) > 1:
            message = "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            raise RefusedChange(ErrorCode.INVALID_REQUEST, message)
        host = names[IP]
        if host is not None and self._resolve(host) is None:
            raise RefusedChange(ErrorCode.INVALID_REQUEST, f"{host} is not a valid IP or resolvable host.")
        return _KEYS_OF_IP


def _check_once(names: Mapping[str, str | None], operations: Iterable[Body], *, is_known: bool) -> None:
    """Raise RefusedChange for an entity that was there before, or has a key twice: a broker's message is the same."""
    keys = [each["key"] for each in operations]
    if is_known or len(set(keys)) < len(keys):
        raise RefusedChange(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {_text_of(names)}")


def _check_value(known: frozenset[str], key: str, value: float) -> None:
    """Raise RefusedChange for a value that a key cannot have (`validateQuotaKeyValue`)."""
    reason = None
    if key not in known:
        reason = f"Invalid configuration key {key}"
    elif math.isnan(value) or value <= 0.0:  # a broker takes what is not a number, and never throttles by it
        reason = f"Quota {key} must be greater than 0"
    elif key in _INTEGER_LIMITS:
        name, most = _INTEGER_LIMITS[key]
        if value > most:
            reason = f"Proposed value for {key} is too large for {'an' if name == 'INT' else 'a'} {name}."
        elif abs(math.fmod(value, 1.0)) > _SMALLEST_FRACTION:
            reason = f"{key} cannot be a fractional value."
    if reason is not None:
        raise RefusedChange(ErrorCode.INVALID_REQUEST, reason)


def _filter_of(components: Iterable[Body]) -> tuple[dict[str, str | None], set[str]]:
    """Return the names that entities must have by their types, and the types that they must have with any name.

    Raises RefusedChange (`ClientQuotasImage.describe`).
    """
    exact: dict[str, str | None] = {}
    present: set[str] = set()
    for each in components:
        kind, match_type, match = each["entity_type"], each["match_type"], each["match"]
        if not kind:
            raise RefusedChange(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in exact or kind in present:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            raise RefusedChange(ErrorCode.INVALID_REQUEST, message)
        if kind not in _TYPES:
            raise RefusedChange(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        problem = _match_problem(match_type, match)
        if problem is not None:
            raise RefusedChange(ErrorCode.INVALID_REQUEST, problem)
        if match_type == _ANY:
            present.add(kind)
        else:
            exact[kind] = match
    kinds = exact.keys() | present
    if IP in kinds and len(kinds) > 1:
        message = "Invalid entity filter component combination. IP filter component should not be used with user or "
        raise RefusedChange(ErrorCode.INVALID_REQUEST, f"{message}clientId filter component.")
    return exact, present


def _match_problem(match_type: int, match: str | None) -> str | None:
    """Return why a filter cannot be what it is, else None."""
    if match_type not in _MATCH_NAMES:
        return f"Unknown match type {match_type}"
    if match_type == _EXACT:
        return "Request specified MATCH_TYPE_EXACT, but set match string to null." if match is None else None
    if match is None:
        return None
    return f"Request specified MATCH_TYPE_{_MATCH_NAMES[match_type]}, but also specified a match string."


def _matches(
    names: Mapping[str, str | None], exact: Mapping[str, str | None], present: set[str], number: int | None
) -> bool:
    """Return whether an entity fits a filter; `number`: of its types, None: any."""
    if number is not None and len(names) != number:
        return False
    return present <= names.keys() and all(kind in names and names[kind] == name for kind, name in exact.items())


def _order(item: tuple[QuotaEntity, object]) -> list[tuple[str, str]]:
    return [(kind, name or "") for kind, name in item[0]]


def _entity_body(entity: QuotaEntity) -> list[Body]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]


def _text_of(names: Mapping[str, str | None]) -> str:
    """Return an entity as a broker writes it (`ClientQuotaEntity.toString`)."""
    rows = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in names.items())
    return f"ClientQuotaEntity(entries={{{rows}}})"
