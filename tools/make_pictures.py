"""Draw docs/verify-terminal.svg: a terminal with `kafkalog verify` on the damaged disk of fixtures/.

`python -m tools.make_pictures` after a change of what the command prints; a test fails on a picture that differs.

The whole output is too tall for a README. The picture shows it up to the end of the first error, and its last line;
`...` replaces the rest. The fonts are those of the machine that shows it, and it refers to no other host.

docs/verify-report.png is a picture of the HTML report, which includes a time. A browser draws it:

    kafkalog verify --report /tmp/report.html fixtures/damaged
    chromium --headless --hide-scrollbars --window-size=1180,1800 --screenshot=docs/verify-report.png /tmp/report.html
"""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from typing import Final

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from tools.console_blocks import ELLIPSIS, PROMPT, ROOT, arguments_of, environment

__all__ = ["PICTURE", "terminal"]

PICTURE: Final = ROOT / "docs" / "verify-terminal.svg"
COMMAND: Final = "kafkalog verify fixtures/damaged"
COLUMNS: Final = 116  # no line of the table or of the summary is wider
ON_A_TERMINAL: Final = {"COLUMNS": str(COLUMNS), "TTY_COMPATIBLE": "1", "TERM": "xterm-256color", "NO_COLOR": ""}
"""Variables that make rich write the colours of a terminal into a pipe."""

ASPECT_RATIO: Final = 0.6
"""Width of a character by its height: that of most monospaced fonts."""

FORMAT: Final = """\
<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
    font-family: ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", "Liberation Mono", monospace;
    font-size: {char_height}px;
    text-rendering: geometricPrecision;
}}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""
"""The template of rich's `export_svg` without its fonts, which it would load from another host."""


def terminal() -> str:
    """Return the picture of the terminal, as SVG."""
    console = Console(record=True, file=StringIO(), width=COLUMNS, force_terminal=True, color_system="standard")
    screen = Text.from_ansi(_printed().rstrip("\n")).split("\n", allow_blank=True)
    errors = [number for number, line in enumerate(screen) if line.plain.startswith("ERROR ")]
    end = max(number for number, line in enumerate(screen) if not line.plain)
    shown = [Text(f"{PROMPT}{COMMAND}", "bold"), *screen[: errors[1]], Text(ELLIPSIS, "dim"), *screen[end:]]
    # One element for all neighbouring characters of a style: a row of elements of one block each would show gaps.
    runs = Segment.simplify(console.render(Text("\n").join(shown)))
    console.print(Text.assemble(*((run.text, run.style or "") for run in runs), no_wrap=True))
    picture = console.export_svg(
        title=COMMAND, code_format=FORMAT, font_aspect_ratio=ASPECT_RATIO, unique_id=PICTURE.stem
    )
    # A font of another width is stretched to the columns; otherwise each of its characters gets a gap.
    return picture.replace(" textLength=", ' lengthAdjust="spacingAndGlyphs" textLength=')


def _printed() -> str:
    """Return what the command prints on a terminal, with its escape sequences."""
    run_it = [sys.executable, "-m", "kafkalog_cli", *arguments_of(COMMAND)]
    variables = environment() | ON_A_TERMINAL
    done = subprocess.run(
        run_it, cwd=ROOT, env=variables, capture_output=True, text=True, encoding="utf-8", check=False
    )
    return done.stdout


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(terminal(), encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()
