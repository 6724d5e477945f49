"""Faults: log directories that are stored as what differs from a base.

`<case>/base-<base>` is a whole log directory (or two); `<case>/<base>/<fault>` holds `fault.json` and a layer of files
for each state: `before` (as a person left it), `after_start` (copied while the broker ran on it) and `after_stop`. A
layer is a directory or an archive. `fault.json` lists what the layer takes away, and the SHA-256 of all that it
brings.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SHEET = "fault.json"
BEFORE = "before"
STARTED = "after_start"
STOPPED = "after_stop"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault directory: its path in the corpus tree and its `fault.json`."""

    path: str
    sheet: dict[str, Any]

    @classmethod
    def parse(cls, path: str, text: bytes) -> Fault:
        """Read `fault.json`; `path` is the directory it lies in."""
        return cls(path, json.loads(text))

    @property
    def base(self) -> str:
        """Path of the base in the corpus tree."""
        return str(PurePosixPath(self.path).parents[1] / f"base-{self.sheet['base']}")

    @property
    def states(self) -> tuple[str, ...]:
        """The states whose files are known."""
        return tuple(state for state in (BEFORE, STARTED, STOPPED) if self.sheet.get(state) is not None)

    @property
    def readings(self) -> dict[str, Any]:
        """What a consumer got by topic, while the broker ran; empty where it did not start."""
        return dict(self.sheet.get("truth_after_start") or {})

    def layers(self, state: str) -> tuple[str, ...]:
        """Names of the layers that make `state` out of the base."""
        return (BEFORE,) if state == BEFORE else (BEFORE, state)

    def removed(self, layer: str) -> list[str]:
        """Files of what lies below that the layer takes away."""
        sheet = self.sheet[layer]
        return list(sheet["removed_from_base" if layer == BEFORE else "removed"])

    def brought(self, layer: str) -> dict[str, str]:
        """Files that the layer brings or replaces, with their SHA-256."""
        return {name: digest for name, (_size, digest) in (self.sheet.get(f"manifest_{layer}") or {}).items()}

    def directories(self, state: str) -> set[str]:
        """All directories of the state, empty ones too."""
        found = set(self.sheet[BEFORE]["dirs"])
        if state != BEFORE:
            found -= set(self.sheet[state].get("dirs_removed", ()))
            found |= set(self.sheet[state].get("dirs_added", ()))
        return found

    def origins(self, state: str, base_files: Iterable[str]) -> dict[str, str | None]:
        """All files of the state, with the layer each comes from; null is the base, whose files are `base_files`."""
        found: dict[str, str | None] = dict.fromkeys(base_files)
        for layer in self.layers(state):
            for name in self.removed(layer):
                found.pop(name, None)
            found |= dict.fromkeys(self.brought(layer), layer)
        return found


def build(corpus: Path, fault: Fault, state: str, destination: Path, partition: str | None = None) -> None:
    """Put a state's directory together, and check what is not the base's against its SHA-256.

    With `partition` (relative to the state) only that directory, and the files next to it. Files of the base are
    linked, so nobody may write to what is built here.
    """
    base = corpus / fault.base
    base_files = (path.relative_to(base).as_posix() for path in base.rglob("*") if path.is_file())
    origins = fault.origins(state, base_files)
    if partition is not None:
        around = {partition, str(PurePosixPath(partition).parent)}
        origins = {name: layer for name, layer in origins.items() if str(PurePosixPath(name).parent) in around}
    directories = fault.directories(state) if partition is None else set()
    for name in directories | {str(PurePosixPath(name).parent) for name in origins}:
        (destination / name).mkdir(parents=True, exist_ok=True)
    for name in [name for name, layer in origins.items() if layer is None]:
        os.link(base / name, destination / name)
    for layer in fault.layers(state):
        names = {name for name, origin in origins.items() if origin == layer}
        _lay(corpus / fault.path / layer, names, destination)
        _check(fault, layer, names, destination)


def _lay(layer: Path, names: set[str], destination: Path) -> None:
    archive = layer.with_name(layer.name + ".tar.gz")
    if not archive.exists():
        for name in names:
            os.link(layer / name, destination / name)
        return
    with tarfile.open(archive) as tar:
        members = []
        for member in tar:
            member.name = member.name.partition("/")[2]
            if member.name in names:
                members.append(member)
        tar.extractall(destination, members=members, filter="data")


def _check(fault: Fault, layer: str, names: set[str], destination: Path) -> None:
    digests = fault.brought(layer)
    for name in names:
        if hashlib.sha256((destination / name).read_bytes()).hexdigest() != digests[name]:
            message = f"{fault.path}: {name} of {layer} is not the recorded file"
            raise ValueError(message)
