"""What is drawn: thinned-out series keep their peaks, phases and throttling stand where they happened."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.run import Phase, Status
from harness.run.thinning import thin
from reports.bars import Bar, bar_panels
from reports.charts import still
from reports.figures import figures_of, shown_trials
from reports.stretches import stretches
from reports.timeline import bands, lines, throttled
from reports.timeline_chart import timeline_figure
from tests import builders
from tests.report_pages import analysis

SECOND_NS = builders.SECOND_NS


def test_half_duty_cycle_stays_visible_after_an_hour_is_thinned_to_a_line():
    t_s = np.arange(36_000) / 10
    load = np.where(np.arange(36_000) % 10 < 5, 100.0, 0.0)
    times, columns = thin(t_s, {"load": load}, 200)
    assert len(times) <= 202
    assert (columns["load"].reshape(-1, 2).max(axis=1) == 100).all()
    assert (columns["load"].reshape(-1, 2).min(axis=1) == 0).all()


def test_one_reading_of_36000_is_not_lost():
    load = np.zeros(36_000)
    load[12_345] = 640.0
    times, columns = thin(np.arange(36_000) / 10, {"load": load}, 300)
    at = int(columns["load"].argmax())
    assert columns["load"][at] == 640.0
    assert abs(times[at] - 1234.5) < 3600 / 150


def test_gap_stays_a_gap():
    values = np.full(1_000, 5.0)
    values[300:600] = np.nan
    _, columns = thin(np.arange(1_000.0), {"v": values}, 100)
    assert np.isnan(columns["v"]).sum() == pytest.approx(30, abs=4)
    assert np.nanmin(columns["v"]) == 5.0


def test_short_series_are_left_as_they_are():
    t_s, values = np.arange(50.0), np.arange(50.0)
    times, columns = thin(t_s, {"v": values}, 100)
    assert times is t_s
    assert columns["v"] is values


@given(
    st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))), min_size=1, max_size=400),
    st.integers(4, 60),
)
def test_extremes_survive_whatever_the_series(values, points):
    array = np.array(values)
    times, columns = thin(np.arange(len(array), dtype=float), {"v": array}, points)
    kept = columns["v"]
    assert len(times) == len(kept)
    assert (np.diff(times) >= 0).all()
    assert np.isnan(kept).all() == np.isnan(array).all()
    if not np.isnan(array).all():
        assert np.nanmin(kept) == np.nanmin(array)
        assert np.nanmax(kept) == np.nanmax(array)


def test_stretches_are_found_at_both_ends():
    on = np.array([True, True, False, True])
    assert stretches(np.array([0.0, 1.0, 2.0, 3.0]), on) == [(0.0, 2.0, 0), (3.0, 3.0, 3)]
    assert stretches(np.empty(0), np.empty(0, dtype=bool)) == []


def _throttled_trial(bits: int):
    trial = builders.trial(device="gpu0", speeds=builders.COMPUTE_BOUND)
    series = next(each for each in trial.telemetry if "throttle_reasons" in each.columns)
    reasons = np.zeros(len(series.t_ns))
    reasons[50:80] = bits
    changed = replace(series, columns={**series.columns, "throttle_reasons": reasons})
    others = tuple(each for each in trial.telemetry if each is not series)
    return replace(trial, telemetry=(*others, changed))


def test_throttling_is_marked_when_it_happened_and_why():
    trial = _throttled_trial(0x04 | 0x20)
    (band,) = throttled(trial)
    assert band.end_s - band.start_s == pytest.approx(3.0, abs=0.1)
    assert "software power cap" in band.label
    assert "software thermal slowdown" in band.label
    figure = timeline_figure(trial, number=1, title="t", points=300)
    assert "throttled" in {key.name for key in figure.legend}
    assert any("software power cap" in cell for row in figure.table.rows for cell in row)


@pytest.mark.parametrize("bits", [0x01, 0x02], ids=["idle", "clocks set by the user"])
def test_what_is_no_throttling_is_not_marked(bits):
    assert throttled(_throttled_trial(bits)) == ()


def test_phases_that_look_alike_become_one_band():
    trial = replace(
        builders.trial(),
        phases=(
            Phase(name="import", variant="", start_ns=1_000 * SECOND_NS, end_ns=1_002 * SECOND_NS),
            Phase(name="data", variant="", start_ns=1_002 * SECOND_NS, end_ns=1_003 * SECOND_NS),
            Phase(name="first-step", variant="tuned", start_ns=1_003 * SECOND_NS, end_ns=1_005 * SECOND_NS),
        ),
    )
    start, first = bands(trial)
    assert (start.start_s, start.end_s) == (0.0, 3.0)
    assert start.label == "TensorFlow import, data preparation"
    assert first.label == "first step of tuned"


def test_each_device_is_drawn_in_each_panel_that_it_has_readings_for():
    found = lines(builders.trial(device="gpu0+gpu1", speeds=builders.COMPUTE_BOUND))
    power = {line.device for line in found if line.metric.startswith("power")}
    assert power == {"gpu0", "gpu1"}
    assert {line.metric for line in found} >= {
        "cpu_util_pct",
        "gpu_util_pct",
        "temperature_c",
        "sm_clock_mhz",
    }


def test_failed_trials_are_shown_through_time_beside_the_middle_ones():
    shown = shown_trials(analysis("failed"))
    assert [trial.status for trial in shown].count(Status.NO_GPU) == 3
    assert [trial.status for trial in shown].count(Status.OK) == 1


def test_stills_have_no_interaction_and_no_hidden_layers():
    figure = figures_of(analysis("gpu"))["figure-timeline-2"]
    svg = still(figure)
    assert svg.startswith("<svg")
    assert "<path" in svg
    assert "params" not in figure.still_spec
    assert "hover" not in json.dumps(figure.still_spec)


def test_stills_share_no_names_and_come_out_the_same_again():
    figures = figures_of(analysis("gpu"))
    one, two = (still(figures[f"figure-timeline-{number}"]) for number in (1, 2))
    names = [set(re.findall(r'id="([^"]+)"', svg)) for svg in (one, two)]
    assert all(names)
    assert not names[0] & names[1]
    for svg, own in zip((one, two), names, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= own
    assert still(figures["figure-timeline-1"]) == one


def test_numbers_of_one_system_have_a_row_each():
    bars = [
        Bar(label="A100", value=value, text=str(value), source="s", published=True) for value in (1, 2, 3)
    ]
    (panel,), _ = bar_panels([("t", bars)], unit="u")
    rows = [row["row"] for row in panel["layer"][2]["data"]["values"]]
    assert len(set(rows)) == 3
    assert {row.replace("\u200b", "") for row in rows} == {"A100"}


def test_long_labels_are_broken_and_not_cut():
    bar = Bar(label="Standard NC4as T4 v3, its 4 virtual CPUs", value=1, text="1", source="s")
    (panel,), room_px = bar_panels([("t", [bar])], unit="u")
    (row,) = (row["row"] for row in panel["layer"][2]["data"]["values"])
    assert row.replace("\n", " ") == bar.label
    assert room_px < 175
