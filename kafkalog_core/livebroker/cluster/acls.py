"""Access control lists: bindings, filters of bindings, and the decision whether a client may do something.

The rules follow `StandardAuthorizerData.authorize` and `findResult` of Kafka 4.4, and of
`Authorizer.authorizeByResourceType` (KIP-679): a DENY that matches wins over every ALLOW, and a resource without any
binding follows `allow.everyone.if.no.acl.found`. Nothing here knows requests or connections.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CLUSTER_NAME",
    "SUPPORTED_OPERATIONS",
    "WILDCARD",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "Acls",
    "Authorizer",
    "PatternType",
    "ResourceType",
    "host_range",
]

WILDCARD: Final = "*"
"""Any host, or as a LITERAL pattern any resource."""
_ANY_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER (`Resource.CLUSTER_NAME`)."""
_ADDRESS_V4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)  # of SubnetUtils
_RANGE_V4: Final = re.compile(r"(.*)/(\d{1,2})", re.ASCII)
_PREFIX_V6: Final = re.compile(r"\+?\d{1,9}", re.ASCII)  # Integer.parseInt
_MAX_OCTET: Final = 255
_BITS_V4: Final = 32
_BITS_V6: Final = 128
_ANY_NAME: Final = "hardcode"  # Authorizer.authorizeByResourceType asks for a resource of this name


class ResourceType(IntEnum):
    """What a binding is about, by its number in requests and in the metadata log."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in a binding matches names of resources (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What a client wants to do with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Whether a binding allows or denies (`AclPermissionType`)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_IMPLIED_BY: Final = {
    # StandardAuthorizerData: an ALLOW of one of these is an ALLOW of the key; a DENY denies its own operation alone
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
SUPPORTED_OPERATIONS: Final = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}
"""The operations that there are for a resource, by its type (`AclEntry.supportedOperations`)."""


class AclBinding(NamedTuple):
    """A rule for one pattern of resources, one principal, one host and one operation.

    Numbers belong to the enumerations here; a binding of a later release may have others, which match nothing.
    """

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(Struct, frozen=True):
    """Which bindings are listed or deleted (`AclBindingFilter`); None matches every name, principal or host."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, binding: AclBinding) -> bool:
        """Return whether a binding is meant."""
        return (
            self.resource_type in {ResourceType.ANY, binding.resource_type}
            and self._matches_name(binding)
            and self.principal in {None, binding.principal}
            and self.host in {None, binding.host}
            and self.operation in {AclOperation.ANY, binding.operation}
            and self.permission in {AclPermission.ANY, binding.permission}
        )

    def _matches_name(self, binding: AclBinding) -> bool:
        """See `ResourcePatternFilter.matches`: MATCH finds every pattern that applies to the resource of the name."""
        if self.pattern not in {PatternType.ANY, PatternType.MATCH, binding.pattern}:
            return False
        if self.name is None:
            return True
        if self.pattern != PatternType.MATCH:
            return self.name == binding.name
        if binding.pattern == PatternType.PREFIXED:
            return self.name.startswith(binding.name)
        return binding.name in {self.name, WILDCARD}


class Acls:
    """The bindings of a cluster, by their ids of 16 bytes.

    One thread at a time changes them; others may decide meanwhile. The changes of one request are seen one by one, as
    on a broker (`AclPublisher`).
    """

    def __init__(self) -> None:
        """Begin without bindings."""
        self._by_id: dict[bytes, AclBinding] = {}
        self._counts: Counter[object] = Counter()
        self._by_pattern: dict[tuple[int, int, str], frozenset[AclBinding]] = {}
        self._prefix_sizes: dict[int, Counter[int]] = {}
        self._sizes: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        """Return the number of bindings."""
        return len(self._by_id)

    def __contains__(self, binding: object) -> bool:
        """Return whether there is this very binding."""
        return self._counts[binding] > 0

    def by_id(self) -> dict[bytes, AclBinding]:
        """Return the bindings by their ids, the oldest first."""
        return dict(self._by_id)

    def add(self, acl_id: bytes, binding: AclBinding) -> None:
        """Add a binding, or replace the one of that id."""
        self.remove(acl_id)
        self._by_id[acl_id] = binding
        self._counts[binding] += 1
        if self._counts[binding] == 1:
            key = _pattern_of(binding)
            self._by_pattern[key] = self._by_pattern.get(key, frozenset()) | {binding}
            self._count_prefix(binding, 1)

    def remove(self, acl_id: bytes) -> None:
        """Remove the binding of an id, if there is one."""
        binding = self._by_id.pop(acl_id, None)
        if binding is None:
            return
        self._counts[binding] -= 1
        if self._counts[binding]:
            return
        del self._counts[binding]
        key = _pattern_of(binding)
        left = self._by_pattern[key] - {binding}
        if left:
            self._by_pattern[key] = left
        else:
            del self._by_pattern[key]
        self._count_prefix(binding, -1)

    def _count_prefix(self, binding: AclBinding, change: int) -> None:
        """Keep the lengths of prefixes: a look-up tries each of them."""
        if binding.pattern == PatternType.PREFIXED:
            counts = self._prefix_sizes.setdefault(binding.resource_type, Counter())
            counts[len(binding.name)] += change
            self._sizes[binding.resource_type] = tuple(sorted(size for size, count in counts.items() if count > 0))

    def of_resource(self, kind: int, name: str) -> Iterator[AclBinding]:
        """Yield every binding whose pattern matches a resource."""
        yield from self._by_pattern.get((kind, PatternType.LITERAL, name), ())
        if name != WILDCARD:
            yield from self._by_pattern.get((kind, PatternType.LITERAL, WILDCARD), ())
        for size in self._sizes.get(kind, ()):
            if size > len(name):
                break
            yield from self._by_pattern.get((kind, PatternType.PREFIXED, name[:size]), ())

    def of_type(self, kind: int) -> Iterator[AclBinding]:
        """Yield every binding of a type of resource."""
        return (each for each in list(self._by_id.values()) if each.resource_type == kind)


def _pattern_of(binding: AclBinding) -> tuple[int, int, str]:
    return binding.resource_type, binding.pattern, binding.name


class Authorizer(Struct, frozen=True):
    """Decides by bindings and by two settings (`StandardAuthorizer`).

    Args:
        acls: the bindings.
        super_users: principals that may do everything [super.users].
        allows_unlisted: whether everybody may use a resource that no binding is about
            [allow.everyone.if.no.acl.found].
        matches_ranges: whether the host of a binding may be a range of addresses (`rule_table.matches_host_ranges`).
    """

    acls: Acls
    super_users: frozenset[str] = frozenset()
    allows_unlisted: bool = False
    matches_ranges: bool = True

    def may(self, client: tuple[str, str], operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Return whether a client, a principal and its host, may do something with a resource."""
        principal, host = client
        if principal in self.super_users:
            return True
        is_listed = is_allowed = False
        for binding in self.acls.of_resource(kind, name):
            is_listed = True
            if not self._is_about(binding, principal, host):
                continue
            if binding.permission == AclPermission.ALLOW:
                is_allowed = is_allowed or _allows(binding.operation, operation)
            elif binding.operation in {AclOperation.ALL, operation}:
                return False
        return is_allowed or (self.allows_unlisted and not is_listed)

    def may_with_any(self, client: tuple[str, str], operation: AclOperation, kind: ResourceType) -> bool:
        """Return whether a client may do something with at least one resource of a type (KIP-679)."""
        if self.may(client, operation, kind, _ANY_NAME):
            return True
        found = [
            each
            for each in self.acls.of_type(kind)
            if self._is_about(each, *client) and each.operation in {AclOperation.ALL, operation}
        ]
        denied = {(each.pattern, each.name) for each in found if each.permission == AclPermission.DENY}
        allowed = {(each.pattern, each.name) for each in found if each.permission == AclPermission.ALLOW}
        everything = PatternType.LITERAL, WILDCARD
        if everything in denied:
            return False
        return everything in allowed or any(not _is_covered(*each, denied) for each in allowed)

    def _is_about(self, binding: AclBinding, principal: str, host: str) -> bool:
        if binding.principal not in {principal, _ANY_PRINCIPAL}:
            return False
        return binding.host in {WILDCARD, host} or (self.matches_ranges and _is_in_range(host, binding.host))


@lru_cache(maxsize=1024)
def host_range(pattern: str) -> range | None:
    """Return the addresses of a range in CIDR notation, as numbers; None: it is not one (`CidrUtils`, KAFKA-20088).

    An IPv4 address that is written as an IPv6 one (`::ffff:10.0.0.1`) is an IPv4 address to Java, and no such range.
    """
    if ":" in pattern:
        address, _, prefix = pattern.partition("/")
        network, bits = _number_v6(address), _BITS_V6
        is_prefix = _PREFIX_V6.fullmatch(prefix) is not None
    else:
        match = _RANGE_V4.fullmatch(pattern)
        address, prefix = ("", "") if match is None else match.groups()
        network, bits, is_prefix = _number_v4(address), _BITS_V4, True
    if network is None or not is_prefix or int(prefix) > bits:
        return None
    size = 1 << bits - int(prefix)
    first = network // size * size
    return range(first, first + size)


def _is_in_range(host: str, pattern: str) -> bool:
    if "/" not in pattern:
        return False
    addresses = host_range(pattern)
    number = _number_v6(host) if ":" in pattern else _number_v4(host)
    # SubnetUtils.SubnetInfo.isInRange: the address 0.0.0.0 is in no range
    return addresses is not None and number is not None and (number > 0 or ":" in pattern) and number in addresses


def _number_v4(text: str) -> int | None:
    """Return an address as a number; numbers may have zeros in front (`SubnetUtils.matchAddress`)."""
    match = _ADDRESS_V4.fullmatch(text)
    numbers = [] if match is None else [int(each) for each in match.groups()]
    return int.from_bytes(numbers, "big") if numbers and max(numbers) <= _MAX_OCTET else None


def _number_v6(text: str) -> int | None:
    """Return an address as a number (`SubnetUtils6.toBytes`); its scope does not count."""
    try:
        address = ipaddress.IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    return None if address.ipv4_mapped else int(address)


def _allows(of_binding: int, operation: AclOperation) -> bool:
    return of_binding == AclOperation.ALL or of_binding in _IMPLIED_BY.get(operation, {operation})


def _is_covered(pattern: int, name: str, denied: set[tuple[int, str]]) -> bool:
    """Return whether a DENY takes all of what an ALLOW gives: the same name, or a prefix of it."""
    if pattern == PatternType.LITERAL and (pattern, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:size]) in denied for size in range(1, len(name) + 1))
