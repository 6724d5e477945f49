"""The one fixture through which the kernels are tested: every twin in turn."""

from __future__ import annotations

import pytest

from tests.support.twins import TWINS


@pytest.fixture(scope="session", params=TWINS)
def twin_name(request: pytest.FixtureRequest) -> str:
    """Which twin; `tests.support.twins.twin` has its module."""
    name: str = request.param
    return name
