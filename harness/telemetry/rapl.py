"""The source "rapl": energy of CPU packages, from the kernel's powercap framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.telemetry import GapSink, Target
from harness.telemetry.kernel_files import FileReading, FileSource, Values


class _Counter:
    """Joules since the first reading. Handles the kernel counter's overflow, within minutes on some CPUs."""

    def __init__(self, range_uj: int) -> None:
        self._range_uj = range_uj
        self._last_uj: int | None = None
        self._total_uj = 0

    def parse(self, content: bytes) -> Values:
        now_uj = int(content)
        last_uj = now_uj if self._last_uj is None else self._last_uj
        self._total_uj += (now_uj - last_uj) % (self._range_uj + 1)
        self._last_uj = now_uj
        return {"energy_j": self._total_uj / 1e6}


class RaplSource(FileSource):
    """Energy counters: one device per package ("package0") and per domain in it ("package0_dram")."""

    name = "rapl"

    def readings(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[FileReading]]:
        """Return the counters that this user may read."""
        # AMD CPUs use the same name.
        folders = sorted((self._root / "sys/class/powercap").glob("intel-rapl:*"))
        if not folders:
            gap("*", "*", "This machine has no RAPL counters; virtual machines hide them.")
        names: dict[str, str] = {}
        result: dict[str, Sequence[FileReading]] = {}
        for folder in folders:
            path = folder / "energy_uj"
            try:
                name = (folder / "name").read_text(encoding="ascii").strip().replace("-", "")
                parent = names.get(folder.name.rpartition(":")[0], "")
                names[folder.name] = device = f"{parent}_{name}" if parent else name
                counter = _Counter(int((folder / "max_energy_range_uj").read_text(encoding="ascii")))
                path.read_bytes()
            except PermissionError:
                device = names.get(folder.name, folder.name.replace("-", ""))
                gap(device, "energy_j", f"Only root may read {path}. Run: chmod o+r {path}.")
            except (OSError, ValueError) as error:
                gap(folder.name.replace("-", ""), "energy_j", f"{folder} cannot be read: {error}.")
            else:
                result[device] = (FileReading(path=path, metrics=("energy_j",), parse=counter.parse),)
        return result
