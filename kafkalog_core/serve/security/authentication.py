"""SASL before a client's first request: PLAIN (KIP-43) and SCRAM (KIP-84), as `SaslServerAuthenticator` does it.

A connection names a mechanism (SaslHandshake), then exchanges tokens: in SaslAuthenticate since KIP-152, or as frames
without a header after version 0 of SaslHandshake. Until that has succeeded, nothing but ApiVersions is answered. A
failure closes the connection.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from kafkalog_core.errors import KafkalogError
from kafkalog_core.serve.network.answers import Close, Reply
from kafkalog_core.serve.security.users import SCRAM_HASHES
from kafkalog_core.structs import Struct, field
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.serve.network.answers import Answer, ConnectionFacts, RequestHandler
    from kafkalog_core.serve.network.requests import Handler, RequestContext
    from kafkalog_core.serve.security.users import Credential, Users

__all__ = ["ANONYMOUS", "Authentication", "AuthenticationError", "Exchange", "PlainExchange", "ScramExchange"]

ANONYMOUS: Final = "ANONYMOUS"
_PLAIN: Final = "PLAIN"
_HANDSHAKE, _API_VERSIONS, _AUTHENTICATE = 17, 18, 36
_BEFORE: Final = frozenset({_HANDSHAKE, _API_VERSIONS, _AUTHENTICATE})
"""API keys that are answered before a client has proved who it is."""
_KEY_BYTES: Final = 2
MAX_TOKEN_BYTES: Final = 512 * 1024
"""Length of a frame before a client has proved who it is: the default of sasl.server.max.receive.size (KIP-684)."""
_GS2_HEADERS: Final = frozenset({"n", "y"})
"""No channel binding, which Kafka does not have."""
_FAILED: Final = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"


class AuthenticationError(KafkalogError):
    """A client that does not prove who it is. The message is for the log, not for the client."""


class Exchange(ABC):
    """The server's side of a mechanism: a token of the client, a token back, until `user` is known."""

    user: str | None = None

    @abstractmethod
    def step(self, token: bytes) -> bytes:
        """Return the answer to a token. Raises AuthenticationError."""


class PlainExchange(Exchange):
    """PLAIN (RFC 4616): one token with name and password."""

    def __init__(self, users: Users) -> None:
        """Take the users."""
        self._users = users

    def step(self, token: bytes) -> bytes:
        """See Exchange."""
        parts = token.split(b"\0")
        try:
            other, user = (part.decode() for part in parts[:-1])
        except ValueError:
            raise AuthenticationError("a PLAIN token that is not NAME, user and password") from None
        # PLAIN may name a user to act as (RFC 4616): only oneself is allowed.
        if other not in {"", user} or not self._users.has_password(user, parts[-1]):
            raise AuthenticationError(f"wrong user or password: {user}")
        self.user = user
        return b""


class ScramExchange(Exchange):
    """SCRAM (RFC 5802): the client proves that it knows the password, and so does the server."""

    def __init__(self, mechanism: str, users: Users, new_nonce: Callable[[], str]) -> None:
        """Take the users. new_nonce: returns a random text without commas."""
        self._mechanism = mechanism
        self._digest = SCRAM_HASHES[mechanism]
        self._users = users
        self._new_nonce = new_nonce
        self._name = self._nonce = self._header = self._messages = ""
        self._known: Credential | None = None

    def step(self, token: bytes) -> bytes:
        """See Exchange."""
        try:
            text = token.decode()
            return (self._first(text) if self._known is None else self._last(self._known, text)).encode()
        except (ValueError, KeyError) as error:  # UnicodeDecodeError and binascii.Error are ValueErrors
            raise AuthenticationError(f"a token of {self._mechanism} that cannot be read") from error

    def _first(self, text: str) -> str:
        binding, authorized, bare = text.split(",", 2)
        fields = _fields(bare)
        # RFC 5802 escapes these two; the order matters, since an escaped `=` may come before `2C`.
        name = fields["n"].replace("=2C", ",").replace("=3D", "=")
        if binding not in _GS2_HEADERS or authorized.removeprefix("a=") not in {"", fields["n"]} or "m" in fields:
            raise AuthenticationError(f"a token of {self._mechanism} with a channel binding, extension or other user")
        known = self._users.credential(self._mechanism, name)
        if known is None:
            raise AuthenticationError(f"unknown user: {name}")
        self._name, self._known, self._header = name, known, f"{binding},{authorized},"
        # Of both sides, so that neither can replay an exchange.
        self._nonce = fields["r"] + self._new_nonce()
        answer = f"r={self._nonce},s={base64.b64encode(known.salt).decode()},i={known.iterations}"
        self._messages = f"{bare},{answer}"
        return answer

    def _last(self, known: Credential, text: str) -> str:
        unproved, _, proof_text = text.rpartition(",p=")
        fields, proof = _fields(unproved), base64.b64decode(proof_text, validate=True)
        signed = f"{self._messages},{unproved}".encode()
        signature = hmac.digest(known.stored_key, signed, self._digest)
        is_header = base64.b64decode(fields["c"], validate=True) == self._header.encode()
        # The client repeats the header and the nonce: both must be of this exchange.
        if not is_header or fields["r"] != self._nonce or len(proof) != len(signature):
            raise AuthenticationError(f"a proof of {self._mechanism} for another exchange: {self._name}")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        # In constant time: the time of a comparison must not show how much of a key is right.
        if not hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), known.stored_key):
            raise AuthenticationError(f"wrong password: {self._name}")
        self.user = self._name
        return f"v={base64.b64encode(hmac.digest(known.server_key, signed, self._digest)).decode()}"


def _fields(text: str) -> Mapping[str, str]:
    """Return the attributes of a message by their letters. Raises ValueError for one without a value."""
    return dict(each.split("=", 1) for each in text.split(","))


class _Session(Struct):
    """What is known of a connection's client; `has_raw_tokens`: its tokens come without a header."""

    mechanism: str = ""
    exchange: Exchange | None = None
    has_raw_tokens: bool = False
    user: str | None = None


class Authentication(Struct):
    """A request handler in front of another one, which gets the requests of clients that have proved who they are.

    Args:
        users: who may connect.
        mechanisms: the mechanisms that are offered.
        new_nonce: returns a random text without commas.
        failed: receives the connection and the reason of each failure.
        listeners: names of the listeners where clients must prove who they are; None: all.
    """

    users: Users
    mechanisms: Sequence[str]
    new_nonce: Callable[[], str]
    failed: Callable[[ConnectionFacts, str], None]
    listeners: frozenset[str] | None = None
    _sessions: WeakKeyDictionary[ConnectionFacts, _Session] = field(default_factory=WeakKeyDictionary)

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"SaslHandshake": (1, self.handshake), "SaslAuthenticate": (2, self.authenticate)}

    def before(self, handler: RequestHandler) -> RequestHandler:
        """Return a handler that lets another one answer those who have proved who they are."""
        return _Guarded(self, handler)

    def guards(self, connection: ConnectionFacts) -> bool:
        """Return whether the client of a connection must prove who it is."""
        return self.listeners is None or connection.listener in self.listeners

    def max_frame_bytes(self, connection: ConnectionFacts) -> int | None:
        """Return how long a frame of an unknown client may be; None: the client is known, or need not be."""
        if not self.guards(connection):
            return None
        session = self._sessions.get(connection)
        # Nobody unknown makes a broker allocate more than a token takes.
        return MAX_TOKEN_BYTES if session is None or session.user is None else None

    def session(self, connection: ConnectionFacts) -> _Session:
        """Return what is known of a connection; it is forgotten with the connection."""
        return self._sessions.setdefault(connection, _Session())

    def user_of(self, connection: ConnectionFacts) -> str:
        """Return the name of a connection's user: ANONYMOUS if it need not authenticate (KafkaPrincipal)."""
        session = self._sessions.get(connection)
        return ANONYMOUS if session is None or session.user is None else session.user

    def handshake(self, context: RequestContext) -> Answer:
        """Answer SaslHandshake."""
        session, mechanism = self.session(context.connection), context.body["mechanism"]
        body = {"error_code": ErrorCode.NONE, "mechanisms": list(self.mechanisms)}
        if session.exchange is not None or not self.guards(context.connection):
            reason = "a second handshake, or one where clients need not authenticate"
            return self._refused(context, body | {"error_code": ErrorCode.ILLEGAL_SASL_STATE}, reason)
        if mechanism not in self.mechanisms:
            body["error_code"] = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._refused(context, body, f"mechanism {mechanism} is not offered")
        # After SaslHandshake v0, tokens come as frames of their own; later versions wrap them in SaslAuthenticate.
        session.mechanism, session.has_raw_tokens = mechanism, context.version == 0
        is_plain = mechanism == _PLAIN
        session.exchange = (
            PlainExchange(self.users) if is_plain else ScramExchange(mechanism, self.users, self.new_nonce)
        )
        return context.reply(body)

    def authenticate(self, context: RequestContext) -> Answer:
        """Answer SaslAuthenticate."""
        session = self.session(context.connection)
        body = {"error_code": ErrorCode.NONE, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0}
        if session.exchange is None or session.user is not None:
            code, message = ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate is not expected in this state"
            return self._refused(context, body | {"error_code": code, "error_message": message}, message)
        try:
            token = session.exchange.step(bytes(context.body["auth_bytes"]))
        except AuthenticationError as error:
            code, message = ErrorCode.SASL_AUTHENTICATION_FAILED, _FAILED.format(session.mechanism)
            return self._refused(context, body | {"error_code": code, "error_message": message}, str(error))
        session.user = session.exchange.user
        return context.reply(body | {"auth_bytes": token})

    def raw_token(self, session: _Session, token: memoryview, connection: ConnectionFacts) -> Answer:
        """Answer a token without a header."""
        if session.exchange is None:
            return Close("a token without a mechanism")
        try:
            answer = session.exchange.step(bytes(token))
        except AuthenticationError as error:
            self.failed(connection, str(error))
            return Close("authentication failed")
        session.user = session.exchange.user
        return Reply((answer,))

    def _refused(self, context: RequestContext, body: Mapping[str, object], reason: str) -> Answer:
        self.failed(context.connection, reason)
        answer = context.reply(dict(body))
        return Reply(answer.pieces, then_close=True)


class _Guarded:
    """A RequestHandler."""

    def __init__(self, authentication: Authentication, handler: RequestHandler) -> None:
        self._authentication = authentication
        self._handler = handler

    def handle(self, request: memoryview, connection: ConnectionFacts) -> Answer:
        if not self._authentication.guards(connection):
            return self._handler.handle(request, connection)
        session = self._authentication.session(connection)
        if session.user is None:
            if session.has_raw_tokens:
                return self._authentication.raw_token(session, request, connection)
            if int.from_bytes(request[:_KEY_BYTES], "big") not in _BEFORE:
                return Close("a request before authentication")
        return self._handler.handle(request, connection)
