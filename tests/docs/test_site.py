"""What the pages state about the project itself: paths, links, pages, generated tables and pictures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.support.for_each import for_each
from tests.support.product import modules
from tools import import_graph
from tools.console_blocks import ROOT, pages, with_generated_tables
from tools.import_graph import is_exception, layers, pictures, read_graph, room_of

if TYPE_CHECKING:
    from pathlib import Path

    from tools.import_graph import Graph

PATH = re.compile(r"`((?:kafkalog_cli|kafkalog_core|tests|tools|fixtures|benchmarks|man|docs)/[^` ]*)`")
BARE = re.compile(r"`([\w-]+\.py)`")
"""A module without its folder."""
IN_FOLDER = re.compile(r"`((?:kafkalog_cli|kafkalog_core|tests|tools)/[^` ]*/)` \(((?:`[\w.]+`(?:, | and )?)+)\)")
"""A folder, and the modules of it in parentheses."""
FROM_THE_INDEX = re.compile(r"kafkalog\[[a-z]|pip install[^\n`;,]* '?kafkalog\b(?!/)")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
PICTURES = {"pictures/rooms.svg", "pictures/verbs.svg"}
NAMES = [page.relative_to(ROOT) for page in pages()]


@for_each(NAMES)
def test_every_path_that_a_page_names_exists(name: Path) -> None:
    named = PATH.findall((ROOT / name).read_text(encoding="utf-8"))
    assert [path for path in named if "VERB" not in path and not (ROOT / path).exists()] == []


def bare_names_that_are_lost(text: str) -> list[str]:
    """Modules without a folder that are nowhere, and those in parentheses that are not in the folder before them."""
    rooms = ("kafkalog_cli", "kafkalog_core", "tests", "tools")
    known = {path.name for room in rooms for path in (ROOT / room).rglob("*.py")} | {
        path.name for path in ROOT.glob("*.py")
    }
    lost = [name for name in BARE.findall(text) if name not in known]
    for folder, names in IN_FOLDER.findall(text):
        lost += [f"{folder}{name}" for name in BARE.findall(names) if not (ROOT / folder / name).exists()]
    return lost


@for_each(NAMES)
def test_every_module_that_a_page_names_without_its_folder_exists(name: Path) -> None:
    assert bare_names_that_are_lost((ROOT / name).read_text(encoding="utf-8")) == []


def test_planted_bare_names_are_found() -> None:
    assert bare_names_that_are_lost("`no_such.py`, `kafkalog_core/format/` (`names.py`, `metadata_records.py`)") == [
        "no_such.py",
        "kafkalog_core/format/metadata_records.py",
    ]


@for_each(NAMES)
def test_every_link_leads_somewhere(name: Path) -> None:
    page = ROOT / name
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if target not in PICTURES and not (page.parent / target).exists()] == []


@for_each(NAMES)
def test_generated_tables_are_those_of_today(name: Path) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert with_generated_tables(text) == text


def test_the_site_has_every_page() -> None:
    listed = re.findall(r"[\w-]+\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(str(name.relative_to("docs")) for name in NAMES if name.parts[0] == "docs")


def test_no_text_installs_kafkalog_from_the_index() -> None:
    """Nobody has registered the name there, so that anyone could take it."""
    texts = modules() | {str(name): (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
    assert [path for path, text in texts.items() if FROM_THE_INDEX.search(text)] == []


# --- pictures ---------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def graph() -> Graph:
    """Today's import graph, which takes seconds to read."""
    return read_graph()


def test_pictures_are_of_all_rooms_and_verbs(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_graph, "read_graph", lambda: graph)
    trees = {name: ET.fromstring(text) for name, text in pictures().items()}  # noqa: S314 - our own pictures
    assert {f"pictures/{name}" for name in trees} == PICTURES
    drawn = {name: {node.text for node in tree.iter() if node.text} for name, tree in trees.items()}
    rooms = {path.name for path in (ROOT / "kafkalog_core").iterdir() if (path / "__init__.py").exists()}
    verbs = {path.name for path in (ROOT / "kafkalog_core" / "ops").iterdir() if (path / "__init__.py").exists()}
    assert rooms - {"kafka"} | {"kafkalog_cli", "kafka.sim", "kafka.rules"} <= drawn["rooms.svg"]
    assert verbs <= drawn["verbs.svg"]


def test_the_graph_is_that_of_the_contracts(graph: Graph) -> None:
    """No import leads up: the floors of the pictures are those that lint-imports proves."""
    floor = {room: number for number, rooms in enumerate(layers(0)) for room in rooms}
    upward = {
        (module, imported)
        for module, found in graph.imports.items()
        for imported in found
        if floor.get(room_of(imported), len(floor)) < floor.get(room_of(module), len(floor))
        and not is_exception(0, module, imported)
    }
    assert upward == set()
