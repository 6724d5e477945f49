from array import array
from collections.abc import MutableSequence, Sequence

from kafkalog_core.format.columns import BatchColumns, RecordColumns

def map_records(
    memory: bytes | bytearray | memoryview,
    batches: BatchColumns,
    bits: bytes,
    records: RecordColumns,
    last: int,
    state: array[int],
    table: memoryview,
    digests: array[int],
) -> int: ...
def put_key(key: bytes, offset: int, state: array[int], table: memoryview) -> None: ...
def find_key(key: bytes, state: array[int], table: memoryview) -> int: ...
def digest_ahead(
    memory: bytes | bytearray | memoryview,
    p: bytes | bytearray | memoryview,
    r: Sequence[int],
    capacity: int,
    first: int,
    count: int,
    slots: int,
    t: Sequence[int],
    d: MutableSequence[int],
) -> int: ...
def entry_of(low: int, high: int, slots: int, t: Sequence[int]) -> int: ...
