"""No false alarm: real coordinators and controllers loaded what real releases left, and so does the simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.coordinator_rules import coordinator_rules
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.sim.start.coordinators import COORDINATOR_TOPICS, load_coordinator
from kafkalog_core.kafka.sim.start.metadata_load import load_metadata
from tests.support.corpus.snapshots import snapshots

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus


def _log_dirs() -> list[str]:
    """Log directories of the corpus that are not made of a base and a fault."""
    return sorted({snapshot.log_dir for snapshot in snapshots() if snapshot.fault is None})


@pytest.mark.parametrize("log_dir", _log_dirs())
def test_the_newest_release_loads_what_releases_left(corpus: Path, log_dir: str) -> None:
    """Apart from settings of the time before 4.1, which it does not accept."""
    rules = coordinator_rules(LATEST)
    assert rules is not None
    for path in sorted((corpus / log_dir).iterdir()):
        topic = path.name.rpartition("-")[0]
        if topic == "__cluster_metadata":
            (load,) = load_metadata(str(path), [LATEST])
            assert load is not None
            assert load.stop is None or load.stop.setting is not None, load.stop
        elif topic in COORDINATOR_TOPICS:
            (loaded,) = load_coordinator(topic, str(path), [rules])
            assert loaded.is_whole, loaded.stop
