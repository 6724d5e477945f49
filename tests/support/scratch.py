"""Where tests put directories that they write to many times."""

from __future__ import annotations

import os
from typing import Final

MEMORY: Final = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 - fsync costs nothing there
"""For `tempfile`: memory, where the system has such a place."""
