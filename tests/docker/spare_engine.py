"""A second Docker Engine with folders of its own, for tests in which an engine has to die."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
import psutil
from docker.errors import DockerException


class SpareEngine:
    """A dockerd without network on a socket of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._folder}/docker.sock"

    def start(self) -> None:
        options = ["--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "dockerd",
                    f"--host={self.url}",
                    f"--data-root={self._folder}/data",
                    f"--exec-root={self._folder}/exec",
                    f"--pidfile={self._folder}/pid",
                    f"--containerd-namespace={self._folder.name}",
                    f"--containerd-plugins-namespace={self._folder.name}-plugins",
                    *options,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()[-4000:]
            time.sleep(0.05)

    def load(self, reference: str, source: docker.DockerClient) -> None:
        """Copy an image from another engine."""
        client = docker.DockerClient(base_url=self.url, version="auto")
        with tempfile.TemporaryFile() as archive:
            for chunk in source.images.get(reference).save(named=True):
                archive.write(chunk)
            archive.seek(0)
            client.images.load(archive)
        client.close()

    def die(self) -> None:
        """Kill the engine as if the machine had run out of memory: nothing is told, nothing cleaned up."""
        assert self._process
        self._process.kill()
        self._process.wait()

    def clear_away(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
        # containerd and its shims outlive a killed dockerd; every one of them names the folder.
        for process in psutil.process_iter(["cmdline", "pid"]):
            words = process.info["cmdline"] or ()
            if any(word.startswith(f"{self._folder}/") or word == self._folder.name for word in words):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                    process.wait()
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            where = line.split()[1]
            if where.startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", where], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            docker.DockerClient(base_url=self.url, version="auto", timeout=5).close()
        except DockerException:
            return False
        return True


@contextmanager
def spare_engine() -> Iterator[SpareEngine]:
    """Start a second engine, yield it, and leave nothing of it behind."""
    # Not pytest's folder: containerd's sockets below it must fit into 107 bytes.
    # The folder names a namespace of containerd: letters and digits, one hyphen or underscore between two.
    folder = Path(f"/tmp/tfb-{secrets.token_hex(6)}")
    folder.mkdir(mode=0o700)
    engine = SpareEngine(folder)
    try:
        engine.start()
        yield engine
    finally:
        engine.clear_away()
