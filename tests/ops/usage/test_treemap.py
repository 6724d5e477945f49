"""The picture of `usage --report`: the rectangles fill it, each by its size, and none overlaps another."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.render.report.usage_page import Box, treemap

WHOLE = Box(0.0, 0.0, 1000.0, 560.0)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=40))
def test_the_rectangles_share_the_picture(sizes: list[int]) -> None:
    sizes.sort(reverse=True)
    boxes = list(treemap(sizes, WHOLE))
    area = WHOLE.width * WHOLE.height
    for size, box in zip(sizes, boxes, strict=True):
        assert box.width * box.height == pytest.approx(area * size / sum(sizes), rel=1e-6, abs=1e-6)
        assert -1e-6 <= box.x <= box.x + box.width <= WHOLE.width + 1e-6
        assert -1e-6 <= box.y <= box.y + box.height <= WHOLE.height + 1e-6
    for one, other in combinations(boxes, 2):
        across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
        down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
        assert across <= 1e-6 or down <= 1e-6
