"""Make `fixtures/releases/` of what the release matrix has kept: `python tools/make_release_fixtures.py MATRIX`.

MATRIX is the directory that `python -m tests.integration.release_matrix --work MATRIX` made its disks in. Each archive
holds two partitions and the top of the log directory of one release after its clean stop; that of 0.11.0.3 the killed
one too, on which that release does not start. The same disks give the same bytes: members in the order of their names,
no owners, no time in the head.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from pathlib import Path
from typing import Final

STAGES: Final = {
    **dict.fromkeys(("0.9.0.1", "1.0.2", "1.1.1", "2.0.1", "2.3.1", "2.4.1", "2.7.2", "2.8.2"), ("clean",)),
    "0.11.0.3": ("clean", "killed"),
    "4.4.0": ("clean",),
}
_KEPT: Final = ("txn-0", "compacted-0", "__cluster_metadata-0")
_DESTINATION: Final = Path(__file__).resolve().parents[1] / "fixtures" / "releases"


def main() -> None:
    """Write one archive a release."""
    matrix = Path(sys.argv[1])
    _DESTINATION.mkdir(exist_ok=True)
    for version, stages in STAGES.items():
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for stage in stages:
                log_dir = matrix / version / stage
                for path in sorted(path for path in log_dir.rglob("*") if _is_kept(path.relative_to(log_dir))):
                    name = f"{stage}/{path.relative_to(log_dir)}"
                    tar.add(path, name, recursive=False, filter=_plain)
        with (_DESTINATION / f"{version}.tgz").open("wb") as file:
            file.write(gzip.compress(content.getvalue(), mtime=0))


def _is_kept(path: Path) -> bool:
    """Whether a file is at the top or in a kept partition, and does not wait for its deletion."""
    is_top = len(path.parts) == 1 and "-0" not in path.name
    return (is_top or path.parts[0] in _KEPT) and not path.name.endswith(".deleted")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = int(member.mtime)
    return member


if __name__ == "__main__":
    main()
