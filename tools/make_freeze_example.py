"""Make a log directory in which a broker is about to delete a topic: the demo, with one directory renamed.

    python -m tools.make_freeze_example DIR

Brokers rename a directory to TOPIC-PARTITION.UUID-delete and delete it after file.delete.delay.ms
(`LocalLog.logDeleteDirName`).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parents[1] / "fixtures" / "demo"
UUID = "0123456789abcdef0123456789abcdef"


def main() -> None:
    """Write the directory that the command line names."""
    (target,) = map(Path, sys.argv[1:])
    shutil.copytree(DEMO, target, dirs_exist_ok=True)
    (target / "orders-0").rename(target / f"orders-0.{UUID}-delete")


if __name__ == "__main__":
    main()
