"""Whether a script may read what fit prints."""

from __future__ import annotations

import sys

from workloads.driver import script
from workloads.driver.call import Call


def read_output(call: Call) -> str:
    """Return why what fit prints must stay as it is; "" if only people read it."""
    if not call.arguments.get("verbose"):
        return ""
    if script.has_other_output():
        return (
            "The script has opened another file as its standard output, and may read there what fit prints."
        )
    if sys.stdout is sys.__stdout__:
        return ""
    return f"sys.stdout is a {type(sys.stdout).__name__} of the script, which may read what fit prints."
