"""Mutants of a module: what each changes, where, and which are left out by rule.

Left out, because they cannot change what the program does, or because nobody should test it:

- annotations, `if TYPE_CHECKING:`, `if cython.compiled:`, `__all__`, `__slots__`, decorators, `cast`;
- the text of messages: strings are never changed, and numbers inside the f-string of a `raise` are not either;
- `strict=` of `zip`, which guards against an error in this program;
- fsyncs: `python -m tests.power.mutants` leaves out each of them, and a model of the disk has to find it;
- a mutant whose bytecode is the same as before.
"""

from __future__ import annotations

import ast
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code

from tools.mutants.operators import operators

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SYNCS: Final = frozenset({"_sync", "_sync_parts", "_sync_directories", "sync", "sync_directory", "sync_file"})
_OPERATORS: Final = dict(operators())


@dataclass(frozen=True)
class Site:
    """A place where an operator applies.

    Args:
        path: of the module, from the root of the checkout.
        operator: its name.
        occurrence: which of the operator's places in the module, from 0.
        line: of the place, from 1.
    """

    path: str
    operator: str
    occurrence: int
    line: int


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Args:
        site: the place.
        function: the qualified name of the function or class around it; empty: the module itself.
        lines: of the statement that changes, or of its header, first and last.
        old: the changed text before, on one line.
        new: after.
        text: the whole module, mutated.
    """

    site: Site
    function: str
    lines: tuple[int, int]
    old: str
    new: str
    text: str

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What is the same after lines were added above."""
        return self.site.path, self.function, self.old, self.new

    def as_dict(self) -> dict[str, Any]:
        """Return what a result says of it."""
        return {**asdict(self.site), "function": self.function, "old": self.old, "new": self.new}


def sites(root: Path, path: str) -> list[Site]:
    """Return the places of all operators in a module that no rule leaves out."""
    text = (root / path).read_text(encoding="utf-8")
    excluded = [*_excluded(ast.parse(text))]
    found = []
    counts = dict.fromkeys(_OPERATORS, 0)
    for node in ast_nodes(parso.parse(text)):
        for name, operator in _OPERATORS.items():
            for start, end in operator.mutation_positions(node):
                number = counts[name]
                counts[name] += 1
                if not any(first <= start and end <= last for first, last in excluded):
                    found.append(Site(path, name, number, start[0]))
    return found


def mutant(root: Path, site: Site) -> Mutant | None:
    """Return the mutant of a place; `None`: its bytecode is the same, or it is not valid Python."""
    text = (root / site.path).read_text(encoding="utf-8")
    mutated = mutate_code(text, _OPERATORS[site.operator], site.occurrence)
    if mutated is None or not _differs(text, mutated):
        return None
    module = ast.parse(text)
    function, lines = _around(module, site.line)
    old, new = _change(text, mutated)
    return Mutant(site, function, lines, old, new, mutated)


def _differs(text: str, mutated: str) -> bool:
    try:
        return ast.dump(ast.parse(text)) != ast.dump(ast.parse(mutated))
    except SyntaxError:
        return False


def _change(text: str, mutated: str) -> tuple[str, str]:
    """Return the lines that differ, each side on one line."""
    old, new = text.splitlines(), mutated.splitlines()
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    old, new = old[start:], new[start:]
    while old and new and old[-1] == new[-1]:
        old.pop()
        new.pop()
    return " ".join(line.strip() for line in old), " ".join(line.strip() for line in new)


def _around(module: ast.Module, line: int) -> tuple[str, tuple[int, int]]:
    """Return the name of what is around a line, and the lines of its statement, of its header where it is compound."""
    names: list[str] = []
    lines = (line, line)
    body: list[ast.stmt] = module.body
    while True:
        inside = next((each for each in body if _first_line(each) <= line <= (each.end_lineno or 0)), None)
        if inside is None:
            return ".".join(names), lines
        blocks = [*_blocks(inside)]
        starts = [_first_line(block[0]) for block in blocks if block]
        lines = inside.lineno, (min(starts) - 1 if starts else inside.end_lineno or inside.lineno)
        lines = lines[0], max(lines)
        if isinstance(inside, ast.FunctionDef | ast.ClassDef):
            names.append(inside.name)
        body = [statement for block in blocks for statement in block]


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, None) or []
    for case in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        yield case.body


def _excluded(module: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for node in ast.walk(module):
        for each in _left_out(node):
            yield (
                (each.lineno, each.col_offset),
                (each.end_lineno or each.lineno, each.end_col_offset or each.col_offset),
            )


def _left_out(node: ast.AST) -> Iterator[Any]:
    match node:
        case ast.arg(annotation=ast.AST() as annotation) | ast.AnnAssign(annotation=annotation):
            yield annotation
        case ast.FunctionDef():
            yield from node.decorator_list
            if node.returns is not None:
                yield node.returns
        case ast.ClassDef():
            yield from node.decorator_list
        case ast.Raise():
            yield from (each for each in ast.walk(node) if isinstance(each, ast.JoinedStr))
        case _ if _is_left_out(node):
            yield node


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.If():
            return ast.unparse(node.test) in {"TYPE_CHECKING", "cython.compiled", "__name__ == '__main__'"}
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]) | ast.keyword(arg="strict"):
            return True
        case ast.Call(func=ast.Name(id="cast" | "TypeVar" | "NewType")):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[*arguments])):
            return name in _SYNCS or any(isinstance(each, ast.Constant) and each.value == "fsync" for each in arguments)
    return False
