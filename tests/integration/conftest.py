"""Real brokers for the tests of this directory. Without java or mvn they are skipped, and say so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.integration import jars
from tests.integration.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def libs() -> Path:
    """The directory with Kafka's jars."""
    try:
        return jars.fetch()
    except jars.MissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def broker(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker that all tests share, each with topics of its own. Nobody stops it."""
    with _running(libs, tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def own_broker(libs: Path, tmp_path: Path) -> Iterator[Broker]:
    """A running broker of one test alone, which may stop, kill and start it."""
    with _running(libs, tmp_path) as broker:
        yield broker


@contextmanager
def _running(libs: Path, work_dir: Path) -> Iterator[Broker]:
    broker = Broker(libs, work_dir)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
