"""Make the log directory of the examples in docs/recover.md: the demo, killed, with one damaged batch.

python -m tools.make_recover_example DIRECTORY
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

DEMO: Final = Path(__file__).resolve().parents[1] / "fixtures" / "demo"
DAMAGED: Final = ("orders-1", 0, 2300)
"""Partition, base offset of the segment, and the byte that is flipped."""


def main() -> None:
    """Write the directory."""
    make(Path(sys.argv[1]))


def make(directory: Path) -> None:
    """Write it: without the clean shutdown file, and with recovery points before the damage."""
    shutil.copytree(DEMO, directory)
    (directory / ".kafka_cleanshutdown").unlink()
    points = directory / "recovery-point-offset-checkpoint"
    version, count, *entries = points.read_text().splitlines()
    lowered = [f"{entry.rsplit(' ', 1)[0]} 0" for entry in entries]
    points.write_text("\n".join([version, count, *lowered]) + "\n")
    name, base_offset, position = DAMAGED
    log = directory / name / f"{base_offset:020d}.log"
    data = bytearray(log.read_bytes())
    data[position] ^= 0xFF
    log.write_bytes(data)


if __name__ == "__main__":
    main()
