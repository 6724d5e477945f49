"""`python -m tools.fuzz FAMILY DIRECTORY [libFuzzer options]`, or `FAMILY FILE...` to run single inputs again.

DIRECTORY/FAMILY gets the seeds and the corpus, DIRECTORY the inputs that fail. Options given win over the defaults.
"""

from __future__ import annotations

import importlib
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.fuzz.seeds import write_seeds
from tools.fuzz.twins import load_families

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from tools.fuzz.targets import Family

_SHOWN: Final = 2000  # characters of each twin's result in a failure
_ADDRESS_SPACE_BYTES: Final = 2 * 1024**3  # libFuzzer sees resident memory alone, and zeroed pages are not resident
_SWITCH_RATE: Final = 8
_DEFAULTS: Final = ("-timeout=10", "-rss_limit_mb=512", "-print_final_stats=1")


class DifferenceError(AssertionError):
    """The compiled twin gives another result than the interpreted one."""


def main(arguments: list[str]) -> None:
    """Run one family until libFuzzer ends it."""
    atheris = importlib.import_module("atheris")
    compiled = load_families(compiled=True, instrument=atheris.instrument_imports)
    families = load_families(compiled=False, instrument=atheris.instrument_imports)
    if len(arguments) < 2 or arguments[0] not in families:
        raise SystemExit(f"{__doc__}\nFamilies: {', '.join(families)}")
    name, places = arguments[0], [place for place in arguments[1:] if not place.startswith("-")]
    options = [option for option in arguments[1:] if option.startswith("-")]
    family = families[name]
    if Path(places[0]).is_file():
        inputs = places
    else:
        corpus = Path(places[0]) / name
        corpus.mkdir(parents=True, exist_ok=True)
        print(f"INFO: {write_seeds(name, corpus, family.max_bytes)} seeds in {corpus}", file=sys.stderr)
        inputs = [str(corpus)]
        options = [f"-artifact_prefix={places[0]}/{name}-", f"-max_len={family.max_bytes}", *options]
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES))
    atheris.Setup(
        [sys.argv[0], *_DEFAULTS, *options, *inputs],
        _both(family, compiled[name]),
        custom_mutator=_mutator(family, atheris),
    )
    atheris.Fuzz()


def _mutator(family: Family, atheris: ModuleType) -> Callable[[bytes, int, int], bytes]:
    """Mutations of libFuzzer's own, but one in eight changes the options: it would seldom hit bytes so few."""

    def mutate(data: bytes, max_bytes: int, seed: int) -> bytes:
        which, value = divmod(seed, 256)
        at = which // _SWITCH_RATE % family.switch_bytes
        if which % _SWITCH_RATE or at >= len(data):
            if family.mutate is not None:
                return family.mutate(data, max_bytes, seed, atheris.Mutate)
            mutated: bytes = atheris.Mutate(data, max_bytes)  # Setup puts another function under this name
            return mutated
        return data[:at] + bytes([value]) + data[at + 1 :]

    return mutate


def _both(interpreted: Family, compiled: Family) -> Callable[[bytes], None]:
    """One input through the interpreted twin, whose coverage guides the fuzzer, and through the compiled one."""
    if not compiled.is_compiled:
        print("WARNING: no compiled kernels here, only the interpreted ones are run", file=sys.stderr)
        compiled = interpreted

    def run(data: bytes) -> None:
        result = interpreted.target(data)
        twin = compiled.target(data) if compiled is not interpreted else result
        if twin != result:
            raise DifferenceError(
                f"input {data.hex()}\ninterpreted {result!r:.{_SHOWN}}\ncompiled    {twin!r:.{_SHOWN}}"
            )

    return run


if __name__ == "__main__":
    main(sys.argv[1:])
