"""Rules of the house that no linter knows: sizes of modules and functions, where layouts are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import NamedTuple

from tests.support.for_each import for_each
from tests.support.product import ROOT, modules

SMALL_LINES = 40
MODULE_LINES = 600
LAYOUT_LINES = 500
FUNCTION_LINES = 70

PRIVATE_WORDS = frozenset(
    {"told", "handover", "ledger", "shelf", "trail", "sites", "spelled", "motion", "outline", "aftermath", "course"}
)
"""Words that readers of Kafka's code would not look for: for each there is a noun that they know."""
SMALL = {
    "kafkalog_core.kernels._cython": "replaces Cython where it is not installed; setup.py names it too",
}


class Facts(NamedTuple):
    """What the rules ask about a module.

    imports: all modules that it imports, for types too, each with the name that it takes from it ("": the module).
    functions: the name of each function, and its lines after the first.
    classes: the public ones.
    words: those of PRIVATE_WORDS among its identifiers.
    """

    imports: list[tuple[str, str]]
    functions: list[tuple[str, int]]
    classes: list[str]
    words: set[str]


@cache
def _facts(text: str) -> Facts:
    """Parse a module once for all rules."""
    tree = ast.parse(text)
    facts = Facts([], [], [], set())
    facts.classes.extend(
        node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    identifiers = set()
    for node in ast.walk(tree):
        identifiers |= _identifiers(node)
        match node:
            case ast.ImportFrom(module=str(module)):
                facts.imports.extend((module, alias.name) for alias in node.names)
            case ast.Import():
                facts.imports.extend((alias.name, "") for alias in node.names)
            case ast.FunctionDef(end_lineno=int(end)):
                facts.functions.append((node.name, end - node.lineno))
    facts.words.update(_private_words_in(identifiers))
    return facts


def _identifiers(node: ast.AST) -> set[str]:
    match node:
        case ast.FunctionDef(name=found) | ast.ClassDef(name=found) | ast.Name(id=found):
            return {found}
        case ast.Attribute(attr=found) | ast.arg(arg=found) | ast.keyword(arg=str(found)):
            return {found}
        case ast.alias(asname=str(found)) | ast.MatchAs(name=str(found)) | ast.ExceptHandler(name=str(found)):
            return {found}
    return set()


def _private_words_in(identifiers: set[str]) -> set[str]:
    words = {word for each in identifiers for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", each)}
    return {word.lower() for word in words} & PRIVATE_WORDS


@for_each(modules)
def test_no_room_is_crowded(path: str) -> None:
    """Lines of comments do not count: a reason at a decision never makes a module too large."""
    limit = LAYOUT_LINES if PurePosixPath(path).name == "layout.py" else MODULE_LINES
    lines = sum(not line.lstrip().startswith("# ") for line in modules()[path].splitlines())
    assert lines <= limit


@for_each(modules)
def test_functions_are_small(path: str) -> None:
    assert [(name, lines) for name, lines in _facts(modules()[path]).functions if lines >= FUNCTION_LINES] == []


@for_each(modules)
def test_layouts_are_spelled_in_layout_alone(path: str) -> None:
    imported = {module for module, _ in _facts(modules()[path]).imports}
    is_made_from_schemas = path.endswith("/wire/codec.py")  # the layouts are those of wire/schemas.txt
    is_layout = PurePosixPath(path).name == "layout.py"
    assert is_layout or is_made_from_schemas or "struct" not in imported


Texts = dict[str, str]
"""Modules by their dotted name."""


def _name(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _product() -> Texts:
    return {_name(path): text for path, text in modules().items()}


def _imports(texts: Texts) -> dict[str, set[str]]:
    """Which modules each module imports: anywhere in its text, for types alone too."""
    return {
        name: {
            f"{module}.{inside}" if f"{module}.{inside}" in texts else module for module, inside in _facts(text).imports
        }
        & texts.keys() - {name}
        for name, text in texts.items()
    }


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
        for found in _facts(text).classes:
            homes.setdefault(found, []).append(name)
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


def _private_words(name: str, text: str) -> list[str]:
    """Words of PRIVATE_WORDS in the name of a module and in the identifiers of its text."""
    return sorted(_private_words_in({name}) | _facts(text).words)


def test_no_cycle_of_modules() -> None:
    """Imports for types alone count too: a reader of one module of a cycle has to read all of them."""
    assert " imports ".join(_cycle(_product())) == ""


def test_a_small_module_has_several_importers() -> None:
    """A small module that is used in one place belongs in that place."""
    assert sorted(set(_splinters(_product())) - SMALL.keys()) == []


def test_one_name_has_one_meaning() -> None:
    """A reader of a public class need not ask which room its name is of."""
    assert _ambiguous_classes(_product()) == {}


@for_each(modules)
def test_names_are_the_standard_nouns(path: str) -> None:
    assert _private_words(PurePosixPath(path).stem, modules()[path]) == []


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


def _test_modules_in(text: str) -> set[str]:
    """Test modules that a text imports or names; programs and names of planners in strings count too."""
    found = set(re.findall(r"\btests(?:\.\w+)*\.test_\w+", text))
    for package, names in re.findall(r"\bfrom (tests[.\w]*) import (\([^)]*\)|.*)", text):
        found |= {f"{package}.{name}" for name in re.findall(r"\btest_\w+", names)}
    return found


def _imported_tests(texts: Texts) -> dict[str, list[str]]:
    """Test modules that other modules import, by the name of the importer."""
    found = {name: sorted(_test_modules_in(text) - {name}) for name, text in texts.items()}
    return {name: targets for name, targets in found.items() if targets}


def test_no_test_module_is_imported() -> None:
    """What several test modules use is in a helper module, next to them or in tests/support."""
    paths = [path for room in ("tests", "benchmarks", "tools") for path in (ROOT / room).rglob("*.py")]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    assert _imported_tests({name: path.read_text(encoding="utf-8") for name, path in names.items()}) == {}


def test_planted_imports_of_test_modules_are_found() -> None:
    b, c = (f"tests.a.test_{name}" for name in "bc")
    for planted in (
        "from tests.a.{} import c",
        "import tests.a.{}",
        "from tests.a import d, {}",
        "from tests.a import (\n    d,\n    {},\n)",
        "plan = 'tests.a.{}:plan'",
    ):
        text = planted.format("test_b")
        assert _imported_tests({c: text}) == {c: [b]}, text
        assert _imported_tests({b: text}) == {}, text
    assert _imported_tests({c: "from tests.a.b import latest_d\nfrom tests import skips"}) == {}
