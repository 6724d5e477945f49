"""The import graph of the product as pictures: docs/architecture.md shows them, and `mkdocs build` draws them.

    python -m tools.import_graph DIRECTORY      write them as SVG files

The floors are those of the import contracts in pyproject.toml. An import that only a type checker sees does not count.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["Graph", "is_exception", "layers", "pictures", "read_graph", "room_of"]

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("kafkalog_core", "kafkalog_cli")
GROUND: Final = "errors, text ..."
"""The modules of the core that are in no room."""
ROW: Final = 30
NAME: Final = 290
CELL: Final = 46
HEAD: Final = 92
STYLE: Final = """<style>
text { font: 13px sans-serif; fill: #1f2328 } .faint { fill: #57606a } .number { text-anchor: middle }
.line { stroke: #d0d7de } .cell { fill: #4c78a8 } .own { fill: #d0d7de }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #9aa4ae } .line { stroke: #444c56 } .own { fill: #444c56 } }
</style>"""


class Graph(NamedTuple):
    """Modules by name: their number of lines, the modules that they import at run time, and those that strings name.

    A string that is the name of a module is an import by name, as those of the commands are.
    """

    lines: dict[str, int]
    imports: dict[str, set[str]]
    named: dict[str, set[str]]


def read_graph() -> Graph:
    """Read every module of the product."""
    paths = {_name_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    imports = {name: set(_imported(tree, paths)) - {name} for name, tree in trees.items()}
    named = {name: set(_named(tree)) & paths.keys() - {name} for name, tree in trees.items()}
    return Graph({name: text.count("\n") for name, text in texts.items()}, imports, named)


def _name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield what is imported at run time: at the top and in functions, not under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in known or node.module in known:
                    yield name if name in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        yield from _imported(node, known)


def _named(tree: ast.AST) -> Iterator[str]:
    """Yield the strings, up to a colon, as `module:attribute` is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def room_of(module: str) -> str:
    """Return the room of a module: a package of the core, the command line, or the ground floor of single modules."""
    if module.partition(".")[0] == "kafkalog_cli":
        return "kafkalog_cli"
    inside = f"{module.partition('.')[2]}."
    return next((room for room in _rooms_of_core() if inside.startswith(f"{room}.")), GROUND)


@cache
def _rooms_of_core() -> list[str]:
    """Return the packages among the floors, the highest first."""
    names = [name for floor in layers(0) for name in floor]
    return [name for name in names if (ROOT / "kafkalog_core" / name.replace(".", "/")).is_dir()]


def layers(contract: int) -> list[list[str]]:
    """Return the floors of a layers contract of pyproject.toml, the highest first, as names of modules in the core."""
    floors = _contracts()[contract]["layers"]
    return [[name.strip().removeprefix("kafkalog_core.") for name in re.split(r"[|:]", floor)] for floor in floors]


def is_exception(contract: int, module: str, imported: str) -> bool:
    """Return whether a layers contract allows an import that leads up."""
    pairs = (each.split(" -> ") for each in _contracts()[contract].get("ignore_imports", ()))
    return any(fnmatch(module, importer) and fnmatch(imported, target) for importer, target in pairs)


@cache
def _contracts() -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return [each for each in contracts if each["type"] == "layers"]


def pictures() -> dict[str, str]:
    """Return the SVG pictures by file name."""
    graph = read_graph()
    return {"rooms.svg": _rooms(graph), "verbs.svg": _verbs(graph)}


def _rooms(graph: Graph) -> str:
    return _matrix(graph, ["kafkalog_cli", *_rooms_of_core(), GROUND], room_of)


def _verbs(graph: Graph) -> str:
    below = {name: lines for name, lines in graph.lines.items() if name.startswith("kafkalog_core.ops.")}
    imports, named = ({name: links[name] & below.keys() for name in below} for links in (graph.imports, graph.named))
    part = Graph(below, imports, named)
    return _matrix(part, [name for floor in layers(1) for name in floor], lambda module: module.split(".")[2])


def _matrix(graph: Graph, names: Sequence[str], group_of: Callable[[str], str]) -> str:
    """Draw a row and a column for each group: a cell counts the imports of the column's modules by the row's."""
    sizes = Counter(group_of(module) for module in graph.lines)
    lines = Counter[str]()
    counts = Counter[tuple[str, str]]()
    for module, count in graph.lines.items():
        lines[group_of(module)] += count
        counts.update((group_of(module), group_of(used)) for used in graph.imports[module] | graph.named[module])
    body = [
        f'<text transform="translate({NAME + CELL * column + 28} {HEAD - 8}) rotate(-50)">{name}</text>'
        for column, name in enumerate(names)
    ]
    most = max(count for (row, column), count in counts.items() if row != column)
    for row, name in enumerate(names):
        top = HEAD + ROW * row
        body += [
            f'<line class="line" x1="0" x2="{NAME + CELL * len(names)}" y1="{top}" y2="{top}"/>',
            f'<text x="4" y="{top + 20}" font-weight="bold">{name}</text>',
            f'<text class="faint" x="112" y="{top + 20}">{sizes[name]} modules, {lines[name]:,} lines</text>',
        ]
        for column, other in enumerate(names):
            count = counts[name, other]
            place = f'x="{NAME + CELL * column + 2}" y="{top + 2}" width="{CELL - 4}" height="{ROW - 4}" rx="3"'
            if name == other:
                body.append(f'<rect class="own" {place}/>')
            elif count:
                body.append(f'<rect class="cell" {place} fill-opacity="{0.15 + 0.6 * count / most:.2f}"/>')
                body.append(f'<text class="number" x="{NAME + CELL * column + 23}" y="{top + 20}">{count}</text>')
    return _svg(NAME + CELL * len(names) + 60, HEAD + ROW * len(names) + 2, body)


def _svg(width: int, height: int, body: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    return "\n".join([head, STYLE, *body, "</svg>\n"])


def main() -> None:
    """Write the pictures into a directory."""
    for name, text in pictures().items():
        Path(sys.argv[1], name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
