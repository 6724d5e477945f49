"""Ways into temporary directories for other users, whoever made the directories between."""

from __future__ import annotations

import tempfile
from pathlib import Path


def let_others_in(path: Path) -> None:
    """Let other users reach `path`: its parents up to the directory of all temporary files are made passable."""
    for directory in path.parents:
        if directory == Path(tempfile.gettempdir()):
            return
        directory.chmod(0o755)
