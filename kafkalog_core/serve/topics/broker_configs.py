"""The settings that describe a broker itself, which user interfaces ask for: its ids, addresses and directories.

`kafka/rules/setting_table.py` has those that matter for logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.serve.network.answers import NetworkLimits
    from kafkalog_core.serve.network.socket_server import Address

__all__ = ["BrokerConfig", "identity_configs", "limit_configs"]


class BrokerConfig(NamedTuple):
    """A setting of the broker; `kind`: as in the table of settings. `default`: Kafka's; None: it has none."""

    name: str
    value: str
    kind: str
    default: str | None = None


def identity_configs(
    node_id: int,
    log_dirs: Iterable[str],
    addresses: Sequence[Address],
    advertised: Mapping[str, tuple[str, int]],
) -> list[BrokerConfig]:
    """Return who the broker is. advertised: host and port by listener; port 0: the listener's own port."""
    ports = {each.listener: each.port for each in reversed(addresses)}
    shown = [_listener(name, host, port or ports[name]) for name, (host, port) in advertised.items()]
    listening = [_listener(each.listener, each.host, each.port) for each in addresses]
    return [
        BrokerConfig("node.id", str(node_id), "int"),
        BrokerConfig("broker.id", str(node_id), "int", "-1"),
        BrokerConfig("log.dirs", ",".join(log_dirs), "list"),
        BrokerConfig("listeners", ",".join(listening), "list", "PLAINTEXT://:9092"),
        BrokerConfig("advertised.listeners", ",".join(shown), "list"),
    ]


def _listener(name: str, host: str, port: int) -> str:
    return f"{name}://{f'[{host}]' if ':' in host else host}:{port}"


def limit_configs(limits: NetworkLimits) -> list[BrokerConfig]:
    """Return the bounds of the network, by the names in the docstring of NetworkLimits."""
    idle_ms = str(int(1000 * limits.max_idle_s))
    return [
        BrokerConfig("connections.max.idle.ms", idle_ms, "long", "600000"),
        BrokerConfig("max.connections", str(limits.max_connections), "int", "2147483647"),
        BrokerConfig("max.connections.per.ip", str(limits.max_connections_per_host), "int", "2147483647"),
        BrokerConfig("socket.request.max.bytes", str(limits.max_request_bytes), "int", "104857600"),
    ]
