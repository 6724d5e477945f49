"""Real clients of a live broker with an authorizer: users by their passwords, and by their certificates."""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka as confluent
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kafkalog_core.serve.network import tls
from kafkalog_core.serve.network.answers import Close, PendingAnswer, Reply
from kafkalog_core.serve.network.socket_server import Listener, NetworkServer
from kafkalog_core.serve.network.tls import TlsTransport, server_context, subject_of
from tests.support.live import QUIET, SECONDS, LiveServer, create_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.serve.network.answers import Answer, ConnectionFacts

pytestmark = pytest.mark.live

STANDARD: Final = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TLS: Final = Path(__file__).parent / "tls"
CERTIFICATE, KEY = str(TLS / "certificate.pem"), str(TLS / "key.pem")
REFUSED: Final = confluent.KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A live broker with a super user and three others, two topics and their ACLs."""
    place = tmp_path_factory.mktemp("authorized")
    (place / "users").write_text("admin:a\nanna:b\nbert:c\ncarl:d\n")
    options = ["--users", str(place / "users"), "--mechanism", "PLAIN"]
    with LiveServer(place / "data", STANDARD, "super.users=User:admin", options=options) as found:
        admin = AdminClient(login(found, "admin"))
        for each in admin.create_topics([NewTopic(name, 1, 1) for name in ("orders", "pay")]).values():
            each.result(SECONDS)
        rights = [
            acl(ResourceType.TOPIC, "orders", "anna", AclOperation.WRITE),
            acl(ResourceType.TOPIC, "or", "bert", AclOperation.READ, ResourcePatternType.PREFIXED),
            acl(ResourceType.GROUP, "bert-", "bert", AclOperation.READ, ResourcePatternType.PREFIXED),
        ]
        for each in admin.create_acls(rights).values():
            each.result(SECONDS)
        yield found


def acl(
    kind: ResourceType,
    name: str,
    user: str,
    operation: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    """An ACL that allows something."""
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def login(server: LiveServer, user: str) -> dict[str, Any]:
    """What a client of librdkafka needs to be a user."""
    password = {"admin": "a", "anna": "b", "bert": "c", "carl": "d"}[user]
    given = {"bootstrap.servers": server.address, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    return given | QUIET | {"sasl.username": user, "sasl.password": password}


def error_of_delivery(server: LiveServer, user: str, topic: str, *, enable_idempotence: bool = False) -> int:
    """The error of a record that a user sends; 0: it was written."""
    codes: list[int] = []
    producer = confluent.Producer(
        login(server, user) | {"enable.idempotence": enable_idempotence, "message.timeout.ms": 5000}
    )
    producer.produce(topic, b"value", on_delivery=lambda error, _: codes.append(0 if error is None else error.code()))
    producer.flush(SECONDS)
    return codes[0]


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_a_producer_writes_where_it_may(server: LiveServer, is_idempotent: bool) -> None:
    for user, topic, expected in (("anna", "orders", 0), ("anna", "pay", REFUSED), ("admin", "pay", 0)):
        assert error_of_delivery(server, user, topic, enable_idempotence=is_idempotent) == expected
    if not is_idempotent:
        assert error_of_delivery(server, "bert", "orders") == REFUSED


def test_an_idempotent_producer_must_be_able_to_write_somewhere(server: LiveServer) -> None:
    producer = confluent.Producer(login(server, "bert") | {"enable.idempotence": True})
    producer.produce("orders", b"value")
    with pytest.raises(confluent.KafkaException, match="Cluster authorization failed"):  # KIP-679
        producer.flush(SECONDS)


def first_of(consumer: confluent.Consumer, topics: Sequence[str]) -> confluent.Message:
    """The first record, or error, that a consumer of a group gets."""
    consumer.subscribe(list(topics))
    message = consumer.poll(SECONDS)
    assert message is not None
    return message


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("user", "group", "topic", "expected"),
    [
        ("bert", "bert-1", "orders", 0),
        ("bert", "bert-1", "pay", REFUSED),
        ("bert", "other", "orders", confluent.KafkaError.GROUP_AUTHORIZATION_FAILED),
        ("carl", "bert-1", "orders", confluent.KafkaError.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_a_consumer_reads_where_it_may(
    server: LiveServer, protocol: str, user: str, group: str, topic: str, expected: int
) -> None:
    assert error_of_delivery(server, "admin", topic) == 0
    given = {"group.id": f"{group}-{protocol}", "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = confluent.Consumer(login(server, user) | given | {"enable.auto.commit": False})
    try:
        message = first_of(consumer, [topic])
        assert (0 if message.error() is None else message.error().code()) == expected
    finally:
        consumer.close()


def test_a_user_sees_the_topics_that_it_may_describe(server: LiveServer) -> None:
    seen = {
        user: {name for name in AdminClient(login(server, user)).list_topics(timeout=SECONDS).topics if name[0] != "_"}
        for user in ("admin", "anna", "bert", "carl")
    }
    assert seen == {"admin": {"orders", "pay"}, "anna": {"orders"}, "bert": {"orders"}, "carl": set()}


# --- certificates -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("super_user", "is_seen"), [("User:CN=127.0.0.1", True), ("User:127.0.0.1", False)])
def test_the_subject_of_a_certificate_is_the_user(tmp_path: Path, super_user: str, is_seen: bool) -> None:
    options = ["--tls-certificate", CERTIFICATE, "--tls-key", KEY, "--tls-clients", CERTIFICATE]
    data = tmp_path / "data"
    with LiveServer(data) as server:
        create_topics(server.address, ["orders"])
        server.stop()
    with LiveServer(data, STANDARD, f"super.users={super_user}", options=options) as server:
        given = {"bootstrap.servers": server.address, "security.protocol": "SSL", "ssl.ca.location": CERTIFICATE}
        own = {"ssl.certificate.location": CERTIFICATE, "ssl.key.location": KEY}
        admin = AdminClient(given | own | QUIET)
        assert set(admin.list_topics(timeout=SECONDS).topics) == ({"orders"} if is_seen else set())


def der(tag: int, *parts: bytes) -> bytes:
    """A value in DER."""
    content = b"".join(parts)
    size = bytes([len(content)]) if len(content) < 128 else bytes([0x82]) + len(content).to_bytes(2, "big")
    return bytes([tag]) + size + content


def test_the_name_in_a_certificate_is_found_once_on_the_thread_of_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other threads, which answer changes, ask for it too: an SSL socket is that of one thread."""
    found_on, seen = [], []

    def subject(certificate: bytes) -> str:
        found_on.append(threading.current_thread().name)
        return subject_of(certificate)

    class Handler:
        def handle(self, request: memoryview, connection: ConnectionFacts) -> Answer:
            del request
            pending = PendingAnswer(math.inf, lambda: Close("too late"))

            def answer() -> None:
                seen.append(connection.certificate_subject())
                pending.complete(Reply([b"done"]))

            threading.Thread(target=answer).start()
            return pending

    monkeypatch.setattr(tls, "subject_of", subject)
    context = server_context(CERTIFICATE, KEY, CERTIFICATE)
    listener = Listener("SSL", "127.0.0.1", 0, lambda accepted: TlsTransport(accepted, context))
    client = ssl.create_default_context(cafile=CERTIFICATE)
    client.load_cert_chain(CERTIFICATE, KEY)
    with NetworkServer([listener], Handler(), time.monotonic) as server:
        address = server.addresses[0]
        with (
            socket.create_connection((address.host, address.port), 60) as plain,
            client.wrap_socket(plain, server_hostname=address.host) as connection,
        ):
            for _ in range(3):
                connection.sendall(b"\0\0\0\1x")
                assert connection.recv(8) == b"\0\0\0\4done"
    assert seen == ["CN=127.0.0.1"] * 3
    assert found_on == ["kafkalog-network-0"]


def certificate_of(*names: Sequence[tuple[str, int, bytes]], has_version: bool = True) -> bytes:
    """The parts of a certificate that come before its subject, and the subject."""
    subject = (
        der(0x31, *(der(0x30, der(0x06, bytes.fromhex(kind)), der(tag, value)) for kind, tag, value in part))
        for part in names
    )
    version = der(0xA0, der(0x02, b"\2")) if has_version else b""
    other = (der(0x02, b"\1"), der(0x30), der(0x30), der(0x30))
    return der(0x30, der(0x30, version, *other, der(0x30, *subject), der(0x30)), der(0x30), der(0x03, b"\0"))


CN, O, OU, DC = "550403", "55040a", "55040b", "0992268993f22c640119"  # noqa: E741 - as certificates have it
UID, MAIL = "0992268993f22c640101", "2a864886f70d010901"
UTF8, PRINTABLE, IA5, BMP, BITS = 0x0C, 0x13, 0x16, 0x1E, 0x03


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([[(DC, IA5, b"org")], [(UID, UTF8, b"bob")], [(CN, PRINTABLE, b"bob")]], "CN=bob,UID=bob,DC=org"),
        ([[(OU, UTF8, b"x"), (CN, UTF8, b"multi")], [(O, UTF8, b"y")]], "O=y,OU=x+CN=multi"),
        (
            [[(O, UTF8, b"Acme, Inc.")], [(CN, UTF8, b' a=b;c<d>e#"g\\h ')]],
            'CN=\\ a\\=b\\;c\\<d\\>e\\#\\"g\\\\h\\ ,O=Acme\\, Inc.',
        ),
        ([[(CN, UTF8, "Jörg".encode())], [(MAIL, IA5, b"a@b.c")]], "1.2.840.113549.1.9.1=#16056140622e63,CN=Jörg"),
        ([[(CN, BMP, "é".encode("utf-16-be"))]], "CN=é"),
        ([[(CN, UTF8, b" ")]], "CN=\\ "),
        ([[(CN, BITS, b"\0\1")]], "CN=#03020001"),
        ([[(MAIL, IA5, b"m" * 200)]], "1.2.840.113549.1.9.1=#1681c8" + "6d" * 200),
    ],
)
def test_names_are_written_as_java_writes_them(names: list[Any], expected: str) -> None:
    assert subject_of(certificate_of(*names)) == expected
    assert subject_of(certificate_of(*names, has_version=False)) == expected
