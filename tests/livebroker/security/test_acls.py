"""Decisions by ACLs, the filters of ACLs, and the requests about ACLs without sockets.

The cases are those of Kafka's own tests of StandardAuthorizer, of Authorizer.authorizeByResourceType, of
AclControlManager and of ResourcePatternFilter.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.errors import SettingError, StorageError
from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.rules.rule_table import matches_host_ranges
from kafkalog_core.livebroker.cluster.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    Acls,
    Authorizer,
    PatternType,
    ResourceType,
)
from kafkalog_core.livebroker.disks.live_settings import LiveSettings
from kafkalog_core.livebroker.security.acl_requests import AclRequests
from kafkalog_core.serve.disks.served_disks import FinalizedFeatures
from kafkalog_core.serve.network.requests import RequestDispatcher
from kafkalog_core.topics.metadata_records import METADATA_VERSION
from kafkalog_core.wire.error_codes import ErrorCode
from tests.support.asking import ask
from tests.support.authorization import creation

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE, ALTER, DELETE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALTER,
    AclOperation.DELETE,
)
BOB = "User:bob", "192.0.2.1"
STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def allow(
    name: str,
    operation: int = READ,
    principal: str = "User:bob",
    host: str = "*",
    *,
    kind: int = TOPIC,
    pattern: int = LITERAL,
) -> AclBinding:
    """An ACL that allows something."""
    return AclBinding(kind, name, pattern, principal, host, operation, AclPermission.ALLOW)


def deny(name: str, operation: int = READ, principal: str = "User:bob", host: str = "*", **more: Any) -> AclBinding:
    """An ACL that denies something."""
    return allow(name, operation, principal, host, **more)._replace(permission=AclPermission.DENY)


def of(bindings: Iterable[AclBinding]) -> Acls:
    """A set of ACLs."""
    acls = Acls()
    for number, each in enumerate(bindings):
        acls.add(number.to_bytes(16, "big"), each)
    return acls


def authorizer(*bindings: AclBinding, **settings: Any) -> Authorizer:
    """An authorizer of some ACLs."""
    return Authorizer(of(bindings), **settings)


# --- decisions --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("bindings", "operation", "name", "expected"),
    [
        ([], READ, "t", False),
        ([allow("t")], READ, "t", True),
        ([allow("t")], READ, "tt", False),
        ([allow("tt")], READ, "t", False),
        ([allow("t")], WRITE, "t", False),
        ([allow("t", principal="User:alice")], READ, "t", False),
        ([allow("t", principal="User:*")], READ, "t", True),
        ([allow("t", principal="Role:bob")], READ, "t", False),
        ([allow("t", host="192.0.2.1")], READ, "t", True),
        ([allow("t", host="192.0.2.2")], READ, "t", False),
        ([allow("*")], READ, "t", True),
        ([allow("t", kind=GROUP)], READ, "t", False),
        ([allow("or", pattern=PREFIXED)], READ, "orders", True),
        ([allow("or", pattern=PREFIXED)], READ, "or", True),
        ([allow("or", pattern=PREFIXED)], READ, "o", False),
        ([allow("or", pattern=LITERAL)], READ, "orders", False),
        ([allow("*", pattern=PREFIXED)], READ, "t", False),
        ([allow("t", AclOperation.ALL)], ALTER, "t", True),
        ([allow("t"), deny("t")], READ, "t", False),
        ([allow("*"), deny("or", pattern=PREFIXED)], READ, "orders", False),
        ([allow("orders"), deny("*")], READ, "orders", False),
        ([allow("t"), deny("t", host="192.0.2.2")], READ, "t", True),
        ([allow("t"), deny("t", principal="User:*")], READ, "t", False),
        ([allow("t"), deny("t", AclOperation.ALL)], READ, "t", False),
    ],
)
def test_decisions(bindings: list[AclBinding], operation: AclOperation, name: str, expected: bool) -> None:
    assert authorizer(*bindings).may(BOB, operation, TOPIC, name) is expected


@pytest.mark.parametrize("granted", list(AclOperation)[2:])
def test_what_an_operation_implies(granted: AclOperation) -> None:
    found = authorizer(allow("t", granted))
    implies_describe = granted in {AclOperation.ALL, DESCRIBE, READ, WRITE, DELETE, ALTER}
    implies_configs = granted in {AclOperation.ALL, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}
    assert found.may(BOB, DESCRIBE, TOPIC, "t") is implies_describe
    assert found.may(BOB, AclOperation.DESCRIBE_CONFIGS, TOPIC, "t") is implies_configs


def test_a_denial_of_read_does_not_deny_describe() -> None:
    found = authorizer(allow("t", WRITE), deny("t", READ))
    assert found.may(BOB, DESCRIBE, TOPIC, "t")
    assert not authorizer(allow("t", WRITE), deny("t", DESCRIBE)).may(BOB, DESCRIBE, TOPIC, "t")


def test_a_resource_without_any_acl_is_free_only_where_the_setting_says_so() -> None:
    free = authorizer(allow("t", principal="User:alice"), allow("p", pattern=PREFIXED), allows_unlisted=True)
    assert free.may(BOB, READ, TOPIC, "other")
    assert not free.may(BOB, READ, TOPIC, "t"), "an ACL of somebody else is about it"
    assert not free.may(("User:carol", "h"), READ, TOPIC, "prefix")
    assert free.may(BOB, READ, GROUP, "t"), "of another type"
    assert not authorizer().may(BOB, READ, TOPIC, "other")


RANGES = [
    # (host of the binding, address of the client, whether it is in the range): CidrUtils of 4.4.0
    ("10.0.0.0/8", "10.255.255.255", True),
    ("10.0.0.0/8", "11.0.0.0", False),
    ("10.1.2.3/8", "10.0.0.0", True),  # the bits of the host do not count
    ("010.0.0.0/08", "10.0.0.1", True),
    ("192.0.2.1/32", "192.0.2.1", True),
    ("0.0.0.0/0", "192.0.2.1", True),
    ("0.0.0.0/0", "0.0.0.0", False),  # noqa: S104 - no socket
    ("10.0.0.0/33", "10.0.0.1", False),
    ("10.0.0/8", "10.0.0.1", False),
    ("256.0.0.0/0", "10.0.0.1", False),
    ("10.0.0.0/-1", "10.0.0.1", False),
    ("10.0.0.0/", "10.0.0.1", False),
    ("10.0.0.0/8", "0:0:0:0:0:0:0:1", False),
    ("2001:db8::/32", "2001:db8:ffff:0:0:0:0:1", True),
    ("2001:db8::/32", "2001:db9:0:0:0:0:0:1", False),
    ("::/0", "0:0:0:0:0:0:0:0", True),
    ("::/0", "10.0.0.1", False),
    ("::/129", "0:0:0:0:0:0:0:1", False),
    ("::ffff:10.0.0.0/104", "10.0.0.1", False),  # Java makes an IPv4 address of it, which is no IPv6 range
    ("no:address/8", "0:0:0:0:0:0:0:1", False),
]


@pytest.mark.parametrize(("host", "client", "is_in_range"), RANGES)
def test_the_host_of_an_acl_may_be_a_range_since_4_4(host: str, client: str, is_in_range: bool) -> None:
    bindings = [allow("t"), deny("t", host=host)]
    since = authorizer(*bindings)
    assert since.may(("User:bob", client), READ, TOPIC, "t") is not is_in_range
    assert since.may_with_any(("User:bob", client), READ, TOPIC) is not is_in_range
    assert authorizer(*bindings, matches_ranges=False).may(("User:bob", client), READ, TOPIC, "t")


@pytest.mark.parametrize(("release", "is_matched"), [(Release(4, 3, 1), False), (Release(4, 4), True)])
def test_ranges_match_by_release(release: Release, is_matched: bool) -> None:
    assert matches_host_ranges(release) is is_matched


def test_a_super_user_is_never_denied() -> None:
    found = authorizer(deny("*", AclOperation.ALL, "User:*"), super_users=frozenset({"User:bob"}))
    assert found.may(BOB, WRITE, TOPIC, "t")
    assert not found.may(("User:alice", "h"), WRITE, TOPIC, "t")


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ([], False),
        ([allow("t", WRITE)], True),
        ([allow("t", AclOperation.ALL)], True),
        ([allow("t", READ)], False),
        ([allow("*", WRITE)], True),
        ([allow("p", WRITE, pattern=PREFIXED)], True),
        ([allow("t", WRITE), deny("t", WRITE)], False),
        ([allow("t", WRITE), deny("t", WRITE), allow("u", WRITE)], True),
        ([allow("topic", WRITE), deny("to", WRITE, pattern=PREFIXED)], False),
        ([allow("topic", WRITE, pattern=PREFIXED), deny("to", WRITE, pattern=PREFIXED)], False),
        ([allow("to", WRITE, pattern=PREFIXED), deny("topic", WRITE, pattern=PREFIXED)], True),
        ([allow("topic", WRITE, pattern=PREFIXED), deny("topic", WRITE)], True),
        ([allow("t", WRITE), deny("*", WRITE)], False),
        ([allow("t", WRITE, principal="User:alice")], False),
        ([allow("t", WRITE, host="192.0.2.9")], False),
    ],
)
def test_a_right_to_any_resource_of_a_type(bindings: list[AclBinding], expected: bool) -> None:
    assert authorizer(*bindings).may_with_any(BOB, WRITE, TOPIC) is expected


def test_acls_come_and_go() -> None:
    acls = Acls()
    same = allow("or", pattern=PREFIXED)
    acls.add(b"1", same)
    acls.add(b"2", same)
    acls.remove(b"1")
    assert list(acls.of_resource(TOPIC, "orders")) == [same]
    assert same in acls
    acls.add(b"2", allow("x"))
    assert same not in acls
    assert list(acls.of_resource(TOPIC, "orders")) == []
    acls.remove(b"2")
    acls.remove(b"2")
    assert (len(acls), acls.by_id()) == (0, {})


# --- filters ----------------------------------------------------------------------------------------------------------
def filter_of(**fields: Any) -> AclFilter:
    """A filter that matches every ACL except for some fields."""
    anything: dict[str, Any] = {"resource_type": 1, "name": None, "pattern": 1, "principal": None, "host": None}
    return AclFilter(**(anything | {"operation": 1, "permission": 1} | fields))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"orders", "or", "*", "group"}),
        ({"resource_type": TOPIC}, {"orders", "or", "*"}),
        ({"name": "orders"}, {"orders"}),
        ({"name": "or", "pattern": LITERAL}, set()),
        ({"name": "or", "pattern": PREFIXED}, {"or"}),
        ({"name": "orders", "pattern": PatternType.MATCH}, {"orders", "or", "*"}),
        ({"name": "*", "pattern": PatternType.MATCH}, {"*"}),
        ({"pattern": PREFIXED}, {"or"}),
        ({"pattern": PatternType.MATCH}, {"orders", "or", "*", "group"}),
        ({"principal": "User:alice"}, {"or"}),
        ({"principal": "User:*"}, set()),
        ({"host": "192.0.2.1"}, {"*"}),
        ({"operation": WRITE}, {"*"}),
        ({"operation": AclOperation.ALL}, set()),
        ({"permission": AclPermission.DENY}, {"group"}),
    ],
)
def test_filters(fields: dict[str, Any], expected: set[str]) -> None:
    bindings = (
        allow("orders"),
        allow("or", principal="User:alice", pattern=PREFIXED),
        allow("*", WRITE, host="192.0.2.1"),
        deny("group", kind=GROUP),
    )
    assert {each.name for each in bindings if filter_of(**fields).matches(each)} == expected


# --- requests ---------------------------------------------------------------------------------------------------------
class Store:
    """ACLs in memory."""

    def __init__(self, *, has_metadata_log: bool = True, is_broken: bool = False, metadata_level: int = 32) -> None:
        self.has_metadata_log = has_metadata_log
        self.features = FinalizedFeatures({METADATA_VERSION: metadata_level})
        self.is_broken = is_broken
        self.acls = Acls()
        self._ids = count(1)

    def change_acls(self, added: Iterable[AclBinding], removed: Iterable[bytes]) -> None:
        if self.is_broken:
            raise StorageError("the disk is full")
        for each in added:
            if each not in self.acls:
                self.acls.add(next(self._ids).to_bytes(16, "big"), each)
        for acl_id in removed:
            self.acls.remove(acl_id)


def dispatcher_of(store: Store, *, is_enforced: bool = True) -> RequestDispatcher:
    return RequestDispatcher(AclRequests(store, is_enforced=is_enforced).handlers())


def filter_row(found: AclFilter, version: int = 3) -> dict[str, Any]:
    """A filter in a request; version 0 has no type of pattern."""
    return ({"pattern_type_filter": found.pattern} if version else {}) | {
        "resource_type_filter": found.resource_type,
        "resource_name_filter": found.name,
        "principal_filter": found.principal,
        "host_filter": found.host,
        "operation": found.operation,
        "permission_type": found.permission,
    }


def described(dispatcher: RequestDispatcher, version: int = 3, **fields: Any) -> set[AclBinding]:
    answer = ask(dispatcher, "DescribeAcls", version, filter_row(filter_of(**fields), version))
    assert answer["error_code"] == 0, answer
    return {
        AclBinding(
            each["resource_type"],
            each["resource_name"],
            each.get("pattern_type", LITERAL),
            row["principal"],
            row["host"],
            row["operation"],
            row["permission_type"],
        )
        for each in answer["resources"]
        for row in each["acls"]
    }


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_acls_are_created_listed_and_deleted(version: int) -> None:
    dispatcher = dispatcher_of(Store())
    kept = {allow("orders"), deny("orders", WRITE), allow("*", DESCRIBE, "User:*")}
    if version:
        kept.add(allow("or", pattern=PREFIXED))
    for _ in range(2):  # what is there already is a success too
        answer = ask(dispatcher, "CreateAcls", version, {"creations": [creation(each, version) for each in kept]})
        assert answer["results"] == [{"error_code": 0, "error_message": None}] * len(kept)
    assert described(dispatcher, version) == kept
    filters = [filter_of(name="orders"), filter_of(name="none"), filter_of(operation=WRITE)]
    answer = ask(dispatcher, "DeleteAcls", version, {"filters": [filter_row(each, version) for each in filters]})
    assert [len(each["matching_acls"]) for each in answer["filter_results"]] == [2, 0, 1]
    assert described(dispatcher, version) == {each for each in kept if each.name != "orders"}


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (allow("other", kind=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (allow(""), "Invalid empty resource name"),
        (allow("t", kind=ResourceType.ANY), "Invalid resourceType ANY"),
        (allow("t", kind=77), "Invalid resourceType UNKNOWN"),
        (allow("t", pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        (allow("t", AclOperation.ANY), "Invalid operation ANY"),
        (allow("t")._replace(permission=AclPermission.ANY), "Invalid permissionType ANY"),
        (allow("t", principal="bob"), "Could not parse principal from `bob`"),
        (allow("t", host=""), "Host pattern cannot be null or empty"),
        (allow("t", host="10.0.0.0/33"), "Invalid CIDR notation '10.0.0.0/33': "),
    ],
)
def test_an_invalid_acl_is_refused_and_the_others_of_the_request_are_not(binding: AclBinding, message: str) -> None:
    store = Store()
    rows = [creation(allow("a")), creation(binding), creation(allow("b"))]
    answer = ask(dispatcher_of(store), "CreateAcls", 3, {"creations": rows})
    assert [each["error_code"] for each in answer["results"]] == [0, ErrorCode.INVALID_REQUEST, 0]
    assert answer["results"][1]["error_message"].startswith(message)
    assert {each.name for each in store.acls.by_id().values()} == {"a", "b"}


@pytest.mark.parametrize(("level", "code"), [(31, ErrorCode.UNSUPPORTED_VERSION), (32, ErrorCode.NONE)])
def test_a_range_is_a_host_since_metadata_version_4_4_iv1(level: int, code: ErrorCode) -> None:
    dispatcher = dispatcher_of(Store(metadata_level=level))
    answer = ask(dispatcher, "CreateAcls", 3, {"creations": [creation(allow("t", host="10.0.0.0/8"))]})
    assert [each["error_code"] for each in answer["results"]] == [code]


def test_an_unknown_filter_is_refused() -> None:
    dispatcher = dispatcher_of(Store())
    for fields, message in (({"pattern": 0}, "Unknown patternFilter."), ({"operation": 99}, "Unknown entryFilter.")):
        row = filter_row(filter_of(**fields))
        refused = {"error_code": ErrorCode.INVALID_REQUEST, "error_message": message}
        assert ask(dispatcher, "DescribeAcls", 3, row) | refused == ask(dispatcher, "DescribeAcls", 3, row)
        (found,) = ask(dispatcher, "DeleteAcls", 3, {"filters": [row]})["filter_results"]
        assert found == refused | {"matching_acls": []}


@pytest.mark.parametrize(
    ("store", "is_enforced", "code"),
    [
        (Store(), False, ErrorCode.SECURITY_DISABLED),
        (Store(has_metadata_log=False), True, ErrorCode.UNSUPPORTED_VERSION),
        (Store(is_broken=True), True, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_where_acls_cannot_be_kept_none_is_taken(store: Store, is_enforced: bool, code: ErrorCode) -> None:
    dispatcher = dispatcher_of(store, is_enforced=is_enforced)
    store.acls.add(b"1", allow("t"))
    (made,) = ask(dispatcher, "CreateAcls", 3, {"creations": [creation(allow("a"))]})["results"]
    (gone,) = ask(dispatcher, "DeleteAcls", 3, {"filters": [filter_row(filter_of())]})["filter_results"]
    assert (made["error_code"], gone["error_code"], gone["matching_acls"]) == (code, code, [])
    assert made["error_message"]
    assert len(store.acls) == 1
    if not is_enforced:
        answer = ask(dispatcher, "DescribeAcls", 3, filter_row(filter_of()))
        assert (answer["error_code"], answer["resources"]) == (code, [])


def test_a_request_changes_at_most_ten_thousand() -> None:
    store = Store()
    dispatcher = dispatcher_of(store)
    rows = [creation(allow(f"t{number}")) for number in range(10_001)]
    answer = ask(dispatcher, "CreateAcls", 3, {"creations": rows})
    assert {each["error_code"] for each in answer["results"]} == {ErrorCode.POLICY_VIOLATION}
    assert len(store.acls) == 0
    for part in (rows[:6000], rows[6000:]):
        ask(dispatcher, "CreateAcls", 3, {"creations": part})
    (refused,) = ask(dispatcher, "DeleteAcls", 3, {"filters": [filter_row(filter_of())]})["filter_results"]
    assert (refused["error_code"], refused["matching_acls"]) == (ErrorCode.INVALID_REQUEST, [])
    assert len(store.acls) == 10_001


# --- settings ---------------------------------------------------------------------------------------------------------
def test_settings_of_the_authorizer() -> None:
    assert LiveSettings.of([]).authorizer is None
    assert LiveSettings.of(["authorizer.class.name="]).authorizer is None
    given = [STANDARD, "super.users=User:admin; User:CN=a,O=b;", "allow.everyone.if.no.acl.found=TRUE"]
    found = LiveSettings.of(given).authorizer
    assert found is not None
    assert (found.super_users, found.allows_unlisted) == ({"User:admin", "User:CN=a,O=b"}, True)
    plain = LiveSettings.of([STANDARD]).authorizer
    assert plain is not None
    assert (plain.super_users, plain.allows_unlisted) == (frozenset(), False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["authorizer.class.name=kafka.security.authorizer.AclAuthorizer"], "the only authorizer of a live broker is"),
        ([STANDARD, "super.users=admin"], "admin is not a principal, such as User:admin"),
        ([STANDARD, "allow.everyone.if.no.acl.found=yes"], "true or false is expected"),
        (["super.users=User:admin"], "ACLs are not enforced"),
        (["allow.everyone.if.no.acl.found=true"], "ACLs are not enforced"),
    ],
)
def test_settings_that_enforce_nothing_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        LiveSettings.of(settings)
