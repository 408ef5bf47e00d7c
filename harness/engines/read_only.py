"""Run a command for which the whole file system can only be read, except for named folders.

Whatever writes, also C++ and child processes, gets "Read-only file system". /tmp and /var/tmp are a folder of the
trial, and /dev/shm is its own, as in a container; named paths inside them stay visible.

Run as source by Python 3.10 or newer with only the standard library. FOLDERS is a JSON object with "tmp", the folder to
be /tmp; "writable" and "visible", lists of absolute paths; "shown", a list of [folder, path] for what is seen in a
folder:

    python3 -I -S -c SOURCE FOLDERS COMMAND...

Exits with NOT_POSSIBLE if the kernel gives this process no namespaces of its own.
"""

import ctypes
import errno
import json
import os
import re
import sys
import typing

NOT_POSSIBLE = 99
HIDDEN = ("/tmp", "/var/tmp")  # noqa: S108
SHARED_MEMORY = "/dev/shm"  # noqa: S108
# linux/sched.h, mount.h, prctl.h, capability.h
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
PR_CAPBSET_DROP, CAP_LAST = 24, 63
# What root keeps, for files of other users: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID.
KEPT_CAPABILITIES = (0, 1, 3, 4, 6, 7)
# Parts of /proc that set the kernel; as engines of containers protect them.
KERNEL = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# The kernel does not let a namespace clear these.
LOCKED = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}

libc = ctypes.CDLL(None, use_errno=True)


def main(folders: "dict[str, typing.Any]", command: "list[str]") -> None:
    """Enter the namespaces and replace this process by `command`."""
    try:
        enter()
        protect(folders["tmp"], folders["writable"], folders["visible"], folders["shown"])
        # Otherwise root could undo it, and reach all files through processes outside or by handles. Of others,
        # capabilities end with this program.
        for capability in {*range(CAP_LAST + 1)}.difference(KEPT_CAPABILITIES):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    except OSError as error:
        os.write(2, f"No namespace: {error}\n".encode())
        sys.exit(NOT_POSSIBLE)
    os.execv(command[0], command)  # noqa: S606


def enter() -> None:
    """Give this process its own mounts; users without the right to it get it from a user namespace."""
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNS) != 0:
        _check(libc.unshare(CLONE_NEWNS | CLONE_NEWUSER), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(text)
    mount("none", "/", MS_REC | MS_PRIVATE)


def protect(tmp: str, writable: "list[str]", visible: "list[str]", shown: "list[list[str]]") -> None:
    """Make all mounts read-only, except for the named folders and those of programs for temporary files."""
    for folder, path in shown:
        mount(path, folder, MS_BIND | MS_REC)
    # By descriptor, because mounts below are about to hide their paths.
    opened = {path: os.open(path, os.O_PATH) for path in sorted({*writable, *visible})}
    own = os.open(tmp, os.O_PATH)
    hidden = [
        path
        for path in HIDDEN
        if os.path.realpath(path) == path and os.path.isdir(path) and path not in visible  # noqa: PTH112
    ]
    for path in hidden:
        mount(f"/proc/self/fd/{own}", path, MS_BIND)
    if os.path.isdir(SHARED_MEMORY):  # noqa: PTH112
        mount("tmpfs", SHARED_MEMORY, MS_NOSUID | MS_NODEV, "tmpfs", "mode=1777")
    shared = [SHARED_MEMORY] if os.path.realpath(SHARED_MEMORY) == SHARED_MEMORY else []
    for path, descriptor in opened.items():
        source = f"/proc/self/fd/{descriptor}"
        if any(path.startswith(f"{folder}/") for folder in (*hidden, *shared)):
            if os.path.isdir(source):  # noqa: PTH112
                os.makedirs(path, exist_ok=True)  # noqa: PTH103
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        elif path not in writable:
            continue
        mount(source, path, MS_BIND | MS_REC)
    for path in filter(os.path.exists, KERNEL):
        mount(path, path, MS_BIND | MS_REC)
    # CUDA writes to its own files in /proc, which has none of a user.
    kept = {*hidden, *shared, *writable, "/proc"}
    for path, options in mounts():
        if path not in kept:
            make_read_only(path, options)


def make_read_only(path: str, options: str) -> None:
    """Make one mount read-only; one that is covered by another, or lies where this user cannot go, may stay.

    For a path that is no mount point here, because another mount covers it, the kernel answers EINVAL.
    """
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY
    for name in options.split(","):
        flags |= LOCKED.get(name, 0)
    try:
        mount("none", path, flags)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return
        try:
            state = os.statvfs(path)
        except OSError:
            return
        if not state.f_flag & os.ST_RDONLY:
            raise


def mounts() -> "list[tuple[str, str]]":
    """Return path and options of each mount of this process."""
    with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123
        rows = [line.split(b" ") for line in file]
    # Spaces, tabs, newlines and backslashes of paths are octal.
    return [
        (os.fsdecode(re.sub(rb"\\(\d{3})", lambda found: bytes([int(found[1], 8)]), row[4])), row[5].decode())
        for row in rows
    ]


def mount(source: str, target: str, flags: int, kind: str = "", data: str = "") -> None:
    """Call mount(2)."""
    words = [os.fsencode(word) or None for word in (source, target, kind)]
    _check(libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None), target)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
