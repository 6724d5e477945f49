"""SCRAM users over the protocol (KIP-554): the rules of a controller, and logins of real clients right after."""

from __future__ import annotations

import hashlib
import re
import socket
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafkalog_core.serve.security.users import Credential, users_of_cluster
from kafkalog_core.wire.error_codes import ErrorCode
from tests.support.live import QUIET, SECONDS, LiveServer
from tests.support.live_state import Live, living

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

SHA_256, SHA_512, UNKNOWN = 1, 2, 3
TWICE: Final = "A user credential cannot be altered twice in the same request"
MISSING: Final = "Attempt to delete a user credential that does not exist"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A live broker over an empty directory."""
    with living(tmp_path) as found:
        yield found


def upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096, password: bytes = b"secret") -> dict[str, Any]:
    """What a client sends of a password."""
    salted = hashlib.pbkdf2_hmac("sha512" if mechanism == SHA_512 else "sha256", password, b"salt", iterations)
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": salted,
    }


def delete(name: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def alter(live: Live, *upserts: dict[str, Any], deletions: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """The error and its message by user."""
    answer = live.ask("AlterUserScramCredentials", 0, deletions=list(deletions), upsertions=list(upserts))
    users = [each["user"] for each in answer["results"]]
    assert len(users) == len(set(users)), "each user is answered once"
    return {each["user"]: (each["error_code"], each["error_message"]) for each in answer["results"]}


def describe(live: Live, *users: str) -> dict[str, Any]:
    """The error, or iterations by mechanism, by user."""
    answer = live.ask("DescribeUserScramCredentials", 0, users=[{"name": each} for each in users] or None)
    assert answer["error_code"] == ErrorCode.NONE
    return {
        each["user"]: each["error_code"] or {info["mechanism"]: info["iterations"] for info in each["credential_infos"]}
        for each in answer["results"]
    }


def test_users_are_stored_described_replaced_and_deleted(tmp_path: Path) -> None:
    with living(tmp_path) as live:
        assert describe(live) == {}
        assert alter(live, upsert("anna"), upsert("ben", SHA_512, 8192)) == {"anna": (0, None), "ben": (0, None)}
        assert alter(live, upsert("anna", SHA_512, 16384)) == {"anna": (0, None)}
        assert alter(live, upsert("ben", SHA_512, 4097)) == {"ben": (0, None)}
        assert describe(live) == {"anna": {SHA_256: 4096, SHA_512: 16384}, "ben": {SHA_512: 4097}}
    with living(tmp_path) as live:
        assert describe(live) == {"anna": {SHA_256: 4096, SHA_512: 16384}, "ben": {SHA_512: 4097}}
        assert alter(live, deletions=(delete("ben", SHA_512), delete("anna"))) == {"anna": (0, None), "ben": (0, None)}
        assert describe(live, "anna") == {"anna": {SHA_512: 16384}}
    with living(tmp_path) as live:
        assert describe(live) == {"anna": {SHA_512: 16384}}
    known = users_of_cluster([str(tmp_path)]).credential("SCRAM-SHA-512", "anna")
    assert known == Credential.of_password(b"secret", "SCRAM-SHA-512", b"salt", 16384), "serve reads the same"


def test_a_user_that_is_asked_for_twice_or_is_unknown_is_an_error_of_this_user(live: Live) -> None:
    alter(live, upsert("anna"))
    expected = {"anna": {SHA_256: 4096}, "zoe": ErrorCode.RESOURCE_NOT_FOUND}
    assert describe(live, "anna", "zoe") == expected
    assert describe(live, "anna", "anna", "zoe") == expected | {"anna": ErrorCode.DUPLICATE_RESOURCE}
    answer = live.ask("DescribeUserScramCredentials", 0, users=[{"name": "zoe"}])
    message = answer["results"][0]["error_message"]
    assert message == "Attempt to describe a user credential that does not exist: zoe"
    assert set(describe(live)) == {"anna"}
    assert live.ask("DescribeUserScramCredentials", 0, users=[])["results"][0]["user"] == "anna"


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (upsert("u", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsert("u") | {"iterations": 16385}, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert("", UNKNOWN), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsert("u", UNKNOWN), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
    ],
)
def test_a_credential_that_no_controller_takes_is_refused(
    live: Live, asked: dict[str, Any], code: ErrorCode, message: str
) -> None:
    assert alter(live, asked, upsert("other")) == {asked["name"]: (code, message), "other": (0, None)}
    assert set(describe(live)) == {"other"}


def test_deletions_are_checked_as_well(live: Live) -> None:
    alter(live, upsert("anna"))
    missing = ErrorCode.RESOURCE_NOT_FOUND, MISSING
    assert alter(live, deletions=(delete("zoe"), delete("anna", SHA_512))) == {"zoe": missing, "anna": missing}
    assert alter(live, deletions=(delete(""), delete("anna", UNKNOWN))) == {
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "anna": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
    }
    assert describe(live) == {"anna": {SHA_256: 4096}}


def test_two_changes_of_a_user_in_one_request_are_none(live: Live) -> None:
    alter(live, upsert("anna"))
    twice = ErrorCode.DUPLICATE_RESOURCE, TWICE
    assert alter(live, upsert("anna", SHA_512), upsert("anna", SHA_256, 5000)) == {"anna": twice}
    assert alter(live, upsert("anna", SHA_512), deletions=(delete("anna"),)) == {"anna": twice}
    assert alter(live, deletions=(delete("anna"), delete("anna"))) == {"anna": twice}
    assert alter(live, *[upsert("anna")] * 3, upsert("ben")) == {"anna": twice, "ben": (0, None)}
    assert describe(live) == {"anna": {SHA_256: 4096}, "ben": {SHA_256: 4096}}


def test_a_directory_without_a_metadata_log_stores_no_users(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    with living(tmp_path) as live:
        ((code, message),) = alter(live, upsert("anna")).values()
        assert (code, "no metadata log" in message) == (ErrorCode.UNSUPPORTED_VERSION, True)
        assert describe(live) == {}


# --- real clients -----------------------------------------------------------------------------------------------------
def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def topics_seen(address: str, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> set[str]:
    """What a client that logs in sees. Raises KafkaException."""
    login = {"sasl.username": user, "sasl.password": password, "sasl.mechanism": mechanism}
    login |= {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT"}
    return set(AdminClient(login | QUIET).list_topics(timeout=3).topics)


def test_a_user_who_was_created_logs_in_at_once_and_after_a_restart(tmp_path: Path) -> None:
    sasl = f"127.0.0.1:{free_port()}"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    with LiveServer(tmp_path / "d", options=("--cluster-users", "--sasl-listen", sasl)) as server:
        admin = AdminClient({"bootstrap.servers": server.address, **QUIET})
        with pytest.raises(KafkaException):
            topics_seen(sasl, "anna", "secret")
        changes: list[UserScramCredentialAlteration] = [UserScramCredentialUpsertion("anna", info, b"secret", b"salt")]
        assert admin.alter_user_scram_credentials(changes)["anna"].result(SECONDS) is None
        assert topics_seen(sasl, "anna", "secret") == set()
        server.kill()
        server.start()
        admin = AdminClient({"bootstrap.servers": server.address, **QUIET})
        assert topics_seen(sasl, "anna", "secret") == set()
        changes = [UserScramCredentialUpsertion("anna", info, b"other", b"salt")]
        admin.alter_user_scram_credentials(changes)["anna"].result(SECONDS)
        assert topics_seen(sasl, "anna", "other") == set()
        with pytest.raises(KafkaException):
            topics_seen(sasl, "anna", "secret")
        described = admin.describe_user_scram_credentials(["anna"])
        assert isinstance(described, dict)
        found = described["anna"].result(SECONDS)
        assert [each.iterations for each in found.scram_credential_infos] == [4096]
        gone: list[UserScramCredentialAlteration] = [UserScramCredentialDeletion("anna", ScramMechanism.SCRAM_SHA_256)]
        admin.alter_user_scram_credentials(gone)["anna"].result(SECONDS)
        with pytest.raises(KafkaException):
            topics_seen(sasl, "anna", "other")
        server.stop()
    log = (tmp_path / "d.log").read_text()
    assert re.search(f"clients authenticate at {re.escape(sasl)}", log)
