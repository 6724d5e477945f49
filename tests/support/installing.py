"""What several processes need and one of them makes: programs that are built once on a machine, for example."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GO_INSTALL: Final = ("install", "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w")
"""Arguments of `go`: a program that is not optimised takes a third less time to build, and tests ask little of it."""
GO_VARIABLES: Final = {"GOFLAGS": "-mod=mod", "CGO_ENABLED": "0", "GOGC": "400"}


@contextmanager
def one_at_a_time(home: Path) -> Iterator[None]:
    """Wait until no other process is making a directory."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
