"""Who follows nothing but the commands that kafkalog prints comes to a disk on which the broker starts.

Here a walk ends: no command is named twice for one disk, none fails, and of a disk on which the real broker died no
error is left. It begins with verify, with preflight, or with what explain says of the lines that the broker left.
Whether the broker then starts is judged by a real one: `tests/integration/test_walk.py`.
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
FILES = archives.contents(archives.source()).files
LOGGED = [
    fault for fault in walking.dying() if "/07-faults-4.3.1/" in fault.path and f"{fault.path}/broker.log" in FILES
]
"""Of these the whole corpus has the broker's own log, of one log directory; fixtures/ has none."""
NO_METADATA_LOG = "/B.partition_metadata.empty"
"""The topic's id is in the metadata log alone, and the corpus does not hold that of this broker."""


@pytest.mark.parametrize("fault", WALKED, ids=lambda fault: fault.path.split("/", 1)[1])
def test_the_printed_commands_lead_out(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    walk = walking.lay(corpus, fault, tmp_path)
    walk.go()
    if fault.path in DYING and not fault.path.endswith(NO_METADATA_LOG):
        assert [(row["code"], row["file"]) for row in walk.left] == [], walk.steps
        assert walk.steps


@pytest.mark.parametrize("fault", walking.dying(), ids=lambda fault: fault.path.split("/", 1)[1])
def test_the_commands_of_preflight_lead_out(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    walk = walking.lay(corpus, fault, tmp_path)
    assert not walk.starts()
    walk.go("preflight")
    assert walk.starts() or fault.path.endswith(NO_METADATA_LOG), walk.steps


@pytest.mark.parametrize("fault", LOGGED, ids=lambda fault: fault.path.split("/", 1)[1])
def test_the_commands_of_explain_lead_out(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    walk = walking.lay(corpus, fault, tmp_path)
    walk.go("explain", corpus / fault.path / "broker.log")
    assert walk.starts(), walk.steps
