"""A broker that runs as another user than who repaired its disk: it can still read and write everything."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration import clients
from tests.integration.broker import Broker
from tests.integration.repairing import (
    CLEAN,
    COUNT,
    CUTS,
    MARKED_CLEAN,
    RECOVERS,
    consumed,
    journals,
    lines_with,
    make_patient,
    promised,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="who starts a process as another user is root"),
]

USER = 12345


@pytest.fixture
def foreign_broker(libs: Path) -> Iterator[Broker]:
    """A running broker of a user who may not enter what is ours: jars and directory are where everybody may."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        shutil.copytree(libs, place / "libs", copy_function=_link)
        (place / "work").mkdir()
        os.chown(place / "work", USER, USER)
        broker = Broker(place / "libs", place / "work", user=USER)
        broker.start()
        try:
            yield broker
        finally:
            broker.close()


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
    os.chmod(target, 0o644)


def _owners(root: Path) -> dict[str, tuple[int, int, int]]:
    paths = [root, *root.rglob("*")]
    return {str(path): (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode) for path in paths}


def test_a_broker_of_another_user_reads_and_writes_it_all(foreign_broker: Broker) -> None:
    broker = foreign_broker
    patient = make_patient(broker)
    patient.repair(*MARKED_CLEAN)
    assert journals(broker)
    owners = _owners(broker.log_dir)
    assert {(user, group) for user, group, _ in owners.values()} == {(USER, USER)}
    expected = promised(broker)
    broker.start()
    assert lines_with(broker, [CLEAN])
    assert lines_with(broker, [*RECOVERS, *CUTS, "ERROR", "denied"]) == []
    assert asyncio.run(consumed(broker)) == expected
    for topic in expected:
        asyncio.run(clients.send_everything(broker, random.Random(topic), topic, COUNT))
    asyncio.run(clients.delete_records(broker, "untouched", 100))
    asyncio.run(clients.delete_topic(broker, "cut"))
    broker.stop()
    assert lines_with(broker, ["ERROR", "denied"]) == []
    assert {owner[:2] for owner in _owners(broker.log_dir).values()} == {(USER, USER)}
