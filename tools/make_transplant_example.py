"""Make the disks of the example in docs/transplant.md: node 2 of an old cluster, and node 2 of a new one.

    python -m tools.make_transplant_example DIRECTORY

Brokers of Kafka 4.3.1 wrote them; `fixtures/README.md` has their origin.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_ARCHIVE: Final = Path(__file__).resolve().parents[1] / "fixtures" / "clusters" / "transplant-4.3.1.tgz"


def main() -> int:
    """Unpack the two disks as `old` and `new`."""
    place = Path(sys.argv[1])
    with TemporaryDirectory() as scratch, tarfile.open(_ARCHIVE) as archive:
        archive.extractall(scratch, filter="data")
        for name in ("old", "new"):
            shutil.copytree(Path(scratch, name, "2"), place / name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
