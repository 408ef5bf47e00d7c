"""Run one container to its end, for checks that look at what it said."""

from __future__ import annotations

import time

from harness.engines import ContainerSpec, Engine, Exit
from harness.errors import EngineError

_LOOK_S = 0.05


def run_to_end(engine: Engine, spec: ContainerSpec, limit_s: float) -> tuple[Exit, str]:
    """Start `spec`, wait for its end and return it with the log; nothing is left of the container.

    Raises:
        EngineError: the engine refuses or is gone, or the container has not ended after `limit_s` seconds.
    """
    container = engine.start(spec)
    try:
        end = time.monotonic() + limit_s
        while (exit_ := container.poll()) is None:
            if time.monotonic() > end:
                container.kill()
                raise EngineError(
                    f"{spec.trial_id} did not end within {limit_s:g} s.",
                    hint="Check the machine's load and the driver's log (dmesg).",
                )
            time.sleep(_LOOK_S)
        return exit_, container.log()
    finally:
        container.remove()
