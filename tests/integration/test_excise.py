"""After an excision a real broker starts as after a crash, truncates nothing, and every client reads all the rest."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import confluent_kafka as librdkafka
import pytest

from tests.integration.excising import (
    TOPIC,
    all_batches,
    check_readers,
    excise,
    fill,
    read_by_aiokafka,
    recover_from_start,
    spoil,
)
from tests.integration.repairing import CUTS, RECOVERS, UNCLEAN, lines_with, run
from tests.support.live import QUIET

if TYPE_CHECKING:
    from tests.integration.broker import Broker
    from tests.integration.excising import Batch

pytestmark = [pytest.mark.java, pytest.mark.slow]


def chosen(batches: list[Batch]) -> list[Batch]:
    """Of each codec and of each kind one batch, never two that follow each other, none at the end."""
    found: dict[tuple[object, ...], Batch] = {}
    for before, batch in pairwise(batches[:-1]):
        kind = (batch.codec, batch.producer_id >= 0, batch.is_transactional, batch.is_control)
        if before not in found.values():
            found.setdefault(kind, batch)
    return list(found.values())


def test_everything_else_is_read_after_an_unclean_start(own_broker: Broker) -> None:
    broker = own_broker
    asyncio.run(fill(broker))
    all_offsets = read_by_aiokafka(broker, 0)
    committed = read_by_aiokafka(broker, 0, committed=True)
    broker.kill()
    bad = chosen(all_batches(broker))
    assert {batch.codec for batch in bad} == {0, 1, 2, 3, 4}
    assert any(batch.is_control for batch in bad)
    for number, batch in enumerate(bad):
        spoil(batch, header=number % 3 == 2 and batch.producer_id < 0)
    lost = {offset for batch in bad if not batch.is_control for offset in range(batch.first, batch.last + 1)}
    rows = excise(broker, *(batch.first for batch in bad))
    named = [row for row in rows if row["type"] == "loss"]
    assert {n for row in named for n in range(int(str(row["first_offset"])), int(str(row["next_offset"])))} == lost
    recover_from_start(broker)
    broker.start()
    assert lines_with(broker, [UNCLEAN])
    assert lines_with(broker, RECOVERS), "nothing was recovered, so nothing is proved"
    assert lines_with(broker, [*CUTS, "ERROR"]) == []
    check_readers(broker, [each for each in all_offsets if each not in lost])
    check_readers(broker, [each for each in committed if each not in lost], committed=True)
    broker.stop()
    assert run("verify", broker.partition_dir(TOPIC)).status == 0


def test_an_idempotent_producer_goes_on(own_broker: Broker) -> None:
    """Its last batch is excised, and its next one follows on the sequence number of that."""
    broker = own_broker
    asyncio.run(fill(broker))
    producer = librdkafka.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **QUIET})
    errors: list[object] = []
    for number in range(9):
        producer.produce(TOPIC, b"value %d" % number, partition=0)
        producer.flush(30)
    producer_id = all_batches(broker)[-1].producer_id
    other = librdkafka.Producer({"bootstrap.servers": broker.bootstrap, **QUIET})
    other.produce(TOPIC, b"after it", partition=0)
    other.flush(30)
    before = read_by_aiokafka(broker, 0)
    broker.kill()
    last = [batch for batch in all_batches(broker) if batch.producer_id == producer_id][-1]
    spoil(last)
    excise(broker, last.first)
    recover_from_start(broker)
    broker.start()
    assert lines_with(broker, [*CUTS, "OutOfOrderSequence"]) == []
    producer.produce(TOPIC, b"goes on", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]
    assert lines_with(broker, ["OutOfOrderSequence"]) == []
    assert all_batches(broker)[-1].producer_id == producer_id
    after = [*before, before[-1] + 1]
    check_readers(broker, [each for each in after if each != last.first])
