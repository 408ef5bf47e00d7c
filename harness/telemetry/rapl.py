"""The source "rapl": energy of CPU packages, as the kernel's powercap framework shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.kernel_files import KernelFile


@dataclass(slots=True, kw_only=True)
class _Zone:
    device: str
    file: KernelFile
    range_uj: int
    last_uj: int
    total_uj: int

    def read(self) -> float:
        now_uj = int(self.file.read())
        # The counter wraps, on some CPUs within minutes under load.
        self.total_uj += (now_uj - self.last_uj) % (self.range_uj + 1)
        self.last_uj = now_uj
        return self.total_uj / 1e6


class RaplSource:
    """Energy counters: one device a package ("package0"), and one each for its parts ("package0_dram").

    Args:
        root: where sys is, for tests.
        now_ns: the clock.
    """

    name = "rapl"
    interval_s: float | None = None

    def __init__(self, root: Path = Path("/"), now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._root = root
        self._now_ns = now_ns
        self._zones: list[_Zone] = []
        self._gap: GapSink | None = None

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the counters that this user may read."""
        self._gap = gap
        # AMD's CPUs appear under the same name.
        folders = sorted((self._root / "sys/class/powercap").glob("intel-rapl:*"))
        if not folders:
            gap(self.name, "*", "*", "This machine has no RAPL counters; virtual machines hide them.")
        names: dict[str, str] = {}
        for folder in folders:
            try:
                name = (folder / "name").read_text(encoding="ascii").strip().replace("-", "")
                parent = names.get(folder.name.rpartition(":")[0], "")
                names[folder.name] = device = f"{parent}_{name}" if parent else name
                zone_range = int((folder / "max_energy_range_uj").read_text(encoding="ascii"))
                file = KernelFile(folder / "energy_uj")
                start_uj = int(file.read())
            except PermissionError:
                reason = f"Only root may read it: chmod o+r {folder}/energy_uj."
                gap(self.name, names.get(folder.name, folder.name.replace("-", "")), "energy_j", reason)
            except (OSError, ValueError) as error:
                gap(self.name, folder.name.replace("-", ""), "energy_j", f"{folder} cannot be read: {error}.")
            else:
                zone = _Zone(device=device, file=file, range_uj=zone_range, last_uj=start_uj, total_uj=0)
                self._zones.append(zone)
        return {zone.device: ("energy_j",) for zone in self._zones}

    def read(self) -> Iterable[Sample]:
        """Read every counter."""
        for zone in self._zones:
            now_ns = self._now_ns()
            try:
                energy_j = zone.read()
            except (OSError, ValueError) as error:
                if self._gap:
                    self._gap(self.name, zone.device, "energy_j", f"The counter cannot be read: {error}.")
                continue
            yield Sample(t_ns=now_ns, source=self.name, device=zone.device, values={"energy_j": energy_j})

    def stop(self) -> None:
        """Close the counters."""
        for zone in self._zones:
            zone.file.close()
        self._zones = []
