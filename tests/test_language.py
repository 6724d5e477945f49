"""The language of the product's texts: no word of a private dialect in strings, docstrings, comments, pages or manuals.

WORDS is the table: a pattern, what to write instead, and the kinds of text that it holds for. EXCEPTIONS are the uses
that are right as they are, each with its reason.

    python -m tests.test_language [PATH]...     lists every place, of all files or of some
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.for_each import for_each

ROOT = Path(__file__).resolve().parents[1]
PYTHON = frozenset({"docstring", "comment"})
ALL = frozenset({"docstring", "comment", "string", "page"})


class Word(NamedTuple):
    """A pattern, what to write instead, and the kinds of text that it holds for."""

    pattern: str
    instead: str
    kinds: frozenset[str] = ALL


WORDS = (
    Word(r"(?<!leave )(?<!leaves )(?<!left )(?<!this )(?<![{.])behind(?![\"}])", "after"),
    Word(r"(?<![-{<`\"])beside(?![:}`\"])", "next to, alongside, in the same directory"),
    Word(r"(?<!-)told|tells(?! the whole truth)", "reported, inferred, known, shown"),
    Word(r"(is|are|was|were|be|been|being) said|says what", "is reported, describes"),
    Word(r"anew", "again, rebuilt"),
    Word(r"inside of", "in, within"),
    Word(r"stands(?! out)|stood|stand (in|for|at|on|before|after|there)", "is, is stored, replaces, appears"),
    Word(r"lies|lie (in|on|at|before|after|between)", "is"),
    Word(r"goes(?! (on|back|over|through|up|down|from|to|offline)\b)", "is deleted, is removed"),
    Word(r"stays", "is kept, remains"),
    Word(r"whoever|nobody (says|knows|tells)", "the caller; unknown"),
    Word(
        r"(?<!there )(is|are) no (?!longer|more|less|later|earlier|larger|smaller|better|worse|matter|help|other)",
        "is not a ...; do not form a ...",
    ),
    Word(r"(brought|bring|brings|bringing)( \w+){0,3} to (the )?disk", "fsynced, flushed"),
    Word(r"so many(?! that)", "N; that many"),
    Word(r"(?<!/)null(?=:)|(or|else|returns?|yields?) null|null (if|where|when|unless)(?= )", "None", PYTHON),
    Word(r"the word of|without a word", "silently"),
    Word(r"at hand", "available"),
)
PATTERNS = [(re.compile(rf"\b(?:{word.pattern})\b", re.IGNORECASE), word) for word in WORDS]


COMMENT = re.compile(
    r"""\"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3} | "(?:\\.|[^\\"\n])*" | '(?:\\.|[^\\'\n])*' | (\#[^\n]*)""",
    re.DOTALL | re.VERBOSE,
)
"""A string of Python 3.11, which may contain a number sign, or a comment, which is the group."""


class Allowed(NamedTuple):
    """A use that is right: the files (a glob), the words around the match, and the reason."""

    files: str
    text: str
    reason: str


EXCEPTIONS = (
    Allowed("*/output/replicas.py", ", behind, compacted", "a state of a replica, by its name"),
    Allowed("docs/replicas.md", "`behind` | it ends earlier", "a state of a replica, by its name"),
    Allowed("*/kernels/programs.py", "null ", "the null of JSON, which the program writes"),
    Allowed("*/kernels/gather.py", "Write one value, or null,", "the null of a column"),
    Allowed("*/format/control.py", "must not be null", "the null of Kafka's protocol"),
    Allowed("man/*", "behind, compacted", "a state of a replica, by its name"),
)


class Text(NamedTuple):
    """A piece of text: the line that it starts at (1-based), its kind, and the words."""

    line: int
    kind: str
    text: str


def files() -> list[Path]:
    """Every file whose texts are the product's."""
    python = [
        *ROOT.glob("kafkalog_c*/**/*.py"),
        *ROOT.glob("tools/**/*.py"),
        *ROOT.glob("*.py"),
        *ROOT.glob("docs/*.py"),
    ]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("man/*.[1-9]"), *ROOT.glob("tools/**/*.md")]
    others = [*ROOT.glob("fixtures/*.md"), *ROOT.glob("docs/*.txt"), ROOT / "pyproject.toml", ROOT / ".ci" / "run"]
    return sorted([*python, *pages, *others, *ROOT.glob("kafkalog_c*/**/*.pyi")])


@cache
def texts_of(path: Path) -> list[Text]:
    """Return the texts of a file: of Python docstrings, comments and sentences in strings, else the whole page.

    Docstrings are the strings that are statements: of modules, classes, functions and attributes.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix not in {".py", ".pyi"}:
        return [Text(1, "page", text)]
    texts = []
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            texts.append(Text(node.lineno, "docstring" if node in docstrings else "string", node.value))
    comments = (match for match in COMMENT.finditer(text) if match[1])
    texts += (Text(1 + text.count("\n", 0, match.start()), "comment", match[1]) for match in comments)
    return texts


def found(path: Path) -> list[str]:
    """Return the places of a file that no exception covers: line, words around the match, what to write instead."""
    name = path.relative_to(ROOT)
    result = []
    for piece in texts_of(path):
        for pattern, word in PATTERNS:
            if piece.kind not in word.kinds:
                continue
            for match in pattern.finditer(piece.text):
                around = piece.text[max(0, match.start() - 40) : match.end() + 30].replace("\n", " ")
                if not any(name.match(each.files) and each.text in around for each in EXCEPTIONS):
                    line = piece.line + piece.text.count("\n", 0, match.start())
                    result.append(f"{name}:{line}: ...{around}... ({match[0]} -> {word.instead})")
    return result


@for_each(files, name=lambda path: path.relative_to(ROOT))
def test_texts_are_in_plain_english(path: Path) -> None:
    places = found(path)
    assert not places, "\n".join(places)


def test_every_exception_is_needed() -> None:
    texts = {path.relative_to(ROOT): " ".join(piece.text for piece in texts_of(path)) for path in files()}
    for each in EXCEPTIONS:
        assert any(name.match(each.files) and each.text in text for name, text in texts.items()), each.text


def main() -> None:
    """List every place."""
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or files()
    for path in chosen:
        for place in found(path):
            sys.stdout.write(f"{place}\n")


if __name__ == "__main__":
    main()
