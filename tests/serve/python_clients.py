"""Every use of the three Python clients behind one set of functions, so that one test asks each of them the same.

Records are values; transactions are lists of values with the offset that they commit for a group.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Any

import confluent_kafka as librdkafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import admin as librdkafka_admin

from tests.support.live import QUIET, SECONDS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas with importlib's old names
    import kafka
    from kafka.admin import ConfigResource, ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

SETTING = "max.message.bytes"


class PythonClient(ABC):
    """A client of a broker at an address."""

    def __init__(self, address: str) -> None:
        self.address = address

    @abstractmethod
    def create(self, topic: str) -> None:
        """Create a topic of one partition, and give it a second one."""

    @abstractmethod
    def topics(self) -> set[str]:
        """The names of the topics."""

    @abstractmethod
    def delete(self, topic: str) -> None:
        """Delete a topic."""

    @abstractmethod
    def produce(self, topic: str, values: Iterable[bytes], *, acks: Any = "all", is_idempotent: bool = False) -> None:
        """Send values to both partitions in turn."""

    @abstractmethod
    def transact(self, topic: str, values: Iterable[bytes], group: str, offset: int, *, is_commit: bool) -> None:
        """Send values and an offset of partition 0 in a transaction, and end it."""

    @abstractmethod
    def read(self, topic: str, isolation: str, count: int) -> list[bytes]:
        """The values of both partitions, sorted, of a consumer that assigns itself; `count` are expected."""

    @abstractmethod
    def share(self, topic: str, group: str, count: int, isolation: str = "read_committed") -> list[bytes]:
        """The values that a member of a group reads, sorted; it commits their offsets."""

    @abstractmethod
    def committed(self, topic: str, group: str) -> list[int | None]:
        """The committed offsets of a group, by partition."""

    @abstractmethod
    def offset_at(self, topic: str, time_ms: int) -> int | None:
        """The offset of the first record of partition 0 since a time."""

    @abstractmethod
    def ends(self, topic: str) -> tuple[int, int]:
        """Log start offset and log end offset of partition 0."""

    @abstractmethod
    def set_config(self, topic: str, value: str) -> str:
        """Change the setting of a topic, and return what the broker then says of it."""

    @abstractmethod
    def delete_records(self, topic: str, offset: int) -> None:
        """Delete the records of partition 0 before an offset."""

    @abstractmethod
    def groups(self) -> set[str]:
        """The names of the groups."""

    @abstractmethod
    def state_of(self, group: str) -> str:
        """The state of a group."""

    def delete_group(self, group: str) -> bool:
        """Delete a group; False: the client cannot."""
        return False

    def close(self) -> None:  # noqa: B027 - most need not be closed
        """Close its connections."""


class Librdkafka(PythonClient):
    """confluent-kafka."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._admin = librdkafka_admin.AdminClient({"bootstrap.servers": address, **QUIET})

    def create(self, topic: str) -> None:
        self._wait(self._admin.create_topics([librdkafka_admin.NewTopic(topic, 1, 1)]))
        self._wait(self._admin.create_partitions([librdkafka_admin.NewPartitions(topic, 2)]))

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=SECONDS).topics)

    def delete(self, topic: str) -> None:
        self._wait(self._admin.delete_topics([topic]))

    @staticmethod
    def _wait(asked: Mapping[Any, Any]) -> list[Any]:
        return [each.result(SECONDS) for each in asked.values()]

    def _producer(self, **options: Any) -> Any:
        named = {name.replace("_", "."): value for name, value in options.items()}
        return librdkafka.Producer({"bootstrap.servers": self.address, **named, **QUIET})

    def _send(self, producer: Any, topic: str, values: Iterable[bytes]) -> None:
        errors: list[Any] = []
        for number, value in enumerate(values):
            note = lambda error, _: errors.append(error) if error else None  # noqa: E731
            producer.produce(topic, value, b"k", number % 2, on_delivery=note)
        assert producer.flush(SECONDS) == 0
        if errors:
            raise librdkafka.KafkaException(errors[0])

    def produce(self, topic: str, values: Iterable[bytes], *, acks: Any = "all", is_idempotent: bool = False) -> None:
        self._send(self._producer(acks=acks, enable_idempotence=is_idempotent), topic, values)

    def transact(self, topic: str, values: Iterable[bytes], group: str, offset: int, *, is_commit: bool) -> None:
        producer = self._producer(transactional_id=f"{topic}-id")
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        self._send(producer, topic, values)
        consumer = self._consumer(group)
        offsets = [librdkafka.TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
        consumer.close()
        (producer.commit_transaction if is_commit else producer.abort_transaction)(SECONDS)

    def _consumer(self, group: str, **options: Any) -> Any:
        named = {name.replace("_", "."): value for name, value in options.items()}
        fixed = {"bootstrap.servers": self.address, "group.id": group, "enable.auto.commit": False, **QUIET}
        return librdkafka.Consumer({**fixed, "auto.offset.reset": "earliest", **named})

    @staticmethod
    def _values(consumer: Any, count: int) -> list[bytes]:
        values: list[bytes] = []
        until_s = time.monotonic() + SECONDS
        while time.monotonic() < until_s:
            values += [message.value() for message in consumer.consume(500, 0.3) if message.error() is None]
            if len(values) >= count:
                values += [message.value() for message in consumer.consume(1, 0.3) if message.error() is None]
                break
        return sorted(values)

    def read(self, topic: str, isolation: str, count: int) -> list[bytes]:
        consumer = self._consumer("unused", isolation_level=isolation)
        consumer.assign([librdkafka.TopicPartition(topic, number, 0) for number in range(2)])
        values = self._values(consumer, count)
        consumer.close()
        return values

    def share(self, topic: str, group: str, count: int, isolation: str = "read_committed") -> list[bytes]:
        consumer = self._consumer(group, isolation_level=isolation)
        consumer.subscribe([topic])
        values = self._values(consumer, count)
        consumer.commit(asynchronous=False)
        consumer.close()
        return values

    def committed(self, topic: str, group: str) -> list[int | None]:
        consumer = self._consumer(group)
        asked = [librdkafka.TopicPartition(topic, number) for number in range(2)]
        found = [each.offset for each in consumer.committed(asked, timeout=SECONDS)]
        consumer.close()
        return [offset if offset >= 0 else None for offset in found]

    def offset_at(self, topic: str, time_ms: int) -> int | None:
        consumer = self._consumer("unused")
        (found,) = consumer.offsets_for_times([librdkafka.TopicPartition(topic, 0, time_ms)], timeout=SECONDS)
        consumer.close()
        return int(found.offset) if found.offset >= 0 else None

    def ends(self, topic: str) -> tuple[int, int]:
        place = librdkafka.TopicPartition(topic, 0)
        asked = (librdkafka_admin.OffsetSpec.earliest(), librdkafka_admin.OffsetSpec.latest())
        start, end = (self._wait(self._admin.list_offsets({place: each}))[0].offset for each in asked)
        return start, end

    def set_config(self, topic: str, value: str) -> str:
        kind = librdkafka_admin.ConfigResource.Type.TOPIC
        entry = librdkafka_admin.ConfigEntry(
            SETTING, value, incremental_operation=librdkafka_admin.AlterConfigOpType.SET
        )
        changed = librdkafka_admin.ConfigResource(kind, topic, incremental_configs=[entry])
        self._wait(self._admin.incremental_alter_configs([changed]))
        (found,) = self._wait(self._admin.describe_configs([librdkafka_admin.ConfigResource(kind, topic)]))
        return str(found[SETTING].value)

    def delete_records(self, topic: str, offset: int) -> None:
        self._wait(self._admin.delete_records([librdkafka.TopicPartition(topic, 0, offset)]))

    def groups(self) -> set[str]:
        return {each.group_id for each in self._admin.list_consumer_groups().result(SECONDS).valid}

    def state_of(self, group: str) -> str:
        (found,) = self._wait(self._admin.describe_consumer_groups([group]))
        return str(found.state.name).capitalize()

    def delete_group(self, group: str) -> bool:
        self._wait(self._admin.delete_consumer_groups([group]))
        return True


class LibrdkafkaOfKip848(Librdkafka):
    """The same with groups of the new protocol."""

    def _consumer(self, group: str, **options: Any) -> Any:
        return super()._consumer(group, group_protocol="consumer", **options)


class KafkaPython(PythonClient):
    """kafka-python."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._admin = kafka.KafkaAdminClient(bootstrap_servers=address)

    def create(self, topic: str) -> None:
        self._admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        self._admin.create_partitions({topic: 2})

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    @staticmethod
    def _send(producer: Any, topic: str, values: Iterable[bytes]) -> None:
        sent = [producer.send(topic, value, b"k", partition=number % 2) for number, value in enumerate(values)]
        for each in sent:
            each.get(SECONDS)

    def produce(self, topic: str, values: Iterable[bytes], *, acks: Any = "all", is_idempotent: bool = False) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=self.address, acks=acks, enable_idempotence=is_idempotent)
        try:
            self._send(producer, topic, values)
        finally:
            producer.close()

    def transact(self, topic: str, values: Iterable[bytes], group: str, offset: int, *, is_commit: bool) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=self.address, transactional_id=f"{topic}-id")
        producer.init_transactions()
        producer.begin_transaction()
        self._send(producer, topic, values)
        offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(offsets, group)
        (producer.commit_transaction if is_commit else producer.abort_transaction)()
        producer.close()

    def _consumer(self, **options: Any) -> Any:
        fixed = {"bootstrap_servers": self.address, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        return kafka.KafkaConsumer(**fixed, **options)

    @staticmethod
    def _values(consumer: Any, count: int) -> list[bytes]:
        values: list[bytes] = []
        until_s = time.monotonic() + SECONDS
        while time.monotonic() < until_s:
            is_last = len(values) >= count
            values += [each.value for rows in consumer.poll(timeout_ms=300).values() for each in rows]
            if is_last:
                break
        return sorted(values)

    def read(self, topic: str, isolation: str, count: int) -> list[bytes]:
        with closing(self._consumer(isolation_level=isolation)) as consumer:
            consumer.assign([kafka.TopicPartition(topic, number) for number in range(2)])
            return self._values(consumer, count)

    def share(self, topic: str, group: str, count: int, isolation: str = "read_committed") -> list[bytes]:
        with closing(self._consumer(group_id=group, isolation_level=isolation)) as consumer:
            consumer.subscribe([topic])
            values = self._values(consumer, count)
            consumer.commit()
        return values

    def committed(self, topic: str, group: str) -> list[int | None]:
        with closing(self._consumer(group_id=group)) as consumer:
            return [consumer.committed(kafka.TopicPartition(topic, number)) for number in range(2)]

    def offset_at(self, topic: str, time_ms: int) -> int | None:
        place = kafka.TopicPartition(topic, 0)
        with closing(self._consumer()) as consumer:
            found = consumer.offsets_for_times({place: time_ms})[place]
        return None if found is None else found.offset

    def ends(self, topic: str) -> tuple[int, int]:
        place = kafka.TopicPartition(topic, 0)
        with closing(self._consumer()) as consumer:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]

    def set_config(self, topic: str, value: str) -> str:
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {SETTING: value})])
        found = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        (settings,) = (each for kind in found.values() for each in kind.values())
        return str(settings[SETTING]["value"])

    def delete_records(self, topic: str, offset: int) -> None:
        self._admin.delete_records({kafka.TopicPartition(topic, 0): offset})

    def groups(self) -> set[str]:
        return {each["group_id"] for each in self._admin.list_groups()}

    def state_of(self, group: str) -> str:
        return str(self._admin.describe_groups([group])[group]["group_state"])

    def delete_group(self, group: str) -> bool:
        self._admin.delete_groups([group])
        return True

    def close(self) -> None:
        self._admin.close()


class AioKafka(PythonClient):
    """aiokafka."""

    def _ask(self, name: str, *arguments: Any) -> Any:
        async def run() -> Any:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
            await admin.start()
            try:
                return await getattr(admin, name)(*arguments)
            finally:
                await admin.close()

        return asyncio.run(run())

    def create(self, topic: str) -> None:
        self._ask("create_topics", [AioTopic(topic, 1, 1)])
        self._ask("create_partitions", {topic: AioPartitions(2)})

    def topics(self) -> set[str]:
        return set(self._ask("list_topics"))

    def delete(self, topic: str) -> None:
        self._ask("delete_topics", [topic])

    @staticmethod
    async def _send(producer: Any, topic: str, values: Iterable[bytes]) -> None:
        sent = [await producer.send(topic, value, key=b"k", partition=at % 2) for at, value in enumerate(values)]
        await asyncio.gather(*sent)

    def produce(self, topic: str, values: Iterable[bytes], *, acks: Any = "all", is_idempotent: bool = False) -> None:
        async def run() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=self.address, acks=acks, enable_idempotence=is_idempotent)
            await producer.start()
            try:
                await self._send(producer, topic, values)
            finally:
                await producer.stop()

        asyncio.run(run())

    def transact(self, topic: str, values: Iterable[bytes], group: str, offset: int, *, is_commit: bool) -> None:
        async def run() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=self.address, transactional_id=f"{topic}-id")
            await producer.start()
            try:
                await producer.begin_transaction()
                await self._send(producer, topic, values)
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group)
                await (producer.commit_transaction() if is_commit else producer.abort_transaction())
            finally:
                await producer.stop()

        asyncio.run(run())

    def _with_consumer(self, use: Any, **options: Any) -> Any:
        async def run() -> Any:
            fixed = {"bootstrap_servers": self.address, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
            consumer = AIOKafkaConsumer(**fixed, **options)
            await consumer.start()
            try:
                return await use(consumer)
            finally:
                await consumer.stop()

        found: Coroutine[Any, Any, Any] = run()
        return asyncio.run(found)

    @staticmethod
    async def _values(consumer: Any, count: int) -> list[bytes]:
        values: list[bytes] = []
        until_s = time.monotonic() + SECONDS
        while time.monotonic() < until_s:
            is_last = len(values) >= count
            batch = await consumer.getmany(timeout_ms=300)
            values += [each.value for rows in batch.values() for each in rows]
            if is_last:
                break
        return sorted(values)

    def read(self, topic: str, isolation: str, count: int) -> list[bytes]:
        async def use(consumer: Any) -> list[bytes]:
            consumer.assign([TopicPartition(topic, number) for number in range(2)])
            return await self._values(consumer, count)

        return self._with_consumer(use, isolation_level=isolation)

    def share(self, topic: str, group: str, count: int, isolation: str = "read_committed") -> list[bytes]:
        async def use(consumer: Any) -> list[bytes]:
            consumer.subscribe([topic])
            values = await self._values(consumer, count)
            await consumer.commit()
            return values

        return self._with_consumer(use, group_id=group, isolation_level=isolation)

    def committed(self, topic: str, group: str) -> list[int | None]:
        async def use(consumer: Any) -> list[int | None]:
            return [await consumer.committed(TopicPartition(topic, number)) for number in range(2)]

        return self._with_consumer(use, group_id=group)

    def offset_at(self, topic: str, time_ms: int) -> int | None:
        place = TopicPartition(topic, 0)

        async def use(consumer: Any) -> int | None:
            found = (await consumer.offsets_for_times({place: time_ms}))[place]
            return None if found is None else int(found.offset)

        return self._with_consumer(use)

    def ends(self, topic: str) -> tuple[int, int]:
        place = TopicPartition(topic, 0)

        async def use(consumer: Any) -> tuple[int, int]:
            return (await consumer.beginning_offsets([place]))[place], (await consumer.end_offsets([place]))[place]

        return self._with_consumer(use)

    def set_config(self, topic: str, value: str) -> str:
        self._ask("alter_configs", [AioResource(AioResourceType.TOPIC, topic, {SETTING: value})])
        (answer,) = self._ask("describe_configs", [AioResource(AioResourceType.TOPIC, topic)])
        return str(next(entry[1] for entry in answer.resources[0][4] if entry[0] == SETTING))

    def delete_records(self, topic: str, offset: int) -> None:
        self._ask("delete_records", {TopicPartition(topic, 0): RecordsToDelete(before_offset=offset)})

    def groups(self) -> set[str]:
        return {name for name, _ in self._ask("list_consumer_groups")}

    def state_of(self, group: str) -> str:
        (answer,) = self._ask("describe_consumer_groups", [group])
        return str(answer.groups[0][2])


CLIENTS: dict[str, type[PythonClient]] = {
    "librdkafka": Librdkafka,
    "librdkafka-848": LibrdkafkaOfKip848,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}
