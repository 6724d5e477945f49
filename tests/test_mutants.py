"""The table of mutants that no test kills: each entry is of a line that is there, and has its word once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutants import table

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "mutants.txt"


def test_every_entry_is_of_a_line_that_is_there() -> None:
    known = table.read(TABLE)
    assert table.stale(known, ROOT) == []
    assert len(known) == TABLE.read_text(encoding="utf-8").count("\n  + ")


def test_an_entry_of_a_line_that_is_gone_is_stale(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("def f():\n    return (1 +\n            2)\n", encoding="utf-8")
    here, gone = ("module.py", "f", "return (1 + 2)", "return None"), ("module.py", "f", "return 3", "return None")
    assert table.stale({here: "", gone: ""}, tmp_path) == [gone]
    assert table.stale({("other.py", "f", "pass", "return"): ""}, tmp_path) == [("other.py", "f", "pass", "return")]


def test_an_entry_without_a_word_is_refused(tmp_path: Path) -> None:
    identity = "module.py", "f", "return 1", "return None"
    path = tmp_path / "mutants.txt"
    path.write_text(f"# a remark\n\n{table.entry(identity, 'equivalent: so it is')}", encoding="utf-8")
    assert table.read(path) == {identity: "equivalent: so it is"}
    path.write_text(table.entry(identity, "?"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"no entry: module.py"):
        table.read(path)
