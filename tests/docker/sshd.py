"""An ssh server on loopback with keys of its own, so that ssh:// is tested against the real thing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SshServer:
    """A running server: `home` is a home directory whose .ssh lets one in without a question."""

    port: int
    home: Path


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Start sshd, yield it, and end it with everything that it started."""
    program = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    assert program, "no sshd here: apt-get install openssh-server"
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    for name in ("host_key", "home/.ssh/id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    authorized = folder / "authorized_keys"
    shutil.copy(home / ".ssh/id_ed25519.pub", authorized)
    port = _free_port()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile {folder}/pid\n"
        f"AuthorizedKeysFile {authorized}\nPasswordAuthentication no\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin yes\n"
    )
    host_key = (folder / "host_key.pub").read_text()
    (home / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    (home / ".ssh/config").write_text(
        f"Host bench-host\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {home}/.ssh/id_ed25519\n"
        f"  UserKnownHostsFile {home}/.ssh/known_hosts\n  BatchMode yes\n"
    )
    server = subprocess.Popen(
        [program, "-D", "-e", "-f", folder / "sshd_config"], stderr=(folder / "log").open("w")
    )
    try:
        while not _answers(port):
            assert server.poll() is None, (folder / "log").read_text()
            time.sleep(0.02)
        yield SshServer(port=port, home=home)
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
