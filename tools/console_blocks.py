"""Run the console blocks of README.md and docs/, and compare or replace the output that they show.

    python -m tools.console_blocks             report the blocks whose output differs, exit status 1 if there are any
    python -m tools.console_blocks --update    write the output of today into the files
    python -m tools.console_blocks --update docs/seek.md README.md

A block starts with ```` ```console ````. Each line that starts with `$ kafkalog` is a command; an open quotation mark
continues it on the next line. The lines below it are its standard output at 100 columns. A line `...` replaces any
number of lines, and an update keeps it in its place. Values that differ from run to run (VARYING) are shown as they
were on one day.

Commands run in the project's root, unless the line above the block prepares a directory for them, in which they may
write.

    <!-- copy fixtures/damaged as /var/lib/kafka -->    a copy of a fixture; the temporary path has the same length
    <!-- make tools.make_spark_example as kafka -->     what a module of tools/ writes, in an empty working directory
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.spark.source.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    TextsOf = Callable[[Sequence[str], Path], list[str]]

__all__ = [
    "ELLIPSIS",
    "ROOT",
    "Block",
    "Step",
    "arguments_of",
    "blocks_of",
    "environment",
    "matches",
    "pages",
    "refreshed",
    "run",
]

ROOT: Final = Path(__file__).resolve().parents[1]
COLUMNS: Final = 100
TEMPORARY_LETTERS: Final = 8  # that tempfile adds to a prefix
ELLIPSIS: Final = "..."
FENCE: Final = "```console"
PROMPT: Final = "$ "
PREPARED: Final = re.compile(r"<!-- (copy|make) (\S+) as (\S+) -->")
VARYING: Final = (
    (re.compile(r"kafkalog-undo-\d{8}T\d{6}Z-\d"), "kafkalog-undo-20261123T031500Z-1"),
    (re.compile(r"\S*/kafkalog-docs-\w{8}/"), "/data/disks/"),
    (re.compile(r"\bneeds [\d.]+ [KMGT]iB"), "needs 32.0 KiB"),
    (re.compile(r"[\d.]+ [KMGT]iB( that are)? free"), r"207.4 GiB\1 free"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1:40123"),
)
"""What differs between runs or disks, and what the pages show: names of journals, temporary paths, space, ports."""


class Step(NamedTuple):
    """A command of a block, as typed, and the output lines that the page shows for it."""

    command: str
    shown: list[str]


class Prepared(NamedTuple):
    """The directory that a block works on: `copy` of a fixture, or `make` by a module of tools/, shown as `path`."""

    how: str
    source: str
    path: str


class Block(NamedTuple):
    """A console block: lines `first` to `last` (0-based, fences excluded) of a page."""

    page: Path
    first: int
    last: int
    prepared: Prepared | None
    steps: list[Step]

    @property
    def needs_spark(self) -> bool:
        """Whether a command of it starts Spark."""
        return any(step.command.startswith("kafkalog spark ") for step in self.steps)


def pages() -> list[Path]:
    """Return README.md and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """Return the console blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").split("\n")
    found = []
    for number, line in enumerate(lines):
        if line == FENCE:
            end = lines.index("```", number)
            above = PREPARED.fullmatch(lines[number - 1]) if number else None
            prepared = Prepared(above[1], above[2], above[3]) if above else None
            found.append(Block(page, number + 1, end, prepared, _steps(lines[number + 1 : end])))
    return found


def _steps(lines: Sequence[str]) -> list[Step]:
    steps: list[Step] = []
    is_open = False
    for line in lines:
        if is_open:
            steps[-1] = Step(f"{steps[-1].command}\n{line}", [])
        elif line.startswith(PROMPT):
            steps.append(Step(line.removeprefix(PROMPT), []))
        else:
            steps[-1].shown.append(line)
            continue
        is_open = steps[-1].command.count('"') % 2 == 1
    return steps


def run(block: Block, texts_of: TextsOf | None = None) -> list[list[str]]:
    """Run a block's commands one after the other, and return the output lines of each.

    `texts_of` runs them in a directory and returns what each has printed; by default each is a process of its own.
    """
    texts_of = texts_of or _texts_of
    commands = [step.command for step in block.steps]
    if block.prepared is None:
        return [*map(_lines, texts_of(commands, ROOT))]
    shown = block.prepared.path
    with tempfile.TemporaryDirectory(**_of_the_same_length(shown)) as directory:
        os.chmod(directory, 0o755)  # noqa: S103 - as a broker's log directory is
        real = directory if os.path.isabs(shown) else shown
        _prepare(block.prepared, Path(directory, real))
        texts = texts_of([command.replace(shown, real) for command in commands], Path(directory))
        return [[line.replace(real, shown) for line in _lines(text)] for text in texts]


def _of_the_same_length(shown: str) -> dict[str, str]:
    """Return the arguments of tempfile for a path of the shown length: tables break lines by it."""
    if not os.path.isabs(shown):
        return {"dir": "/tmp", "prefix": "kafkalog-docs-"}  # noqa: S108
    return {"dir": "/tmp", "prefix": "k" * (len(shown) - len("/tmp/") - TEMPORARY_LETTERS)}  # noqa: S108


def _prepare(prepared: Prepared, target: Path) -> None:
    if prepared.how == "copy":
        shutil.copytree(ROOT / prepared.source, target, dirs_exist_ok=True)
    else:
        subprocess.run([sys.executable, "-m", prepared.source, str(target)], cwd=ROOT, check=True)


def _texts_of(commands: Sequence[str], directory: Path) -> list[str]:
    texts = []
    for command in commands:
        run_it = [sys.executable, "-m", "kafkalog_cli", *arguments_of(command)]
        done = subprocess.run(
            run_it, cwd=directory, env=environment(), capture_output=True, text=True, encoding="utf-8", check=False
        )
        texts.append(done.stdout)
    return texts


def arguments_of(command: str) -> list[str]:
    """Return the words of a command after `kafkalog`."""
    program, *arguments = shlex.split(command)
    if program != "kafkalog":
        raise ValueError(f"only kafkalog is run, not: {command}")
    return arguments


def environment() -> dict[str, str]:
    """Return the variables of a process that runs commands."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"COLUMNS": str(COLUMNS), "PYTHONIOENCODING": "utf-8", "PYTHONPATH": paths}


def _lines(text: str) -> list[str]:
    text = text.strip("\n")
    for varying, shown in VARYING:
        text = varying.sub(shown, text)
    return [line.rstrip() for line in text.split("\n")]


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the shown lines are the printed ones, where each `...` replaces any number of lines."""
    parts = [re.escape("\n".join(part).strip("\n")) for part in _parts(shown)]
    text = "\n".join(printed).strip("\n")
    text = text if parts[0] else f"\n{text}"  # lines left out at the start end with a line break too
    text = text if parts[-1] else f"{text}\n"  # and so do those at the end
    return re.fullmatch(r"\n(?:.*\n)*".join(parts), text) is not None


def refreshed(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Return what a page shows of the printed lines: all, or the parts that it shows today around each `...`.

    A part begins and ends at the printed lines that are most like its first and last ones.
    """
    if ELLIPSIS not in shown:
        return [*_blank(shown), *printed]
    lines: list[str] = []
    position = 0
    parts = _parts(shown)
    for number, part in enumerate(parts):
        filled = [line for line in part if line]
        before = _blank(part)
        after = _blank(part[::-1]) if filled else []
        start, end = position, len(printed)
        if filled and number:
            start = _most_like(filled[0], printed, position, position)
        if filled and number < len(parts) - 1:
            end = 1 + _most_like(filled[-1], printed, start, start + len(part) - len(before) - len(after) - 1)
        if not filled:
            start = end = position
        lines += [*before, *printed[start:end], *after, ELLIPSIS]
        position = end
    return lines[:-1]


def _parts(shown: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == ELLIPSIS:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _blank(lines: Sequence[str]) -> list[str]:
    """Return the empty lines at the start."""
    count = next((number for number, line in enumerate(lines) if line), len(lines))
    return list(lines[:count])


def _most_like(wanted: str, printed: Sequence[str], start: int, expected: int) -> int:
    """Return the position, from `start` on, of the line most like the wanted one; else the nearest to `expected`."""

    def merit(position: int) -> tuple[float, int]:
        likeness = SequenceMatcher(None, wanted, printed[position], autojunk=False).ratio()
        return likeness, -abs(position - expected)

    return max(range(start, len(printed)), key=merit)


def update(page: Path, blocks: Sequence[Block]) -> int:
    """Write today's output of these blocks of a page into it, and return how many of them have changed."""
    text = page.read_text(encoding="utf-8")
    lines = text.split("\n")
    changed = 0
    for block in reversed(blocks):
        content: list[str] = []
        for step, printed in zip(block.steps, run(block), strict=True):
            shown = step.shown if matches(step.shown, printed) else refreshed(step.shown, printed)
            content += [*f"{PROMPT}{step.command}".split("\n"), *shown]
        changed += content != lines[block.first : block.last]
        lines[block.first : block.last] = content
    new = with_generated_tables("\n".join(lines))
    if new != text:
        page.write_text(new, encoding="utf-8")
    return changed


def stale(blocks: Sequence[Block]) -> list[str]:
    """Return the commands of these blocks that do not print what their page shows."""
    return [
        step.command
        for block in blocks
        for step, printed in zip(block.steps, run(block), strict=True)
        if not matches(step.shown, printed)
    ]


def with_generated_tables(text: str) -> str:
    """Return a page's text with the tables that are generated from the code, between their markers."""
    head, marker, tail = text.partition("<!-- options of the data source -->\n")
    if not marker:
        return text
    rows = [
        f"| `{name}` | {option.meaning} | {', '.join(option.tables) or 'all'} |" for name, option in OPTIONS.items()
    ]
    table = "\n".join(["| option | meaning | tables |", "|---|---|---|", *rows])
    return f"{head}{marker}{table}\n<!-- end -->{tail.partition('<!-- end -->')[2]}"


def main() -> None:
    """Compare or update the pages that are named, by default all."""
    parser = argparse.ArgumentParser(prog="python -m tools.console_blocks", description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--update", action="store_true", help="replace the shown output with what is printed today")
    parser.add_argument("--without-spark", action="store_true", help="leave out the blocks that start Spark")
    parser.add_argument("pages", nargs="*", type=Path, help="by default README.md and all of docs/")
    options = parser.parse_args()
    is_stale = False
    for page in [path.resolve() for path in options.pages] or pages():
        name = page.relative_to(ROOT)
        blocks = [block for block in blocks_of(page) if not (options.without_spark and block.needs_spark)]
        if options.update:
            print(f"{name}: {update(page, blocks)} of {len(blocks)} blocks changed")
            continue
        for command in stale(blocks):
            is_stale = True
            print(f"{name}: {command}")
    sys.exit(1 if is_stale else 0)


if __name__ == "__main__":
    main()
