"""Two real clusters: the disks of the old one, and what the new one knows. `fixtures/README.md` has their origin."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.ops.repair.plan import PlanRequest

if TYPE_CHECKING:
    from kafkalog_core.ops.repair.plan import PlanDraft

OLD_ID: Final = "b2xkLWNsdXN0ZXItLS0wMQ"
NEW_ID: Final = "bmV3LWNsdXN0ZXItLS0wMQ"
NOW_MS: Final = 1_796_030_000_000
_ARCHIVE: Final = Path(__file__).resolve().parents[2] / "fixtures" / "clusters" / "transplant-4.3.1.tgz"


class Clusters:
    """Both clusters, unpacked: nodes 1 and 2 of each."""

    def __init__(self, place: Path) -> None:
        with tarfile.open(_ARCHIVE) as archive:
            archive.extractall(place, filter="data")
        self.place = place
        self.described = place / "new" / "describe.txt"

    def old(self, node: int) -> Path:
        return self.place / "old" / str(node)

    def new(self, node: int) -> Path:
        return self.place / "new" / str(node)

    @property
    def topic_ids(self) -> dict[str, str]:
        """What kafka-topics.sh printed."""
        return dict(re.findall(r"Topic: (\S+)\tTopicId: (\S+)", self.described.read_text()))

    def drafts(self, *paths: Path, **options: Any) -> list[PlanDraft]:
        """A plan for each directory; `topic_ids` are paths."""
        given = {"cluster_id": NEW_ID, "node_id": None, "directory_id": None, **options}
        given["topic_ids"] = [str(path) for path in options.get("topic_ids", ())]
        targets = target_dirs(resolve([str(path) for path in paths]))
        return [make_plan("transplant", PlanRequest(target=each, options=given, now_ms=NOW_MS)) for each in targets]

    def draft(self, path: Path, **options: Any) -> PlanDraft:
        """The plan for one directory."""
        (draft,) = self.drafts(path, **options)
        return draft


def codes(draft: PlanDraft) -> list[str]:
    """Of all findings."""
    report = draft.plan.report
    return [finding.code for finding in (*report.findings, *report.refusals)]
