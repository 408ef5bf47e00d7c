import numpy as np
import pandas as pd
import pytest

from harness.errors import StoreError
from harness.telemetry import Sample
from harness.telemetry.csvfile import TelemetryWriter, read_series


def make_sample(t_ns, device="gpu0", **values):
    return Sample(t_ns=t_ns, device=device, values=values)


def test_round_trip_with_missing_values_as_empty_cells(tmp_path):
    with TelemetryWriter(tmp_path) as writer:
        writer.begin("nvml_slow", {"gpu0": ("energy_j", "pids"), "gpu-1a": ("energy_j",), "gpu2": ()})
        samples = [make_sample(1, energy_j=0.1 + 0.2, pids=2**53), make_sample(2, "gpu-1a", energy_j=5)]
        writer.write("nvml_slow", samples)
        writer.write("nvml_slow", [make_sample(4, pids=7), make_sample(3, pids=6)])
        # Read before the file is closed, as after a kill.
        frame = pd.read_csv(tmp_path / "nvml_slow-gpu0.csv")
    second, first = read_series(tmp_path)
    assert (first.source, first.device, second.device) == ("nvml_slow", "gpu0", "gpu-1a")
    assert first.t_ns.dtype == np.int64
    np.testing.assert_array_equal(first.t_ns, [1, 3, 4], "sorted by time")
    np.testing.assert_array_equal(first.columns["energy_j"], [0.1 + 0.2, np.nan, np.nan])
    np.testing.assert_array_equal(first.columns["pids"], [2.0**53, 6, 7])
    assert frame["t_ns"].tolist() == [1, 4, 3]
    assert frame["energy_j"].isna().tolist() == [False, True, True]


def test_truncated_last_line_is_ignored(tmp_path):
    path = tmp_path / "host-host.csv"
    path.write_text("t_ns,load1\n1,0.5\n2,0.25\n3,0.1")
    (series,) = read_series(tmp_path)
    np.testing.assert_array_equal(series.columns["load1"], [0.5, 0.25])
    for content, columns in (("t_ns,lo", []), ("t_ns,load1\n", ["load1"])):
        path.write_text(content)
        (series,) = read_series(tmp_path)
        assert (len(series.t_ns), list(series.columns)) == (0, columns)


@pytest.mark.parametrize(
    "text",
    ["t_ns,load1\n,0.5\n", "t_ns,load1\n1,zebra\n", "time,load1\n1,2\n", "t_ns,load1\n1,2,3\n", "\0\0\n"],
)
def test_invalid_file_is_an_error(tmp_path, text):
    (tmp_path / "host-host.csv").write_text(text)
    with pytest.raises(StoreError, match=r"host-host\.csv"):
        read_series(tmp_path)


def test_write_errors_are_store_errors(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Not a directory"), TelemetryWriter(tmp_path / "file/x"):
        pass
    (tmp_path / "host-host.csv").symlink_to("/dev/full")
    with pytest.raises(StoreError, match="disk is full"), TelemetryWriter(tmp_path) as writer:
        writer.begin("host", {"host": ("load1",)})
