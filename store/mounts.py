"""Which file system a path lies on, from the text of /proc/self/mountinfo."""

import re
from pathlib import PurePath

# Their locks and shared memory do not reach every machine that mounts them, so WAL would lose commits. FUSE may be
# anything, a network included.
_NETWORK = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs",
        "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs",
    }
)  # fmt: skip
_OCTAL = re.compile(r"\\([0-7]{3})")


def network_file_system(mountinfo: str, path: PurePath) -> str | None:
    """The type of the network file system that holds `path` (absolute, links resolved), None on a local one."""
    held_by, kind = PurePath(), "none"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = PurePath(_OCTAL.sub(lambda code: chr(int(code[1], 8)), before.split(" ")[4]))
        # A later mount on the same point hides the earlier one.
        if path.is_relative_to(point) and len(point.parts) >= len(held_by.parts):
            held_by, kind = point, after.split(" ")[0]
    return kind if kind in _NETWORK or kind.partition(".")[0] == "fuse" else None
