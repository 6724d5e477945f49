"""Who may connect: SASL PLAIN and SCRAM, TLS; the mechanisms as values, then real clients."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.errors import SettingError
from kafkalog_core.serve.network.answers import Close, ConnectionFacts, Reply
from kafkalog_core.serve.network.requests import RequestDispatcher
from kafkalog_core.serve.network.tls import server_context
from kafkalog_core.serve.security.authentication import (
    Authentication,
    AuthenticationError,
    PlainExchange,
    ScramExchange,
)
from kafkalog_core.serve.security.users import Credential, Users, passwords_of, users_of_cluster
from kafkalog_core.wire.error_codes import ErrorCode
from tests.support.asking import FROM, ask, response, send
from tests.support.build import Record as BuiltRecord
from tests.support.build import batch_v2, unsigned_varint
from tests.support.live import QUIET, SECONDS, LiveServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.serve.network.answers import Answer

pytestmark = pytest.mark.live

confluent = pytest.importorskip("confluent_kafka")


def users_with(**passwords: str) -> Users:
    """Users whose salts are all the same."""
    users = Users()
    for user, password in passwords.items():
        users.add_password(user, password, lambda size: b"s" * size)
    return users


# --- mechanisms -------------------------------------------------------------------------------------------------------
def test_scram_sha_256_is_that_of_rfc_7677() -> None:
    users = Users()
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users.add("SCRAM-SHA-256", "user", Credential.of_password(b"pencil", "SCRAM-SHA-256", salt))
    exchange = ScramExchange("SCRAM-SHA-256", users, lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.user is None
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.step(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.user == "user"


def client_final(password: bytes, first: str, answer: str, digest: str, **changes: str) -> bytes:
    """What a client answers to the server's first message."""
    fields = dict(each.split("=", 1) for each in answer.split(","))
    salted = hashlib.pbkdf2_hmac(digest, password, base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", digest)
    fields = {"c": base64.b64encode(b"n,,").decode(), "r": fields["r"]} | changes
    unproved = ",".join(f"{key}={value}" for key, value in fields.items())
    signed = f"{first.removeprefix('n,,')},{answer},{unproved}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize(("mechanism", "digest"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
@pytest.mark.parametrize("name", ["anna", "a,b=c", "käthe"])
def test_scram_takes_the_right_password_alone(mechanism: str, digest: str, name: str) -> None:
    users = Users()
    users.add_password(name, "secret", lambda size: b"s" * size)
    sent = name.replace("=", "=3D").replace(",", "=2C")
    first = f"n,,n={sent},r=abc"
    for password, changes, is_right in (
        (b"secret", {}, True),
        (b"other", {}, False),
        (b"secret", {"r": "abcx"}, False),
        (b"secret", {"c": base64.b64encode(b"y,,").decode()}, False),
    ):
        exchange = ScramExchange(mechanism, users, lambda: "nonce")
        final = client_final(password, first, exchange.step(first.encode()).decode(), digest, **changes)
        if is_right:
            assert exchange.step(final).startswith(b"v=")
            assert exchange.user == name
        else:
            with pytest.raises(AuthenticationError):
                exchange.step(final)
            assert exchange.user is None


@pytest.mark.parametrize(
    "token",
    [
        *(b"", b"n", b"n,,", b"n,,n=nobody,r=x", b"p=tls-unique,,n=anna,r=x", b"n,a=other,n=anna,r=x"),
        *(b"n,,m=x,n=anna,r=x", b"n,,n=anna", b"n,,r=x", b"\xff\xfe", b"n,,n=anna,r", b"\0" * 100),
    ],
)
def test_a_first_token_that_is_none_is_refused(token: bytes) -> None:
    with pytest.raises(AuthenticationError):
        ScramExchange("SCRAM-SHA-256", users_with(anna="secret"), lambda: "nonce").step(token)


@pytest.mark.parametrize(
    "token", [b"", b"c=biws,r=xnonce", b"c=biws,r=xnonce,p=", b"c=biws,r=xnonce,p=!", b"\xff,p=AA=="]
)
def test_a_last_token_that_is_none_is_refused(token: bytes) -> None:
    exchange = ScramExchange("SCRAM-SHA-256", users_with(anna="secret"), lambda: "nonce")
    exchange.step(b"n,,n=anna,r=x")
    with pytest.raises(AuthenticationError):
        exchange.step(token)


@pytest.mark.parametrize(
    ("token", "is_right"),
    [
        (b"\0anna\0secret", True),
        (b"anna\0anna\0secret", True),
        (b"bert\0anna\0secret", False),
        (b"\0anna\0Secret", False),
        (b"\0nobody\0secret", False),
        (b"\0anna", False),
        (b"\0anna\0secret\0", False),
        (b"\0\xff\0secret", False),
        (b"", False),
    ],
)
def test_plain_takes_the_right_password_alone(token: bytes, is_right: bool) -> None:
    exchange = PlainExchange(users_with(anna="secret"))
    if is_right:
        assert exchange.step(token) == b""
    else:
        with pytest.raises(AuthenticationError):
            exchange.step(token)
    assert exchange.user == ("anna" if is_right else None)


@pytest.mark.parametrize("user", ["anna", "nobody"])
def test_plain_does_the_same_work_for_an_unknown_user(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time would tell which users there are."""
    known = users_with(anna="secret")
    hashed = []
    salted = hashlib.pbkdf2_hmac

    def counting(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        hashed.append((name, iterations))
        return salted(name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counting)
    for users in (known, Users(then=known)):
        assert not users.has_password(user, b"wrong")
        assert users.has_password(user, b"secret") == (user == "anna")
    assert hashed == [("sha256", 4096)] * 4


# --- where users come from --------------------------------------------------------------------------------------------
def test_a_file_of_users_has_a_line_for_each() -> None:
    assert passwords_of(["# who\n", "\n", "anna:a:b \n", "bert:x"], "users") == {"anna": "a:b ", "bert": "x"}
    for line, problem in (("anna", "line 1"), (":x", "line 1"), ("anna:", "line 1"), ("# none", "no users")):
        with pytest.raises(SettingError, match=problem):
            passwords_of([line], "users")
    with pytest.raises(SettingError, match="line 2: user anna is there already"):
        passwords_of(["anna:1", "anna:2"], "users")


def scram_record(user: str, mechanism: int, credential: Credential | None) -> bytes:
    """A UserScramCredentialRecord (11), or without a credential a RemoveUserScramCredentialRecord (22)."""
    out = bytes([1, 11 if credential else 22, 0]) + unsigned_varint(len(user) + 1) + user.encode() + bytes([mechanism])
    if credential is not None:
        for each in (credential.salt, credential.stored_key, credential.server_key):
            out += unsigned_varint(len(each) + 1) + each
        out += struct.pack(">i", credential.iterations)
    return out + b"\0"


def test_a_metadata_log_has_the_users_of_its_cluster(tmp_path: Path) -> None:
    known = Credential.of_password(b"secret", "SCRAM-SHA-512", b"salt", 8192)
    values = [
        scram_record("anna", 2, known),
        scram_record("bert", 1, known),
        scram_record("bert", 1, None),
        scram_record("future", 9, known),
        scram_record("slow", 1, Credential(b"salt", b"x", b"y", 2**31 - 1)),
        scram_record("none", 1, Credential(b"salt", b"x", b"y", 0)),
    ]
    log = tmp_path / "__cluster_metadata-0"
    log.mkdir()
    rows = [BuiltRecord(offset=number, value=value) for number, value in enumerate(values)]
    (log / f"{0:020}.log").write_bytes(batch_v2(rows))
    users = users_of_cluster([str(tmp_path / "none"), str(tmp_path)])
    assert len(users) == 1
    assert users.mechanisms() == ("PLAIN", "SCRAM-SHA-512")
    assert users.has_password("anna", b"secret")
    assert not users.has_password("anna", b"other")
    assert "secret" not in repr(users.credential("SCRAM-SHA-512", "anna")), "nor what proves it"
    assert b"salt".hex() not in repr(known)


# --- requests ---------------------------------------------------------------------------------------------------------
class Door:
    """A broker with one user, without sockets."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.authentication = Authentication(
            users_with(anna="secret"),
            ("PLAIN", "SCRAM-SHA-256"),
            lambda: "nonce",
            lambda _, why: self.failures.append(why),
        )
        handlers = {"ListGroups": (0, lambda context: context.reply({"error_code": 0, "groups": []}))}
        self.dispatcher = RequestDispatcher(handlers | self.authentication.handlers())
        self.handler = self.authentication.before(self.dispatcher)

    def ask(self, name: str, version: int, **body: Any) -> dict[str, Any]:
        return ask(self.handler, name, version, body)  # type: ignore[arg-type]

    def send(self, name: str, version: int, **body: Any) -> Answer:
        return send(self.handler, name, version, body)  # type: ignore[arg-type]


def test_nothing_but_api_versions_is_answered_before_a_client_has_proved_who_it_is() -> None:
    door = Door()
    assert 36 in {each["api_key"] for each in door.ask("ApiVersions", 0)["api_keys"]}
    assert isinstance(door.send("ListGroups", 0), Close)
    assert door.ask("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == 0
    assert isinstance(door.send("ListGroups", 0), Close)
    assert door.ask("SaslAuthenticate", 2, auth_bytes=b"\0anna\0secret")["error_code"] == 0
    assert door.ask("ListGroups", 0)["groups"] == []
    other = ConnectionFacts(2, "127.0.0.1", 50001, "PLAINTEXT", 0)
    assert isinstance(door.handler.handle(memoryview(struct.pack(">hhih", 16, 0, 1, -1)), other), Close)
    assert door.failures == []


@pytest.mark.parametrize(
    ("requests", "code", "why"),
    [
        ([("SaslHandshake", {"mechanism": "GSSAPI"})], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "GSSAPI is not offered"),
        ([("SaslAuthenticate", {"auth_bytes": b""})], ErrorCode.ILLEGAL_SASL_STATE, "not expected"),
        ([("SaslHandshake", {"mechanism": "PLAIN"})] * 2, ErrorCode.ILLEGAL_SASL_STATE, "second"),
        (
            [("SaslHandshake", {"mechanism": "PLAIN"}), ("SaslAuthenticate", {"auth_bytes": b"\0anna\0no"})],
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "wrong user or password: anna",
        ),
    ],
)
def test_who_does_not_prove_it_gets_an_error_and_is_disconnected(
    requests: list[tuple[str, dict[str, Any]]], code: ErrorCode, why: str
) -> None:
    door = Door()
    for name, body in requests:
        answer = door.send(name, 1, **body)
    assert isinstance(answer, Reply)
    assert answer.then_close
    found = response(name, 1, answer)
    assert found["error_code"] == code
    assert "anna" not in str(found.get("error_message")), "a client learns no names"
    assert len(door.failures) == 1
    assert why in door.failures[0]


def test_a_frame_is_short_until_a_client_has_proved_who_it_is() -> None:
    """sasl.server.max.receive.size of Kafka, 512 KiB: else a few unfinished frames take the memory of all clients."""
    door = Door()
    assert door.authentication.max_frame_bytes(FROM) == 512 * 1024
    door.ask("SaslHandshake", 1, mechanism="PLAIN")
    assert door.authentication.max_frame_bytes(FROM) == 512 * 1024
    door.ask("SaslAuthenticate", 2, auth_bytes=b"\0anna\0secret")
    assert door.authentication.max_frame_bytes(FROM) is None
    door.authentication.listeners = frozenset({"OTHER"})
    assert Door().authentication.max_frame_bytes(FROM) == 512 * 1024
    assert door.authentication.max_frame_bytes(ConnectionFacts(2, "127.0.0.1", 1, "PLAINTEXT", 0)) is None


def test_tokens_without_a_header_follow_version_0_of_the_handshake() -> None:
    door = Door()
    facts = ConnectionFacts(3, "127.0.0.1", 50002, "PLAINTEXT", 0)
    hello = struct.pack(">hhih", 17, 0, 1, -1) + struct.pack(">h", 5) + b"PLAIN"
    assert isinstance(door.handler.handle(memoryview(hello), facts), Reply)
    answer = door.handler.handle(memoryview(b"\0anna\0secret"), facts)
    assert isinstance(answer, Reply)
    assert b"".join(bytes(each) for each in answer.pieces) == b""  # type: ignore[arg-type]
    assert isinstance(door.handler.handle(memoryview(struct.pack(">hhih", 16, 0, 1, -1)), facts), Reply)
    wrong = ConnectionFacts(4, "127.0.0.1", 50003, "PLAINTEXT", 0)
    door.handler.handle(memoryview(hello), wrong)
    assert isinstance(door.handler.handle(memoryview(b"\0a\0b"), wrong), Close)


# --- real clients -----------------------------------------------------------------------------------------------------
TLS: Final = Path(__file__).parent / "tls"
"""A self-signed certificate of 127.0.0.1 and its key, made with openssl for these tests, for a hundred years."""
CERTIFICATE, KEY = str(TLS / "certificate.pem"), str(TLS / "key.pem")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A live broker with TLS and two users."""
    place = tmp_path_factory.mktemp("secured")
    (place / "users").write_text("anna:secret\nbert:other\n")
    both = place / "both.pem"
    both.write_text(Path(CERTIFICATE).read_text() + Path(KEY).read_text())
    server = LiveServer(place / "data", options=["--users", str(place / "users"), "--tls-certificate", str(both)])
    with server:
        yield server


def settings(server: LiveServer, **changes: str) -> dict[str, Any]:
    """What a client of librdkafka needs to connect."""
    given = {
        "bootstrap.servers": server.address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": CERTIFICATE,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "anna",
        "sasl.password": "secret",
    }
    return given | QUIET | {key.replace("_", "."): value for key, value in changes.items()}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_writes_and_reads_with_sasl_over_tls(secured: LiveServer, mechanism: str) -> None:
    given = settings(secured, sasl_mechanism=mechanism)
    producer = confluent.Producer(given)
    values = [b"x" * 20_000 + str(number).encode() for number in range(300)]
    for value in values:
        producer.produce(mechanism, value, partition=0)
    assert producer.flush(SECONDS) == 0
    consumer = confluent.Consumer(given | {"group.id": "g", "enable.auto.commit": False})
    consumer.assign([confluent.TopicPartition(mechanism, 0, 0)])
    found = []
    while len(found) < len(values):
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    assert found == values


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sasl_password": "wrong"}, "invalid credentials"),
        ({"sasl_username": "nobody", "sasl_mechanism": "SCRAM-SHA-256"}, "invalid credentials"),
        ({"sasl_mechanism": "OAUTHBEARER"}, ""),
        ({"security_protocol": "PLAINTEXT"}, ""),
        ({"security_protocol": "SSL"}, ""),
    ],
)
def test_librdkafka_is_refused_without_the_right_password(
    secured: LiveServer, changes: dict[str, str], problem: str
) -> None:
    errors: list[str] = []
    given = settings(secured, **changes) | {"error_cb": lambda error: errors.append(error.str())}
    consumer = confluent.Consumer(given | {"group.id": "g"})
    with pytest.raises(confluent.KafkaException):
        consumer.list_topics(timeout=2)
    consumer.poll(0.5)
    consumer.close()
    assert problem in "".join(errors)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafka_python_connects_with_sasl_over_tls(secured: LiveServer, mechanism: str) -> None:
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=secured.address,
        security_protocol="SASL_SSL",
        ssl_cafile=CERTIFICATE,
        sasl_mechanism=mechanism,
        sasl_plain_username="bert",
        sasl_plain_password="other",  # noqa: S106 - of the test
    )
    assert isinstance(consumer.topics(), set)
    consumer.close()


def test_a_certificate_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    with pytest.raises(SettingError, match="none: No such file"):
        server_context(str(tmp_path / "none"), None, None)
    for path in (str(tmp_path / "junk"), CERTIFICATE):
        with pytest.raises(SettingError, match="a certificate and of its key"):
            server_context(path, None, None)


def test_clients_need_a_certificate_where_authorities_are_named(tmp_path: Path) -> None:
    options = ["--tls-certificate", CERTIFICATE, "--tls-key", KEY, "--tls-clients", CERTIFICATE]
    with LiveServer(tmp_path / "data", options=options) as server:
        given = settings(server, security_protocol="SSL")
        own = {"ssl.certificate.location": CERTIFICATE, "ssl.key.location": KEY}
        assert confluent.Producer(given | own).list_topics(timeout=SECONDS).cluster_id
        with pytest.raises(confluent.KafkaException):
            confluent.Producer(given).list_topics(timeout=2)
