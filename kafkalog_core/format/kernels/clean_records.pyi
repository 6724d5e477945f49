from collections.abc import MutableSequence, Sequence

def base_time_of(k: Sequence[int], cells: int) -> int: ...
def put_records(
    p: bytes | bytearray | memoryview,
    b: Sequence[int],
    b_capacity: int,
    r: Sequence[int],
    capacity: int,
    count: int,
    h: Sequence[int],
    h_capacity: int,
    w: bytes | bytearray | memoryview,
    k: Sequence[int],
    o: memoryview,
    room: int,
    s: MutableSequence[int],
) -> bool: ...
