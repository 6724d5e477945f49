"""Real brokers for the tests of this directory. Without java or mvn they are skipped, and say so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.integration.broker import Broker, TwoLogDirs
from tests.integration.repairing import make_patient
from tests.integration.tool_runner import ToolRunner
from tests.integration.tool_uses import RELEASES
from tests.integration.zookeeper_broker import ZooKeeperBroker
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.repairing import Patient


@pytest.fixture(scope="session")
def libs() -> Path:
    """The directory with Kafka's jars."""
    try:
        found = jars.fetch()
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    Broker.archive_classes(found)
    return found


@pytest.fixture(scope="session")
def broker(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker that all tests share, each with topics of its own. Nobody stops it."""
    with _running(Broker(libs, tmp_path_factory.mktemp("broker"))) as broker:
        yield broker


@pytest.fixture(scope="session")
def tools() -> Iterator[ToolRunner]:
    """One Java process for the command-line tools of all releases."""
    try:
        for version in RELEASES:
            jars.fetch(version)
        runner = ToolRunner()
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    with runner:
        yield runner


@pytest.fixture
def own_broker(libs: Path, tmp_path: Path) -> Iterator[Broker]:
    """A running broker of one test alone, which may stop, kill and start it."""
    with _running(Broker(libs, tmp_path)) as broker:
        yield broker


@pytest.fixture
def two_log_dirs(libs: Path, tmp_path: Path) -> Iterator[TwoLogDirs]:
    """The same with two log directories."""
    broker = TwoLogDirs(libs, tmp_path)
    with _running(broker):
        yield broker


@pytest.fixture(params=[jars.KAFKA_VERSION, jars.ZOOKEEPER_ERA])
def broker_of_release(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """The same of each release that judges repairs."""
    with _broker_of(request.param, tmp_path) as broker:
        yield broker


@pytest.fixture(scope="session", params=[jars.KAFKA_VERSION, jars.ZOOKEEPER_ERA])
def patient(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    """A log directory of each of those releases, damaged and repaired; tests put them in the broker's place."""
    with _broker_of(request.param, tmp_path_factory.mktemp("patient")) as broker:
        yield make_patient(broker)


@pytest.fixture
def fresh(patient: Patient) -> Iterator[Patient]:
    """The same, and its broker is not running when the test ends."""
    yield patient
    patient.broker.kill()


@contextmanager
def _broker_of(version: str, work_dir: Path) -> Iterator[Broker]:
    try:
        libs = jars.fetch(version)
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    make = ZooKeeperBroker if version == jars.ZOOKEEPER_ERA else Broker
    make.archive_classes(libs)
    with _running(make(libs, work_dir)) as broker:
        yield broker


@contextmanager
def _running(broker: Broker) -> Iterator[Broker]:
    broker.start()
    try:
        yield broker
    finally:
        broker.close()
