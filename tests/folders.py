"""Write synthetic runs as run folders."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from harness.model.run import Run, Series, Status, Trial
from harness.run.json_values import to_plain
from harness.run.store import RunFolder, session_of
from tests.fakes import line, start_line


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def write_run(path: Path, run: Run) -> RunFolder:
    """Write a run; interrupted trials have no record, as after the harness was killed."""
    folder = RunFolder(path)
    folder.create(run)
    planned = {item.id: item for item in run.planned}
    for trial in run.trials:
        files = folder.open_trial(planned[trial.id])
        files.events.write_text(events(trial), encoding="utf-8")
        for series in trial.telemetry:
            write_series(files.telemetry, series)
        if trial.status is not Status.INTERRUPTED:
            folder.close_trial(trial, "")
        folder.settle(session_of(trial.id))
    if run.ended:
        folder.close()
    return folder


def comparable(value: object) -> object:
    """Convert a model value so that == compares it, arrays by type and content."""
    return to_plain(value, lambda array: [str(array.dtype), str(array.tolist())])


def events(trial: Trial) -> str:
    lines = [start_line(), line("facts", facts=dict(trial.facts))]
    lines += [
        line(
            "variant",
            variant=variant.variant,
            params=dict(variant.params),
            changes=[asdict(change) for change in variant.changes],
        )
        for variant in trial.variants
    ]
    lines += [line("phase", **asdict(phase)) for phase in trial.phases]
    lines += [line("window", **asdict(window)) for window in trial.windows]
    lines += [
        line("steps", variant=step.variant, window=step.window, step_ns=step.step_ns.tolist())
        for step in trial.steps
    ]
    lines += [line("metric", **asdict(metric)) for metric in trial.metrics]
    lines += [line("warning", message=message) for message in trial.warnings]
    if trial.status is Status.OK:
        lines.append(line("end"))
    return "".join(lines)


def write_series(folder: Path, series: Series) -> None:
    rows = [",".join(("t_ns", *series.columns))]
    columns = [
        ["" if np.isnan(value) else repr(value) for value in values.tolist()]
        for values in series.columns.values()
    ]
    rows += map(",".join, zip(map(str, series.t_ns.tolist()), *columns, strict=True))
    (folder / f"{series.source}-{series.device}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
