"""Transactions as a broker describes them over its socket, and settings with which it changes none of them."""

from __future__ import annotations

import socket
from typing import Any, Final

from kafkalog_core.serve.network.answers import Reply
from kafkalog_core.wire.frames import encode_request
from tests.support.asking import response

EXPIRATION_MS: Final = 2**31 - 1
LOADS_ALONE: Final = {  # nothing is aborted or forgotten meanwhile, whatever the time is
    "producer.id.expiration.ms": str(EXPIRATION_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(EXPIRATION_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": str(EXPIRATION_MS),
}


def asked(address: str, name: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    """The body of the response of a broker."""
    host, _, port = address.rpartition(":")
    pieces = encode_request(name, version, body, correlation_id=7, client_id="test")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"".join(bytes(piece) for piece in pieces))  # type: ignore[call-overload]  # all are bytes
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            return response(name, version, Reply([stream.read(size)]))


def described(address: str, names: list[str]) -> list[dict[str, Any]]:
    """Descriptions of transactional ids, with their partitions in order."""
    answer = asked(address, "DescribeTransactions", 0, {"transactional_ids": names})
    for state in answer["transaction_states"]:
        places = [(topic["topic"], number) for topic in state["topics"] for number in topic["partitions"]]
        state["topics"] = sorted(places)
    found: list[dict[str, Any]] = answer["transaction_states"]
    return found
