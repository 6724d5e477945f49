from collections.abc import MutableSequence, Sequence

def put_piece(t: Sequence[int], s: Sequence[int], piece: int, w: MutableSequence[int], at: int) -> int: ...
def put_int(value: int, w: MutableSequence[int], at: int) -> int: ...
def put_text(p: Sequence[int], q: int, end: int, w: MutableSequence[int], at: int) -> int: ...
def put_encoded(
    p: Sequence[int],
    q: int,
    end: int,
    t: Sequence[int],
    s: Sequence[int],
    mode: int,
    w: MutableSequence[int],
    at: int,
) -> int: ...
