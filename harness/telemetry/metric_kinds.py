"""Metrics that are not averaged over time; docs/telemetry.md describes all metrics.

Counters are stored as cumulative values: the difference between two readings is exact, unlike a mean of
sampled rates.
"""

from __future__ import annotations

COUNTERS = frozenset((
    "context_switches", "disk_read_bytes", "disk_write_bytes", "net_recv_bytes", "net_sent_bytes", "loopback_bytes",
    "cpu_throttle_events",
    *(f"{resource}_pressure_{share}_s" for resource in ("cpu", "mem", "io") for share in ("some", "full")),
    "cpu_usage_s", "cpu_user_s", "cpu_system_s", "cpu_periods", "cpu_throttled_periods", "cpu_throttled_s",
    "io_read_bytes", "io_write_bytes", "io_read_ops", "io_write_ops", "energy_j", "power_capped_s", "pcie_replays",
    "ecc_corrected", "ecc_uncorrected", "xid_errors",
))  # fmt: skip
# Sums and means of bit masks are meaningless.
BIT_MASKS = frozenset(("throttle_reasons",))
