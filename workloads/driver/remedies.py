"""Which remedies are worth trying, which of them gained, and which go together. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workloads.driver.results import Results
from workloads.protocol import (
    BETWEEN_EPOCHS,
    CHANGE_TRAINING,
    RECURRENT_PREFIX,
    STEPS_PER_CALL,
    WORTH,
    Aim,
    Fix,
    Spec,
)
from workloads.variants import BASELINE, BATCH, CALLS, CUSTOM_LOOP, FIX, HOST_FED, MODEL_ONLY, TUNED

# Calls of several steps are not tried where they would take longer, in seconds.
LONGEST_CALL_S = 1.5
# Parts below this share of a step are not investigated further; xprof calls 5 % moderate.
RELEVANT_SHARE = 0.05
# Remedies are tried for parts that are findings (see harness/analysis/findings.py).
WORTH_SHARE = 0.10
# Where a tuned script is given, remedies are tried for the largest parts: those of at least this share of the largest.
_LARGE = 0.5

# Two ways to the same end.
_EITHER = {FIX.of("steps-per-execution"), FIX.of("many-steps")}


def worth_trying(spec: Spec, results: Results) -> frozenset[Aim]:
    """Return the aims of remedies that are worth trying after the breakdown of the baseline's step."""
    if spec.gpus > 1 or results.params.get("new_tokens"):
        return frozenset()  # one call generates all tokens: what Keras does around it is nothing beside that
    shares = _shares(spec, results)
    least = WORTH_SHARE
    if TUNED in spec.scripts:
        least = max(least, _LARGE * max(shares.values(), default=0.0))
    possible = _possible(results)
    return frozenset(aim for aim in Aim if shares[aim] >= least and possible.get(aim, True))


def _possible(results: Results) -> dict[Aim, bool]:
    """Return, for aims that need a fact of the script, whether it holds; true if it is unknown."""
    return {
        Aim.LOADER: bool(results.params.get("python_input")),
        Aim.EAGER: results.eager,
        Aim.RECURRENT: results.has(BASELINE, RECURRENT_PREFIX),
    }


def _shares(spec: Spec, results: Results) -> dict[Aim, float]:
    """Return the share of the baseline's step that each aim has; all have 1 if the step was not broken down."""
    base, model = results.step_s(BASELINE), results.step_s(MODEL_ONLY)
    if spec.steps or not base or not model:
        shares = dict.fromkeys(Aim, 1.0)
    else:
        loop, with_ready_batch = results.step_s(CUSTOM_LOOP) or base, results.step_s(HOST_FED) or model
        lost_to_step = 1 - with_ready_batch / min(base, loop)
        lost_to_input = max(results.wait_share or 0.0, lost_to_step, results.filling_share())
        around_step = 1 - loop / base
        # More steps per call have fewer of Keras' own ends of epochs, of callbacks and validation as many.
        own_ends = not results.callbacks and not results.params.get("validates")
        between_epochs = own_ends * (results.metric(BASELINE, BETWEEN_EPOCHS) or 0.0) / base
        in_calls_of_several = min(results.steps_s(CALLS).values(), default=model)
        in_larger_batches = min(
            (step / BATCH.number(name) for name, step in results.steps_s(BATCH).items()),
            default=model,
        )
        shares = {
            Aim.INPUT: lost_to_input,
            Aim.LOADER: lost_to_input,
            Aim.EAGER: 1.0,
            Aim.FRAMEWORK: around_step,
            Aim.LAUNCH: max(around_step, between_epochs, (model - in_calls_of_several) / base),
            Aim.DEVICE: model / base,
            Aim.RECURRENT: model / base,
            Aim.BATCH: (model - in_larger_batches) / base,
        }
    if results.eager:
        # Steps that are not compiled are called one by one.
        shares |= {Aim.LAUNCH: 0.0, Aim.DEVICE: 0.0}
    samples = results.params.get("samples_per_epoch")  # 0 or None if unknown
    if samples and samples <= results.params["batch_size"]:
        shares |= {Aim.BATCH: 0.0}  # there are no more samples for a batch
    if STEPS_PER_CALL[spec.device] * base > LONGEST_CALL_S:
        # What a launch costs is nothing beside such a step.
        shares |= {Aim.LAUNCH: 0.0, Aim.BATCH: 0.0}
    return shares


def candidates(fixes: Mapping[str, Fix], results: Results) -> list[str]:
    """Return the remedies that gained when measured alone, largest gain first."""
    gained = [
        name for name, fix in fixes.items() if fix.aim not in CHANGE_TRAINING and results.gain(name) >= WORTH
    ]
    return sorted(gained, key=results.gain, reverse=True)


def may_gain(fixes: Mapping[str, Fix], results: Results) -> list[str]:
    """Return the remedies that gain if the slowest reading of the baseline and their fastest one are those that count.

    Readings beside other programs may not count, of which a container knows nothing.
    """
    slowest = max((each.sample_s for each in results.timings(BASELINE)), default=0.0)
    return [
        name
        for name, fix in fixes.items()
        if fix.aim not in CHANGE_TRAINING
        and any(each.sample_s * WORTH <= slowest for each in results.timings(name))
    ]


def joins(name: str, kept: Sequence[str]) -> bool:
    """Return whether a remedy can be added to others."""
    return not (name in _EITHER and _EITHER & set(kept))
