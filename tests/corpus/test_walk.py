"""Who follows nothing but the commands that kafkalog prints comes to a disk on which the broker starts.

Here a walk ends: no command is named twice for one disk, none fails, and of a disk on which the real broker died no
error is left. Whether the broker then starts is judged by a real one: `tests/integration/test_walk.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.corpus import archives, walking

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.corpus.faults import Fault

pytestmark = pytest.mark.corpus

DYING = {fault.path for fault in walking.dying()}
WALKED = [
    fault
    for fault in (walking.all_faults() if archives.is_whole() else walking.dying())
    if not fault.path.endswith("dir_empty")  # it shows nothing of a broker
]
NO_METADATA_LOG = "/B.partition_metadata.empty"
"""The topic's id is in the metadata log alone, and the corpus does not hold that of this broker."""


@pytest.mark.parametrize("fault", WALKED, ids=lambda fault: fault.path.split("/", 1)[1])
def test_the_printed_commands_lead_out(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    walk = walking.lay(corpus, fault, tmp_path)
    walk.go()
    if fault.path in DYING and not fault.path.endswith(NO_METADATA_LOG):
        assert [(row["code"], row["file"]) for row in walk.left] == [], walk.steps
        assert walk.steps
