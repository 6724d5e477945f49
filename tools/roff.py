"""The few man macros of roff that the pages use. Texts are given as they are and are escaped here."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path

__all__ = ["bold", "example", "heading", "literal", "paragraph", "section", "tagged"]

DATE = "2026-11-21"  # fixed, so that the pages change only with what they describe
PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def literal(text: str) -> str:
    """Escape what roff would read as its own."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\\&" + escaped if escaped.startswith(".") else escaped


def bold(text: str) -> str:
    """Text as it has to be typed."""
    return f"\\fB{literal(text)}\\fR"


def heading(name: str, chapter: int, what: str) -> str:
    """The page's head, and its NAME section."""
    version = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]
    head = f'.TH {literal(name.upper())} {chapter} {DATE} "kafkalog {version}" "kafkalog manual"\n'
    return head + section("name", f"{literal(name)} \\- {literal(what)}\n")


def section(title: str, body: str) -> str:
    """A section; `body` is roff."""
    return f".SH {title.upper()}\n{body}"


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return ".PP\n" + _filled(text)


def tagged(tag: str, text: str) -> str:
    """A term and what it means: `tag` is roff, `text` plain."""
    return f".TP\n{tag}\n" + (_filled(text) if text.strip() else "\\&\n")


def example(purpose: str, line: str) -> str:
    """What for, and the command line, which is not filled."""
    return f".PP\n{literal(purpose)}:\n.PP\n.RS 4\n.nf\n{literal(line)}\n.fi\n.RE\n"


def _filled(text: str) -> str:
    lines = textwrap.wrap(" ".join(text.split()), 100, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{literal(line)}\n" for line in lines)
