import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.readings import Window, between_epochs_s, gains, mean_gain, seconds, timing
from workloads.variants import BASELINE, MODEL_ONLY, TUNED

FIXED = "fix:cache"
SPEEDS = st.floats(min_value=1e-4, max_value=1e4)
TIMES = st.floats(min_value=0, max_value=1e6)


def window(
    start_s: float, length_s: float, steps: int = 10, samples: int = 320, wait_s: float = -1
) -> Window:
    return Window(
        variant=BASELINE, index=0, start_ns=round(start_s * 1e9), end_ns=round((start_s + length_s) * 1e9),
        steps=steps, samples=samples, wait_ns=round(wait_s * 1e9) if wait_s >= 0 else -1,
    )  # fmt: skip


@given(
    st.floats(min_value=-0.5, max_value=0.5),
    SPEEDS,
    st.lists(
        st.tuples(st.floats(min_value=0, max_value=10), st.floats(min_value=0.1, max_value=10)), max_size=6
    ),
    st.lists(st.floats(min_value=0.5, max_value=9.5), max_size=4),
)
def test_a_steady_drift_changes_no_gain_between_references(rate, sample_s, readings, references):
    """The time of a sample grows by the factor exp(rate) in each second."""

    def drifting(when: float, gain: float = 1.0) -> tuple[float, float]:
        return when, sample_s * math.exp(rate * when) / gain

    known = [drifting(when) for when in (10.0, *references, 0.0)]
    found = gains([drifting(when, gain) for when, gain in readings], known)
    assert found == pytest.approx([gain for _, gain in readings], rel=1e-6)


def test_a_drift_without_references_on_both_sides_is_not_corrected():
    assert gains([(10.0, 1.0)], [(0.0, 2.0)]) == [2.0]
    assert gains([(-5.0, 1.0), (15.0, 1.0)], [(0.0, 2.0), (10.0, 4.0)]) == pytest.approx([2.0, 4.0])
    assert gains([(5.0, 1.0)], []) == []


def test_a_sudden_change_is_shared_by_the_readings_beside_it():
    """Half way between references of 1 and 4 s, the reference is their geometric mean."""
    assert gains([(5.0, 1.0)], [(10.0, 4.0), (0.0, 1.0)]) == pytest.approx([2.0])
    assert gains([(5.0, 1.0)], [(5.0, 3.0), (5.0, 3.0)]) == pytest.approx([3.0]), "at the same time"


@given(st.lists(SPEEDS, min_size=1, max_size=9), SPEEDS)
def test_mean_gains_of_a_variant_and_of_its_inverse_cancel(values, factor):
    assert mean_gain(values) * mean_gain([1 / each for each in values]) == pytest.approx(1)
    assert mean_gain([each * factor for each in values]) == pytest.approx(factor * mean_gain(values))
    assert min(values) <= mean_gain(values) * (1 + 1e-9) and mean_gain(values) <= max(values) * (1 + 1e-9)


def test_without_gains_there_is_no_mean():
    assert mean_gain([]) == 0


def test_ends_of_epochs_are_shared_by_all_steps():
    windows = [window(0, 1), window(2, 3, steps=30, samples=960)]
    plain, whole = timing(windows), timing(windows, between_s=0.05)
    assert (plain.step_s, plain.sample_s, plain.batch) == pytest.approx((0.1, 4 / 1280, 32))
    assert (whole.step_s, whole.sample_s) == pytest.approx((0.15, 6 / 1280))
    assert plain.at_ns == whole.at_ns == 2.5e9, "the middle of all windows"
    assert seconds(windows, 0.05) == pytest.approx(6)


def test_time_waited_is_a_share_of_the_windows_in_which_it_is_observed():
    assert timing([window(0, 1)]).wait_share is None
    assert timing([window(0, 1, wait_s=0.5), window(1, 9)]).wait_share == pytest.approx(0.5)
    assert timing([window(0, 1, wait_s=0.5)], between_s=0.1).wait_share == pytest.approx(0.25)
    assert timing([window(0, 1, wait_s=7)]).wait_share == 1


@pytest.mark.parametrize("windows", [[], [window(0, 1, steps=0)], [window(0, 1, samples=0)], [window(0, 0)]])
def test_windows_without_steps_samples_or_length_are_no_reading(windows):
    assert timing(windows) is None


@given(st.lists(TIMES, min_size=1, max_size=5), st.lists(TIMES, max_size=5))
def test_changes_of_the_baseline_have_its_ends_of_epochs_unless_they_saw_their_own(of_baseline, own):
    values = {BASELINE: of_baseline, **({FIXED: own} if own else {})}
    assert between_epochs_s(values, FIXED) == fmean(own or of_baseline)
    assert between_epochs_s(values, BASELINE) == fmean(of_baseline)
    # Variants that have no epochs, and a script of its own.
    assert between_epochs_s(values, MODEL_ONLY) == between_epochs_s(values, TUNED) == 0
    assert between_epochs_s({}, FIXED) == 0
