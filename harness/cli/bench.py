"""`tfbench bench`: run the workloads and write the report."""

from __future__ import annotations

from harness.cli import options as given
from harness.cli.app import Json, Price, Quiet, app, command_line, err, paths
from harness.cli.console import Terminal
from harness.cli.measuring import measure, stoppable
from harness.cli.options import absolute, bytes_of, pairs, seconds_between, split
from harness.run.options import Options, resolve
from harness.run.prepare import Prepared, prepare, resume


@app.command()
def bench(
    workload: given.Workloads = None,
    workload_file: given.WorkloadFile = None,
    profile: given.Profile = "quick",
    variants: given.Variants = "",
    analysis: given.Analysis = True,
    param: given.Param = None,
    data: given.DataMode = "auto",
    weights: given.Weights = None,
    device: given.Device = "auto",
    gpus: given.Gpus = "0",
    engine: given.Engine = "auto",
    image: given.Image = None,
    base: given.Base = None,
    cpus: given.Cpus = "",
    cpu_quota: given.CpuQuota = None,
    memory: given.Memory = None,
    trials: given.Trials = None,
    rate: given.Rate = 10,
    stall: given.Stall = None,
    seed: given.Seed = 1,
    price: Price = "",
    cloud_metadata: given.CloudMetadata = True,
    runs: given.Runs = given.RUNS,
    resume_run: given.Resume = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the workloads in containers, sample the host meanwhile, and write one report.

    Exit codes: 0 all went well, 2 usage, 3 engine, 4 image, 5 a trial failed, 6 disk, 7 another run,
    8 GPU, 9 data, 130 interrupted. Finished trials and a report of them are kept whatever happens.
    """  # fmt: skip

    def ready(progress: Terminal) -> Prepared:
        if resume_run:
            return resume(resume_run, paths(), progress)
        options = Options(
            profile=profile,
            engine=engine,
            device=device,
            gpus=gpus,
            workloads=split(workload),
            files=absolute(workload_file),
            images=pairs(image, "--image"),
            base=base,
            variants=variants,
            analysis=analysis,
            params=pairs(param, "--param"),
            trials=trials,
            out=runs,
            data=data,
            weights=None if weights is None else weights.absolute(),
            interval_s=seconds_between(rate),
            cpus=cpus,
            cpu_quota=cpu_quota,
            memory_bytes=bytes_of(memory),
            stall_s=stall,
            seed=seed,
            price=price,
            cloud_metadata=cloud_metadata,
        )
        return prepare(resolve(options), paths(), progress, command=command_line())

    progress = Terminal(err(), quiet=quiet)
    with stoppable():
        measure(ready(progress), progress, as_json=as_json, quiet=quiet)
