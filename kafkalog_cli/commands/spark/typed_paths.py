"""Paths as the user has typed them, in what a job on Spark reports: its tasks run in other working directories."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from kafkalog_core.storage.paths import is_object
from kafkalog_core.structs import asdict, replace

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["TypedPaths"]

_MAGIC: Final = re.compile(r"[*?\[]")
_BEFORE, _AFTER = r"(?<![\w./-])", r"(?![\w/-]|\.\w)"  # of a path that is not a part of another one


class TypedPaths:
    """The relative paths of a command line; `verdicts` have them where a task has found absolute ones."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._roots: list[tuple[re.Pattern[str], str]] = []
        for path in paths:
            if os.path.isabs(path) or is_object(path):
                continue
            magic = None if os.path.lexists(path) else _MAGIC.search(path)
            typed = path.rstrip("/") if magic is None else os.path.dirname(path[: magic.start()])
            absolute = re.escape(os.path.abspath(typed))
            self._roots += [
                (re.compile(f"{_BEFORE}{absolute}/"), f"{typed}/" if typed else ""),
                (re.compile(f"{_BEFORE}{absolute}{_AFTER}"), (path if magic is None else typed) or "."),
            ]

    def verdicts(
        self, verdicts: Iterable[PartitionVerdict | PlaceVerdict]
    ) -> Generator[PartitionVerdict | PlaceVerdict, None, None]:
        """Yield verdicts with the paths as they were typed."""
        for verdict in verdicts:
            yield (
                replace(verdict, path=self.text(verdict.path), findings=tuple(map(self._finding, verdict.findings)))
                if self._roots
                else verdict
            )

    def text(self, text: str) -> str:
        """Return a text with the paths as they were typed."""
        for root, typed in self._roots:
            text = root.sub(typed.replace("\\", r"\\"), text)
        return text

    def _finding(self, finding: Finding) -> Finding:
        texts = {name: value for name, value in asdict(finding).items() if isinstance(value, str)}
        changed = {name: self.text(value) for name, value in texts.items()}
        return finding if changed == texts else replace(finding, **changed)
