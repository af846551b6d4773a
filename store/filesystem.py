"""Which file system a path is on, as far as /proc/self/mountinfo tells. Pure but for reading that file."""

import os
import re
from pathlib import Path, PurePosixPath

from .errors import NetworkFileSystem

MOUNTINFO = Path("/proc/self/mountinfo")

NETWORK_FILE_SYSTEMS = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs",
    "fuse.ceph", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
})  # fmt: skip


def resolve_local(path: str | os.PathLike[str], mountinfo: Path = MOUNTINFO) -> Path:
    """`path` absolute and without links; raises NetworkFileSystem if it is on one."""
    resolved = Path(os.path.realpath(path))
    file_system = network_file_system(resolved, mountinfo)
    if file_system:
        raise NetworkFileSystem(resolved, file_system)
    return resolved


def network_file_system(path: Path, mountinfo: Path = MOUNTINFO) -> str | None:
    """The type of the network file system that `path` (absolute, resolved) is on; None on a local one.

    Where the system has no `mountinfo` nothing is known, and the answer is None.
    """
    if not mountinfo.exists():
        return None
    file_system = file_system_of(path, mountinfo.read_text(encoding="utf-8", errors="surrogateescape"))
    return file_system if file_system in NETWORK_FILE_SYSTEMS else None


def file_system_of(path: Path, mountinfo: str) -> str | None:
    """The type of the file system mounted deepest above `path`; the later mount hides an earlier one.

    >>> file_system_of(Path("/home/me/store"), "22 1 8:1 / / rw - ext4 /dev/sda1 rw\\n"
    ...                                        "30 22 0:40 / /home rw shared:1 - nfs4 server:/home rw")
    'nfs4'
    """
    above = {PurePosixPath(path), *PurePosixPath(path).parents}
    mounts = [mount for mount in map(_parse_mount, mountinfo.splitlines()) if mount and mount[0] in above]
    deepest = max((len(point.parts) for point, _ in mounts), default=0)
    return next((kind for point, kind in reversed(mounts) if len(point.parts) == deepest), None)


def _parse_mount(line: str) -> tuple[PurePosixPath, str] | None:
    """Mount point and type of one line: `id parent dev root POINT options... - TYPE source options`."""
    before, separator, after = line.partition(" - ")
    fields = before.split(" ")
    if not separator or len(fields) < 5:
        return None
    return PurePosixPath(_unescape(fields[4])), after.split(" ")[0]


def _unescape(text: str) -> str:
    """Octal escapes of blanks and backslashes, as the kernel writes them."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
