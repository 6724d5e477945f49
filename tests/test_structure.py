"""Rules of the house that no linter knows: sizes of modules and functions, where layouts stand, who may write."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted([*ROOT.glob("kafkalog_core/**/*.py"), *ROOT.glob("kafkalog_cli/**/*.py")])
MODULE_LINES = 600
LAYOUT_LINES = 500
FUNCTION_LINES = 70
WRITERS = {
    "kafkalog_cli/commands/bench.py": "makes a file of its own in a temporary place",
    "kafkalog_core/ops/verify/spool.py": "removes the temporary files that processes of one run make for each other",
    "kafkalog_core/ops/reindex/steps.py": "removes the temporary files that its own processes make",
    "kafkalog_core/ops/compact/simulation.py": "temporary files of its own, from one simulated clean to the next",
    "kafkalog_core/storage/changing/writer.py": "the one door through which a broker's files are changed",
    "kafkalog_core/spark/session/parquet.py": "writes the Parquet file of a job, and removes it where that fails",
    "kafkalog_cli/output_file.py": "writes the file that a user asked for, never among those of a broker",
}


def _ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=_ids)
def test_no_room_is_crowded(path: Path) -> None:
    limit = LAYOUT_LINES if path.name == "layout.py" else MODULE_LINES
    assert len(path.read_text(encoding="utf-8").splitlines()) <= limit


@pytest.mark.parametrize("path", MODULES, ids=_ids)
def test_functions_are_small(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            assert node.end_lineno - node.lineno < FUNCTION_LINES, node.name


@pytest.mark.parametrize("path", MODULES, ids=_ids)
def test_layouts_are_spelled_in_layout_alone(path: Path) -> None:
    imported = {
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert path.name == "layout.py" or "struct" not in imported


@pytest.mark.parametrize("path", MODULES, ids=_ids)
def test_nothing_is_opened_for_writing(path: Path) -> None:
    """Those that may are named in WRITERS, each with its reason."""
    text = path.read_text(encoding="utf-8")
    opened = r"""open\([^)]*["'][wax]b?\+?["']|(?<!formatter)\.write_(text|bytes)\("""
    changed = r"""os\.(rename|replace|remove|unlink|truncate|fsync)\("""
    assert _ids(path) in WRITERS or not re.search(f"{opened}|{changed}", text)
