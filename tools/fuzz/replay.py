"""`python -m tools.fuzz.replay FAMILY [DIRECTORY]`: seeds, or a corpus that was kept, without atheris and in one twin.

It is the compiled one where there is one: so a build with AddressSanitizer sees all that was found worth keeping.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.fuzz.seeds import write_seeds
from tools.fuzz.targets import FAMILIES

__all__ = ["replayed"]


def replayed(family: str, directory: Path, *, step: int = 1) -> int:
    """Run each `step`-th input of a directory and give their number."""
    inputs = sorted(directory.iterdir())[::step]
    for path in inputs:
        try:
            FAMILIES[family].target(path.read_bytes())
        except BaseException:
            print(f"{family}: {path}", file=sys.stderr)
            raise
    return len(inputs)


def main(arguments: list[str]) -> None:
    """Replay one family, or all: of the seeds some."""
    for family in [name for name in FAMILIES if name in arguments] or FAMILIES:
        with TemporaryDirectory(prefix="kafkalog-fuzz-") as name:
            directory = Path(arguments[1] if len(arguments) > 1 else name)
            if len(arguments) < 2:
                write_seeds(family, directory, FAMILIES[family].max_bytes)
            count = replayed(family, directory, step=1 if arguments else 20)
        print(f"{family}: {count} inputs")


if __name__ == "__main__":
    main(sys.argv[1:])
