"""The memory of columns and lines."""

from __future__ import annotations

import pytest

from kafkalog_core.format.columns import fresh_memory


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize("size_bytes", [1, 4096, 5 * 1024 * 1024 + 7])
def test_fresh_memory_is_zeroed_and_may_be_written(size_bytes: int, is_filled: bool) -> None:
    memory, other = (fresh_memory(size_bytes, is_filled=is_filled) for _ in range(2))
    assert memory[:] == bytes(size_bytes)
    memory[size_bytes - 1] = 7
    assert len(memory) == size_bytes
    assert other[:] == bytes(size_bytes)


def test_memory_that_the_system_has_not_is_refused() -> None:
    with pytest.raises(OSError, match=r"Cannot allocate|[Nn]ot enough"):
        fresh_memory(1 << 60)
