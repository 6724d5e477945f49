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
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

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

    def files(self, state: str, base_files: set[str]) -> set[str]:
        """Names of all files of the state; `base_files` are those of the base, relative to it."""
        names = set(base_files)
        for layer in self.layers(state):
            names -= set(self.removed(layer))
            names |= set(self.brought(layer))
        return names


def build(corpus: Path, fault: Fault, state: str, destination: Path) -> None:
    """Put the whole log directory of a state together, and check every file of its layers against its SHA-256.

    Files that the fault leaves alone are links to the base's, which saves half of the time: nobody may write to them.
    """
    shutil.copytree(corpus / fault.base, destination, copy_function=os.link)
    for layer in fault.layers(state):
        for name in fault.removed(layer):
            (destination / name).unlink(missing_ok=True)
        _lay(corpus / fault.path / layer, destination)
    wanted = fault.directories(state)
    for name in sorted(wanted):
        (destination / name).mkdir(parents=True, exist_ok=True)
    for directory in sorted((path for path in destination.rglob("*") if path.is_dir()), reverse=True):
        if directory.relative_to(destination).as_posix() not in wanted and not any(directory.iterdir()):
            directory.rmdir()
    _check(fault, state, destination)


def _lay(layer: Path, destination: Path) -> None:
    archive = layer.with_name(layer.name + ".tar.gz")
    if archive.exists():
        with tarfile.open(archive) as tar:
            members = [member for member in tar if member.isfile()]
            for member in members:
                member.name = member.name.split("/", 1)[1]
                (destination / member.name).unlink(missing_ok=True)
            tar.extractall(destination, members=members, filter="data")
    elif layer.exists():
        shutil.copytree(layer, destination, dirs_exist_ok=True, copy_function=_link_over)


def _link_over(source: str, destination: str) -> None:
    Path(destination).unlink(missing_ok=True)
    os.link(source, destination)


def _check(fault: Fault, state: str, destination: Path) -> None:
    for layer in fault.layers(state):
        later = fault.removed(state) if layer != state else []
        replaced = fault.brought(state) if layer != state else {}
        for name, digest in fault.brought(layer).items():
            if name in later or name in replaced:
                continue
            found = hashlib.sha256((destination / name).read_bytes()).hexdigest()
            if found != digest:
                message = f"{fault.path}: {state}/{name} is not the recorded file"
                raise ValueError(message)
