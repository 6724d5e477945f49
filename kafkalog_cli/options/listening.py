"""Where a broker listens, who may connect, and whether connections are encrypted."""

from __future__ import annotations

import ipaddress
import secrets
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click

from kafkalog_cli.options.common import stacked
from kafkalog_core.errors import SettingError
from kafkalog_core.serve.network.socket_server import Listener, PlainTransport
from kafkalog_core.serve.network.tls import TlsTransport, server_context
from kafkalog_core.serve.security.authentication import Authentication
from kafkalog_core.serve.security.users import MECHANISMS, Users, passwords_of, users_of_cluster
from kafkalog_core.serve.server import BrokerOptions
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalog_cli.options.common import Decorated
    from kafkalog_core.serve.groups.offset_commit_requests import Commits
    from kafkalog_core.serve.network.answers import ConnectionFacts
    from kafkalog_core.serve.network.socket_server import TransportOf

__all__ = ["HostPort", "Listening", "is_loopback", "listening_options", "parse_endpoint"]

_NONCE_BYTES: Final = 18
_PROTOCOLS: Final = {
    (False, False): "PLAINTEXT",
    (False, True): "SSL",
    (True, False): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}
"""Names of listeners, by whether clients authenticate and connections are encrypted (SecurityProtocol)."""


class HostPort(NamedTuple):
    """Host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> HostPort:
    """Return host and port of `HOST:PORT` or `[IPV6]:PORT`. Raises BadParameter."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise click.BadParameter(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    return HostPort(host.removeprefix("[").removesuffix("]"), int(port))


class Listening(Struct, frozen=True, kw_only=True):
    """The options of --listen and its companions, as they were given."""

    listen: HostPort
    advertise: HostPort | None
    sasl_listen: HostPort | None
    users: str | None
    cluster_users: bool
    mechanisms: tuple[str, ...]
    tls_certificate: str | None
    tls_key: str | None
    tls_clients: str | None

    def broker_options(
        self,
        log_dirs: Sequence[str],
        note: Callable[[str], None],
        unproved: Callable[[ConnectionFacts, str], None],
        commits: Commits = "memory",
        live_users: Users | None = None,
    ) -> BrokerOptions:
        """Return how a broker listens. Raises SettingError, and UsageError for options that contradict each other.

        note: receives what the user should know. unproved: receives clients that do not prove who they are.
        live_users: SCRAM users of the cluster that clients may change; None: they are read from the metadata log once.
        """
        advertise = self.advertise or self.listen
        if _is_any(advertise.host):
            raise click.UsageError(f"clients cannot connect to {advertise.host}: give --advertise HOST:PORT as well")
        has_tls = self.tls_certificate is not None
        transport: TransportOf = PlainTransport
        if self.tls_certificate is not None:
            context = server_context(self.tls_certificate, self.tls_key, self.tls_clients)
            transport = partial(TlsTransport, context=context)
        elif self.tls_key is not None or self.tls_clients is not None:
            raise click.UsageError("--tls-key and --tls-clients are for TLS: give --tls-certificate as well")
        authentication = self._authentication(log_dirs, note, unproved, live_users)
        guarded = self.sasl_listen or self.listen
        name = _PROTOCOLS[authentication is not None and self.sasl_listen is None, has_tls]
        listen = [Listener(name, self.listen.host, self.listen.port, transport)]
        advertised: dict[str, tuple[str, int]] = {name: advertise}
        if self.sasl_listen is not None:
            if authentication is None:
                raise click.UsageError("--sasl-listen is for users: give --users FILE or --cluster-users as well")
            name = _PROTOCOLS[True, has_tls]
            listen.append(Listener(name, self.sasl_listen.host, self.sasl_listen.port, transport))
            advertised[name] = advertise.host if _is_any(guarded.host) else guarded.host, guarded.port
            authentication.listeners = frozenset({name})
        is_plain = authentication is not None and "PLAIN" in authentication.mechanisms
        if is_plain and not (has_tls or is_loopback(guarded.host)):
            note("warning: passwords of PLAIN can be read on their way; give --tls-certificate, or --mechanism")
        return BrokerOptions(listen=listen, advertised=advertised, commits=commits, authentication=authentication)

    @property
    def is_loopback(self) -> bool:
        """Whether only clients of this machine can connect."""
        return is_loopback(self.listen.host)

    @property
    def is_open(self) -> bool:
        """Whether everybody who reaches the address may connect."""
        has_users = self.sasl_listen is None and (self.users is not None or self.cluster_users)
        return not has_users and self.tls_clients is None

    def _authentication(
        self,
        log_dirs: Sequence[str],
        note: Callable[[str], None],
        unproved: Callable[[ConnectionFacts, str], None],
        live_users: Users | None,
    ) -> Authentication | None:
        if self.users is None and not self.cluster_users:
            if self.mechanisms:
                raise click.UsageError("--mechanism is for users: give --users FILE or --cluster-users as well")
            return None
        is_live = self.cluster_users and live_users is not None
        of_cluster = users_of_cluster(log_dirs) if self.cluster_users and live_users is None else live_users
        users = Users(of_cluster if self.cluster_users else None)
        if self.users is not None:
            for user, password in _passwords(self.users).items():
                users.add_password(user, password, secrets.token_bytes)
        # a client of the other listener may create the first user
        if not len(users) and not (is_live and self.sasl_listen is not None):
            raise SettingError("no metadata log on these disks has SCRAM users; name users of your own: --users FILE")
        possible = MECHANISMS if is_live else users.mechanisms()
        mechanisms = self.mechanisms or possible
        for each in mechanisms:
            if each not in possible:
                raise click.UsageError(f"--mechanism {each}: no user of the cluster has a password for it")
        note(f"{count_of(len(users), 'user')} may connect, by {', '.join(mechanisms)}")
        return Authentication(users, mechanisms, partial(secrets.token_urlsafe, _NONCE_BYTES), unproved)


def _passwords(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            return passwords_of(file, path)
    except OSError as error:
        raise SettingError(f"--users {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"--users {path}: the file is not UTF-8") from error


_OPTIONS: Final = (
    click.option(
        "--listen",
        type=parse_endpoint,
        default="127.0.0.1:9092",
        show_default=True,
        metavar="HOST:PORT",
        help="The address for clients. Port 0 takes a free port.",
    ),
    click.option(
        "--advertise",
        type=parse_endpoint,
        metavar="HOST:PORT",
        help="The address that clients are sent to, as advertised.listeners of a broker.  [default: that of --listen]",
    ),
    click.option(
        "--sasl-listen",
        type=parse_endpoint,
        metavar="HOST:PORT",
        help="Also listen there. Clients must authenticate at this address only, and need not at that of --listen.",
    ),
    click.option(
        "--users",
        metavar="FILE",
        help="Clients must authenticate (SASL) as one of these users: lines of NAME:PASSWORD.",
    ),
    click.option(
        "--cluster-users",
        is_flag=True,
        help="Clients must authenticate as a SCRAM user of the cluster, by its metadata log (since Kafka 3.5).",
    ),
    click.option(
        "--mechanism",
        "mechanisms",
        type=click.Choice(MECHANISMS),
        multiple=True,
        help="A SASL mechanism that is offered; repeatable.  [default: all that the users have]",
    ),
    click.option(
        "--tls-certificate",
        metavar="FILE",
        help="Encrypt connections (TLS) with this certificate, a PEM file with its chain.",
    ),
    click.option("--tls-key", metavar="FILE", help="PEM file of its key.  [default: in the certificate's file]"),
    click.option(
        "--tls-clients",
        metavar="FILE",
        help="Clients must have a certificate of one of these authorities, in a PEM file.",
    ),
)


def listening_options(function: Decorated) -> Decorated:
    """Add --listen and its companions: the command gets a `Listening`, `listening`."""

    def with_listening(*arguments: object, **options: Any) -> object:
        given = Listening(**{name: options.pop(name) for name in Listening.__struct_fields__})
        return function(*arguments, listening=given, **options)

    return stacked(*_OPTIONS)(cast("Decorated", update_wrapper(with_listening, function)))


def is_loopback(host: str) -> bool:
    """Return whether an address is one of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_any(host: str) -> bool:
    """Return whether an address means every address of a machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host
