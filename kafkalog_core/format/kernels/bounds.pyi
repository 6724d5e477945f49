from collections.abc import Sequence

def most_bytes(r: Sequence[int], r_capacity: int, h: Sequence[int], h_capacity: int, row: int) -> int: ...
def exact_bytes(
    p: Sequence[int],
    r: Sequence[int],
    r_capacity: int,
    h: Sequence[int],
    h_capacity: int,
    row: int,
    text_mode: int,
    mode: int,
) -> int: ...
