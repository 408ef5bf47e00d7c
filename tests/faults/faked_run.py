"""A run of fake trials by `measure`, as a process whose terminal, streams and disk tests take away.

Arguments: FOLDER TRIALS SECONDS, of each trial.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from harness.cli import prepare_process, stop_on_signals
from harness.cli.bench import measure
from harness.cli.console import Terminal, err, show_error
from harness.defaults import PROFILES
from harness.errors import TfbenchError
from harness.options import Options
from harness.run.plan import plan_trials
from harness.run.prepare import Prepared
from harness.run.store import RunFolder
from tests.builders import jobs, manifest, small_workload
from tests.fakes import FakeEngine, Script
from workloads.variants import BASELINE

WORKLOAD = small_workload("short", file="short.py", scripts={"short.py": "EPOCHS = 1\n"})


def run(path: Path, trials: int, seconds: float) -> None:
    profile = replace(PROFILES["smoke"], trials=trials, max_trials=trials)
    planned = plan_trials((WORKLOAD,), ("cpu",), profile, {WORKLOAD.name: (BASELINE,)}, {})
    ends: list[float] = []
    script = Script(
        on_start=lambda out: ends.append(time.monotonic() + seconds),
        may_exit=lambda: time.monotonic() > ends[-1],
    )
    plan = SimpleNamespace(
        options=Options(rate_hz=10.0, cloud_metadata=False),
        profile=profile,
        planned=planned,
        workloads=(WORKLOAD,),
    )
    prepared = Prepared(
        plan=plan,
        engine=FakeEngine(script),
        folder=RunFolder(path),
        manifest=manifest(),
        jobs=jobs(planned, WORKLOAD, profile),
    )
    with stop_on_signals():
        measure(prepared, Terminal(err()))


if __name__ == "__main__":
    prepare_process()
    try:
        run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    except TfbenchError as error:
        show_error(error)
        sys.exit(error.exit_code)
