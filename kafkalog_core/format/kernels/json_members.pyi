from collections.abc import MutableSequence, Sequence

def put_headers(
    p: Sequence[int],
    h: Sequence[int],
    capacity: int,
    first: int,
    count: int,
    t: Sequence[int],
    s: Sequence[int],
    pieces: int,
    mode: int,
    w: MutableSequence[int],
    at: int,
) -> int: ...
def put_bytes(
    p: Sequence[int],
    q: int,
    size: int,
    t: Sequence[int],
    s: Sequence[int],
    pieces: int,
    mode: int,
    w: MutableSequence[int],
    at: int,
) -> int: ...
