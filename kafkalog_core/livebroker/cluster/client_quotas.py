"""The quotas of clients as the metadata log has them, and which of them counts for a client (KIP-55, KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "CLIENT_ID",
    "CONNECTION_RATE",
    "CONSUMER_RATE",
    "IP",
    "MUTATION_RATE",
    "PRODUCER_RATE",
    "REQUEST_PERCENTAGE",
    "USER",
    "AppliedQuota",
    "ClientQuotas",
    "QuotaEntity",
    "entity_of",
]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
PRODUCER_RATE: Final = "producer_byte_rate"
CONSUMER_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_RATE: Final = "connection_creation_rate"

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Types of entities with their names, ordered by type; the name None: the default of all that have no own quota."""


class AppliedQuota(NamedTuple):
    """The quota that counts for a client: its bound, and whose use is summed up: user and client id, "" for any."""

    bound: float
    shared_by: tuple[str, str]


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity of some names by their types."""
    return tuple(sorted(names.items()))


class ClientQuotas:
    """Quotas by entity. Network threads look them up while a request changes them.

    Attributes:
        entities: quotas by their keys, for each entity that has any.
        keys: the keys for which any entity has a quota.
        generation: a number that each change increases.
    """

    def __init__(self) -> None:
        """Begin without quotas."""
        self.entities: dict[QuotaEntity, dict[str, float]] = {}
        self.keys: frozenset[str] = frozenset()
        self.generation = 0

    def set(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        """Set all quotas of an entity; none: it has no quotas any more."""
        if quotas:
            self.entities[entity] = dict(quotas)
        else:
            self.entities.pop(entity, None)
        self.keys = frozenset(key for each in self.entities.values() for key in each)
        self.generation += 1

    def applied(self, key: str, user: str, client_id: str) -> AppliedQuota | None:
        """Return the quota for a client, the most specific one; None: it has none.

        The order follows `ClientQuotaManager.DefaultQuotaCallback`: a user's before a client id's. Clients share a
        quota at the level that has it: with one of a user, all client ids of that user.
        """
        for entity, shared_by in _levels(user, client_id):
            quotas = self.entities.get(entity)
            if quotas is not None and key in quotas:
                return AppliedQuota(quotas[key], shared_by)
        return None

    def of_hosts(self) -> Iterable[tuple[str | None, float]]:
        """Return the connection rates by the name of the host; None: that of all others (`ConnectionQuotas`)."""
        return [
            (entity[0][1], quotas[CONNECTION_RATE])
            for entity, quotas in list(self.entities.items())
            if entity[0][0] == IP and CONNECTION_RATE in quotas
        ]


def _levels(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, tuple[str, str]]]:
    for named in (user, None):
        yield ((CLIENT_ID, client_id), (USER, named)), (user, client_id)
        yield ((CLIENT_ID, None), (USER, named)), (user, client_id)
        yield ((USER, named),), (user, "")
    for client in (client_id, None):
        yield ((CLIENT_ID, client),), ("", client_id)
