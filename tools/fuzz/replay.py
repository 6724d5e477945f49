"""`python -m tools.fuzz.replay FAMILY [DIRECTORY]`: seeds, or a corpus that was kept, without atheris and in one twin.

It is the compiled one where there is one: so a build with AddressSanitizer sees all that was found worth keeping.
`--mutations=N` runs each input with N random changes too, the same each time: for machines without atheris.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tools.fuzz.seeds import write_seeds
from tools.fuzz.targets import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.fuzz.targets import Family

__all__ = ["replayed"]


def replayed(family: str, directory: Path, *, step: int = 1, mutations: int = 0) -> int:
    """Run each `step`-th input of a directory, each also with `mutations` random changes, and return their number."""
    count = 0
    for path in sorted(directory.iterdir())[::step]:
        for number, data in enumerate(_changed(FAMILIES[family], path.read_bytes(), mutations)):
            try:
                FAMILIES[family].target(data)
            except BaseException:
                print(f"{family}: {path}, change {number}: {data.hex()}", file=sys.stderr)
                raise
            count += 1
    return count


def _changed(family: Family, data: bytes, mutations: int) -> Iterator[bytes]:
    yield data
    for seed in range(mutations):
        random = Random(zlib.crc32(data) + seed)  # noqa: S311 -- the same each time

        def mutate(part: bytes, most: int, random: Random = random) -> bytes:
            at, end = sorted(random.randrange(len(part) + 1) for _ in range(2))
            middle = random.choice((b"", random.randbytes(end - at), random.randbytes(4), part[at:end] * 2))
            return (part[:at] + middle + part[end:])[:most]

        if family.mutate is None:
            yield mutate(data, family.max_bytes)
        else:
            yield family.mutate(data, family.max_bytes, seed, mutate)


def main(arguments: list[str]) -> None:
    """Replay one family, or all: of the seeds some."""
    named = [argument for argument in arguments if not argument.startswith("-")]
    mutations = sum(int(each.partition("=")[2]) for each in arguments if each.startswith("--mutations="))
    for family in [name for name in FAMILIES if name in named] or FAMILIES:
        with TemporaryDirectory(prefix="kafkalog-fuzz-") as name:
            directory = Path(named[1] if len(named) > 1 else name)
            if len(named) < 2:
                write_seeds(family, directory, FAMILIES[family].max_bytes)
            count = replayed(family, directory, step=1 if arguments else 20, mutations=mutations)
        print(f"{family}: {count} inputs")


if __name__ == "__main__":
    main(sys.argv[1:])
