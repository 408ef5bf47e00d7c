"""The list of all sources."""

from __future__ import annotations

from harness.telemetry import Source
from harness.telemetry.cgroup import CgroupSource
from harness.telemetry.cpufreq import FrequencySource
from harness.telemetry.gpm import GpmSource
from harness.telemetry.host import HostSource
from harness.telemetry.nvml import NvmlSlowSource, NvmlSource
from harness.telemetry.nvml_utilisation import UtilisationSource
from harness.telemetry.process import ProcessSource
from harness.telemetry.rapl import RaplSource


def default_sources() -> tuple[Source, ...]:
    """Return new sources for a trial, in reading order."""
    return (
        HostSource(),
        CgroupSource(),
        ProcessSource(),
        NvmlSource(),
        RaplSource(),
        GpmSource(),
        UtilisationSource(),
        NvmlSlowSource(),
        FrequencySource(),
    )
