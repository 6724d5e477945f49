"""Transactions as a broker describes them over its socket, and settings with which it changes none of them."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.kafka.sim.transactions import read_transactions
from kafkalog_core.serve.network.answers import Reply
from kafkalog_core.storage.scan import Damage, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC, TransactionPhase
from kafkalog_core.wire.frames import encode_request
from tests.support.asking import response

if TYPE_CHECKING:
    from pathlib import Path

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


def batches_of(place: Path) -> list[tuple[Path, int, int, int, bool]]:
    """File, position, base offset, producer id and whether it is a marker, of every batch."""
    found = []
    for path in sorted(place.glob("*.log")):
        with Source.open(str(path)) as source:
            for item in scan(source, base_offset=int(path.stem)):
                assert not isinstance(item, Damage)
                names = ("position", "base_offset", "producer_id", "attributes")
                rows = zip(*map(item.batches.column, names), strict=True)
                found += [(path, at, base, producer, bool(flags & 0x20)) for at, base, producer, flags in rows]
    return found


def cut(place: Path, offset: int) -> None:
    """Let a log end before an offset, as if its broker had been killed before it wrote the rest."""
    path, position = next((path, at) for path, at, base, _, _ in batches_of(place) if base >= offset)
    os.truncate(path, position)
    for each in place.iterdir():
        is_after = each.suffix == ".log" and each.stem > path.stem
        is_later = each.suffix == ".snapshot" and int(each.stem) > offset
        if is_after or is_later or each.suffix in {".index", ".timeindex", ".txnindex"}:
            each.unlink()


def kill_within_a_commit(log_dir: Path) -> list[str]:
    """Take away the marker at the end of a partition, and all that coordinators wrote after its decision."""
    ends = {}
    for place in sorted(log_dir.glob("*-[0-9]*")):
        batches = batches_of(place) if not place.name.startswith("__") else []
        if batches and batches[-1][4]:
            ends[batches[-1][3]] = place, batches[-1][2]
    prepared = {TransactionPhase.PREPARE_COMMIT, TransactionPhase.PREPARE_ABORT}
    for state_place in sorted(log_dir.glob(f"{TRANSACTIONS_TOPIC}-*")):
        for _, _, offset, _, _ in reversed(batches_of(state_place)[1:]):
            copy = log_dir.with_name("copy") / state_place.name
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(state_place, copy)
            cut(copy, offset)
            states, _ = read_transactions([str(copy)])
            hit = [each for each in states.values() if each.state in prepared and each.producer_id in ends]
            if hit and any(
                f"{topic}-{number}" == ends[hit[0].producer_id][0].name for topic, number in hit[0].partitions
            ):
                cut(state_place, offset)
                cut(*ends[hit[0].producer_id])
                for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
                    (log_dir / name).unlink(missing_ok=True)
                places = sorted(map(str, log_dir.glob(f"{TRANSACTIONS_TOPIC}-*")))
                return sorted(read_transactions(places)[0])
    raise AssertionError("no transaction ends at the end of a log")
