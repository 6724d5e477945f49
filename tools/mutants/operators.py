"""The mutations: those of cosmic-ray's operators that are used, and those that it lacks, written as its own are."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.boolean_replacer import AddNot
from cosmic_ray.operators.number_replacer import NumberReplacer
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parso.tree import BaseNode, NodeOrLeaf

    Position = tuple[tuple[int, int], tuple[int, int]]

_COMPARISONS: Final = {
    "Eq": ("NotEq",),
    "NotEq": ("Eq",),
    "Lt": ("LtE", "GtE"),
    "LtE": ("Lt", "Gt"),
    "Gt": ("GtE", "LtE"),
    "GtE": ("Gt", "Lt"),
    "Is": ("IsNot",),
    "IsNot": ("Is",),
}
"""A comparison becomes its opposite, and `<` becomes `<=`: cosmic-ray's other pairs are killed by the same tests."""
_ARITHMETIC: Final = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "FloorDiv",
    "FloorDiv": "Mul",
    "Mod": "FloorDiv",
    "LShift": "RShift",
    "RShift": "LShift",
    "BitOr": "BitAnd",
    "BitAnd": "BitOr",
}
_OTHERS: Final = (
    "ReplaceUnaryOperator_USub_UAdd",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "ZeroIterationForLoop",
)


class _Replacing(Operator):
    """An operator that changes a kind of node in one way."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """Yield the node's position where it is of the kind."""
        if self.new_code(node) is not None:
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:  # noqa: ARG002 -- cosmic-ray's signature
        """Return the node of the new code, after the same spaces and comments."""
        return parso.parse(node.get_first_leaf().prefix + str(self.new_code(node)))

    def new_code(self, node: NodeOrLeaf) -> str | None:
        """Return what replaces a node, `None`: it is not of the kind."""
        raise NotImplementedError


class RemoveStatement(_Replacing):
    """A call for its effect, an assignment to an attribute or an item, a `raise`, `del` or `yield` is removed."""

    def new_code(self, node: NodeOrLeaf) -> str | None:
        """Return `pass` in place of such a statement."""
        if node.type != "simple_stmt":
            return None
        small = node.children[0]
        return "pass\n" if small.type in {"raise_stmt", "del_stmt", "yield_expr"} or _has_effect(small) else None

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return what it does, by example."""
        return (Example("f(1)\n", "pass\n"), Example("a.b = 1\n", "pass\n"), Example("a += 1\n", "pass\n"))


def _has_effect(small: NodeOrLeaf) -> bool:
    if small.type == "atom_expr":
        return bool(small.children[-1].type == "trailer" and small.children[-1].children[0] == "(")
    if small.type != "expr_stmt":
        return False
    return (
        small.children[0].type in {"atom_expr", "power"} or str(getattr(small.children[1], "value", "")) in _AUGMENTED
    )


_AUGMENTED: Final = {"+=", "-=", "*=", "//=", "|=", "&=", "^=", "<<=", ">>=", "%="}


class ReturnNone(_Replacing):
    """A function returns `None`."""

    def new_code(self, node: NodeOrLeaf) -> str | None:
        """Return `return None` in place of another value; truth values are the other operators' matter."""
        if node.type != "return_stmt" or len(node.children) < 2:
            return None
        if node.children[1].get_code().strip() in {"None", "True", "False"}:
            return None
        return "return None"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return what it does, by example."""
        return (Example("def f():\n    return 1\n", "def f():\n    return None\n"),)


class EmptyFunction(Operator):
    """A function returns at once."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """Yield the position of the first statement that does something."""
        body = _body(node)
        if body is None:
            return
        first = body.children[_first(body)]
        code = first.get_code(include_prefix=False)
        is_text = first.type == "simple_stmt" and first.children[0].type in {"string", "strings"}
        if is_text or (first.type == "simple_stmt" and code.strip() in {"...", "pass"}) or code.startswith("return"):
            return  # nothing to leave out, or ReturnNone does the same
        yield first.start_pos, first.end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:  # noqa: ARG002 -- cosmic-ray's signature
        """Put a `return` before the statement."""
        body = _body(node)
        assert body is not None  # noqa: S101 -- as there was a position
        first = _first(body)
        indent = " " * body.children[first].start_pos[1]
        leaf = body.children[first].get_first_leaf()
        leaf.prefix += "return\n" + indent
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return what it does, by example."""
        return (Example("def f():\n    a()\n    b()\n", "def f():\n    return\n    a()\n    b()\n"),)


def _body(node: NodeOrLeaf) -> BaseNode | None:
    return node.children[-1] if node.type == "funcdef" and node.children[-1].type == "suite" else None


def _first(body: BaseNode) -> int:
    """Return which child is the first statement after the docstring; the first child is the newline."""
    has_docstring = body.children[1].type == "simple_stmt" and body.children[1].children[0].type == "string"
    return 2 if has_docstring and len(body.children) > 2 else 1


class NegateMembership(_Replacing):
    """`in` becomes `not in`, and the other way round."""

    def new_code(self, node: NodeOrLeaf) -> str | None:
        """Return the opposite."""
        if getattr(node.parent, "type", "") != "comparison":
            return None
        return {"in": "not in", "not in": "in"}.get(" ".join(node.get_code().split()))

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return what it does, by example."""
        return (Example("a in b", "a not in b"), Example("a not in b", "a in b"))


class NegateCondition(AddNot):
    """`not` is added to a condition that is neither a comparison nor negated: other operators do the same to those."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """Yield the condition's position."""
        for position in super().mutation_positions(node):
            condition = node.children[1 if isinstance(node, self.NODE_TYPES) else 2]
            if condition.type not in {"comparison", "not_test"}:
                yield position

    def mutate(self, node: BaseNode, index: int) -> BaseNode:  # noqa: ARG002 -- cosmic-ray's signature
        """Put the condition in parentheses, so that `not` is about the whole of it."""
        place = 1 if isinstance(node, self.NODE_TYPES) else 2
        node.children[place] = parso.parse(f" not ({node.children[place].get_code().strip()})")
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return what it does, by example."""
        return (Example("if a or b:\n    pass\n", "if not (a or b):\n    pass\n"),)


class RaiseNumber(NumberReplacer):
    """A number is one more: what notices this notices one less, too."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """Yield the number's position once."""
        yield from [*super().mutation_positions(node)][:1]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return what it does, by example."""
        return (Example("x = 1", "x = 2"),)


def operators() -> tuple[tuple[str, Operator], ...]:
    """Return the operators by name, in a fixed order."""
    comparisons = (f"ReplaceComparisonOperator_{old}_{new}" for old, news in _COMPARISONS.items() for new in news)
    arithmetic = (f"ReplaceBinaryOperator_{old}_{new}" for old, new in _ARITHMETIC.items())
    theirs = tuple((name, get_operator(f"core/{name}")()) for name in chain(comparisons, arithmetic, _OTHERS))
    return theirs + tuple((type(each).__name__, each) for each in _OURS)


_OURS: Final = (NegateCondition(), RaiseNumber(), RemoveStatement(), ReturnNone(), EmptyFunction(), NegateMembership())


def check_examples() -> None:
    """Raise AssertionError where an operator of this module does not do what its examples say."""
    for operator in _OURS:
        for example in operator.examples():
            made = mutate_code(example.pre_mutation_code, operator, example.occurrence)
            if made != example.post_mutation_code:
                raise AssertionError(f"{type(operator).__name__}: {made!r} is not {example.post_mutation_code!r}")
