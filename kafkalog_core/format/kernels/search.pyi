def find_candidate(
    memory: bytes | bytearray | memoryview,
    begin: int,
    rest: int,
    low_offset: int,
    high_offset: int,
    max_bytes: int,
) -> int: ...
def next_candidate(
    p: bytes | bytearray | memoryview,
    begin: int,
    last: int,
    rest: int,
    low_offset: int,
    high_offset: int,
    max_bytes: int,
) -> int: ...
def find_candidate_v07(memory: bytes | bytearray | memoryview, begin: int, rest: int, max_bytes: int) -> int: ...
