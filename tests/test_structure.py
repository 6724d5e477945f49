"""Rules of the house that no linter knows: sizes of modules and functions, where layouts are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted([*ROOT.glob("kafkalog_core/**/*.py"), *ROOT.glob("kafkalog_cli/**/*.py")])
SMALL_LINES = 40
MODULE_LINES = 600
LAYOUT_LINES = 500
FUNCTION_LINES = 70

PRIVATE_WORDS = frozenset(
    {"told", "handover", "ledger", "shelf", "trail", "sites", "spelled", "motion", "outline", "aftermath", "course"}
)
"""Words that readers of Kafka's code would not look for: for each there is a noun that they know."""
SMALL = {
    "kafkalog_core.format.kernels._cython": "replaces Cython where it is not installed; setup.py names it too",
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
    is_made_from_schemas = path.parts[-2:] == ("wire", "codec.py")  # the layouts are those of wire/schemas.txt
    assert path.name == "layout.py" or is_made_from_schemas or "struct" not in imported


Texts = dict[str, str]
"""Modules by their dotted name."""


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _product() -> Texts:
    return {_name(path): path.read_text(encoding="utf-8") for path in MODULES}


def _imports(texts: Texts) -> dict[str, set[str]]:
    """Which modules each module imports: anywhere in its text, for types alone too."""
    imports = {}
    for name, text in texts.items():
        found = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                inside = (f"{node.module}.{alias.name}" for alias in node.names)
                found |= {each if each in texts else node.module for each in inside}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        imports[name] = (found & texts.keys()) - {name}
    return imports


def _cycle(texts: Texts) -> list[str]:
    """One cycle of modules, in the order of their imports; empty: there is none."""
    try:
        TopologicalSorter(_imports(texts)).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def _splinters(texts: Texts) -> list[str]:
    """Modules under SMALL_LINES that one module imports; an `__init__` is none, as its package needs it."""
    importers = Counter(target for targets in _imports(texts).values() for target in targets)
    packages = {name.rpartition(".")[0] for name in texts}
    return [
        name
        for name, text in texts.items()
        if len(text.splitlines()) < SMALL_LINES and importers[name] == 1 and name not in packages
    ]


def _ambiguous_classes(texts: Texts) -> dict[str, list[str]]:
    """Public classes that several modules define."""
    homes: dict[str, list[str]] = {}
    for name, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


def _private_words(name: str, text: str) -> list[str]:
    """Words of PRIVATE_WORDS in the name of a module and in the identifiers of its text."""
    identifiers = [name]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=found) | ast.ClassDef(name=found) | ast.Name(id=found):
                identifiers.append(found)
            case ast.Attribute(attr=found) | ast.arg(arg=found) | ast.keyword(arg=str(found)):
                identifiers.append(found)
            case ast.alias(asname=str(found)) | ast.MatchAs(name=str(found)) | ast.ExceptHandler(name=str(found)):
                identifiers.append(found)
    words = {word for each in identifiers for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", each)}
    return sorted({word.lower() for word in words} & PRIVATE_WORDS)


def test_no_cycle_of_modules() -> None:
    """Imports for types alone count too: a reader of one module of a cycle has to read all of them."""
    assert " imports ".join(_cycle(_product())) == ""


def test_a_small_module_has_several_importers() -> None:
    """A small module that is used in one place belongs in that place."""
    assert sorted(set(_splinters(_product())) - SMALL.keys()) == []


def test_one_name_has_one_meaning() -> None:
    """A reader of a public class need not ask which room its name is of."""
    assert _ambiguous_classes(_product()) == {}


@pytest.mark.parametrize("path", MODULES, ids=_ids)
def test_names_are_the_standard_nouns(path: Path) -> None:
    assert _private_words(path.stem, path.read_text(encoding="utf-8")) == []


def test_planted_offences_are_found() -> None:
    """Each of the rules above fails where it is broken, and not where it is kept."""
    long = "x = 1\n" * SMALL_LINES
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from "
    late = "def f() -> None:\n    import a.c\n"
    assert _cycle({"a.b": f"{for_types}a.c import C\n", "a.c": "import a.b\n"}) == ["a.b", "a.c", "a.b"]
    assert (
        len(_cycle({"a.b": "from a import c, name\n", "a.c": "from a import d\n", "a.d": "from a.b import x\n"})) == 4
    )
    assert _cycle({"a": for_types + "a.b import B\n", "a.b": late, "a.c": "import os\n"}) == []

    assert _splinters({"a": "", "a.b": "import a.c\n", "a.c": "x = 1\n"}) == ["a.c"]
    assert _splinters({"a": "", "a.b": "import a.c, a.d\n", "a.c": "x = 1\n", "a.d": "import a.c\n" + long}) == []

    assert _ambiguous_classes({"a": "class Gap: ...\n", "b": "class Gap(int): ...\n"}) == {"Gap": ["a", "b"]}
    assert _ambiguous_classes({"a": "class _Gap: ...\nclass Hole: ...\n", "b": "class _Gap: ...\n"}) == {}

    for text in (
        "is_told = 1",
        "class DataShelf: ...",
        "def f(trail): ...",
        "f(motion=1)",
        "x.SITES",
        "import a as ledger",
    ):
        assert len(_private_words("a", text)) == 1, text
    assert _private_words("outline", "of_course = 'told'") == ["course", "outline"]
    assert _private_words("a", "foretold = trailer = 'told'  # told") == []
