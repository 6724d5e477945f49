"""What `mkdocs build` adds to the pages of docs/: the pictures of the import graph, drawn from the code as it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # mkdocs loads this file by its path

from tools.import_graph import pictures

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

__all__ = ["on_files"]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pictures to the files of the site."""
    for name, text in pictures().items():
        files.append(File.generated(config, f"pictures/{name}", content=text))
    return files
