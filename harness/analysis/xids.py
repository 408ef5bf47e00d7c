"""NVIDIA's Xid catalogue: what the driver's error codes mean and what to do.

From NVIDIA, "XID Errors" (GPU deployment and management documentation, table of common Xids and "Working with Xid
Errors"), shortened. Codes that an application can cause are not the machine's fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class XidMeaning(NamedTuple):
    """What an Xid means and what to do; `fails` if the GPU is not to be used before that."""

    meaning: str
    action: str
    fails: bool


_APPLICATION = "check the application; if it recurs with others, run dcgmi diag"
_RESET = "stop all work and reset the GPU"
_REPORT = "drain the node, run field diagnostics and report it to the vendor"

XIDS: Mapping[int, XidMeaning] = {
    8: XidMeaning("a kernel ran into its time limit", _APPLICATION, False),
    13: XidMeaning("graphics engine exception", _APPLICATION, False),
    31: XidMeaning("memory page fault", _APPLICATION, False),
    32: XidMeaning("corrupted push buffer", _APPLICATION, False),
    38: XidMeaning("driver firmware error", "update the driver, then report it", True),
    43: XidMeaning("GPU stopped processing an application", _APPLICATION, False),
    45: XidMeaning("preemptive cleanup after another error", "look for the error before it", False),
    48: XidMeaning("uncorrectable (double-bit) ECC error", _RESET, True),
    61: XidMeaning("internal micro-controller warning", _RESET, True),
    62: XidMeaning("internal micro-controller halt", _RESET, True),
    63: XidMeaning("row remapping or page retirement recorded", "reset the GPU when idle", False),
    64: XidMeaning("row remapping or page retirement failed", _REPORT, True),
    68: XidMeaning("video processor exception", _APPLICATION, False),
    69: XidMeaning("graphics engine class error", _APPLICATION, False),
    74: XidMeaning("NVLink error", f"{_RESET}; if it recurs, check the links", True),
    79: XidMeaning("GPU has fallen off the bus", "reboot; if it recurs, check power and seating", True),
    92: XidMeaning("high rate of corrected ECC errors", "run field diagnostics", False),
    94: XidMeaning("contained memory error", "restart the application, reset the GPU when idle", False),
    95: XidMeaning("uncontained memory error", _RESET, True),
    109: XidMeaning("context switch timeout", _APPLICATION, False),
    119: XidMeaning("GSP firmware does not answer", _RESET, True),
    120: XidMeaning("GSP firmware error", _RESET, True),
    121: XidMeaning("C2C link error", "reset the GPU when idle", False),
    136: XidMeaning("link training failed", _REPORT, True),
    137: XidMeaning("NVLink privilege error", _APPLICATION, False),
    140: XidMeaning("unrecovered ECC error", _RESET, True),
    143: XidMeaning("GPU initialisation failed", _REPORT, True),
    149: XidMeaning("NVLink error", f"{_RESET}; if it recurs, check the links", True),
    154: XidMeaning("the recovery action of the GPU changed", "see nvidia-smi -q, GPU Recovery Action", True),
}
UNKNOWN = XidMeaning("not in this table", "look it up in NVIDIA's Xid catalogue", False)
