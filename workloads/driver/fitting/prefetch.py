"""Whether `prefetch` fits a call."""

from __future__ import annotations

from collections.abc import Iterator

from workloads.driver.call import Call
from workloads.driver.first_epoch import digests
from workloads.driver.fitting.at_once import reused_memory
from workloads.driver.fitting.operations import captured, is_seed, kinds_in
from workloads.driver.fitting.reading import changed_between, changed_in_step, outlives_epochs, reads_training
from workloads.driver.own_code.callbacks import around_batches
from workloads.driver.own_code.reached import reached
from workloads.driver.pipelines import PYTHON, class_of, datasets_of, functions_of, python_of


def misfit(call: Call) -> str:
    """Return why reading ahead would change what is read; "" if it would not."""
    if reason := reads_training(call):
        return reason
    if kind := reads_on(call):
        return f"Python in the pipeline reads on from, or writes to, a {kind}, and would leave it further on."
    datasets = [*datasets_of(call.arguments)]
    kinds = kinds_in(datasets)
    reads = kinds & PYTHON or any(
        not is_seed(each) for function in functions_of(datasets) for each in captured(function)
    )
    if not outlives_epochs(call):
        # Each epoch begins the pipeline, which reads ahead within the epoch only.
        return (around_batches(call) if reads else "") or changed_in_step(call, datasets, kinds)
    return changed_between(call, datasets, kinds)


def after(call: Call) -> str:
    """Return that elements that wait would change; "" if they would not."""
    return reused_memory(each for each in datasets_of(call.arguments) if class_of(each) == "PrefetchDataset")


def observed(call: Call) -> list[bytes] | None:
    """Return hashes of what an input that goes on in the next epoch gives first; None of others."""
    return digests(call.arguments["x"]) if call.is_pipeline and outlives_epochs(call) else None


def reads_on(call: Call) -> str:
    """Return the class of an iterator that a pipeline's Python reads on from, in each pass; "" without one."""
    python = python_of(datasets_of(call.arguments))
    found = next((each for each in reached(*python) if isinstance(each, Iterator)), None)
    return "" if found is None else type(found).__name__
