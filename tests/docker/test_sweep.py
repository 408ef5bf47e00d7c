import signal
from pathlib import Path

import pytest

from harness.model.run import Status
from tests.endtoend import Tfbench, script

pytestmark = pytest.mark.docker

# Allocate and write 3 GiB, more than the limit.
BODY = "hold = b'x' * (3 << 30) if BATCH_SIZE == 128 else None"


def test_sweep_is_resumed_and_out_of_memory_point_is_not_repeated(tmp_path: Path) -> None:
    file = script(tmp_path / "own", "greedy", BODY)
    options = (file, "--memory", "1.5", "--param", "batch_size=32,128", "--trials", "2")
    with Tfbench(folder=tmp_path, engine="docker", arguments=options) as sweep:
        sweep.wait_for(lambda: sweep.trial_started("greedy.cpu.p02.0"))
        sweep.signal(signal.SIGINT)
        code, _, _ = sweep.finish()
    path = sweep.run_path
    assert code == 130
    assert sweep.statuses["greedy.cpu.p01.0"] is Status.OK
    assert sweep.results()["sweeps"][0]["points"][0]["throughput"]
    record = (path / "trials/greedy.cpu.p01.0/trial.json").read_bytes()
    with Tfbench(folder=tmp_path, engine="docker", arguments=("--resume", path)) as resumed:
        code, out, err = resumed.finish()
    assert code == 0, err
    assert (path / "trials/greedy.cpu.p01.0/trial.json").read_bytes() == record
    assert "greedy.cpu.p02.1" not in resumed.statuses, "no further trial after out of memory"
    (result,) = resumed.results()["sweeps"]
    assert result["best"]["point"] == [["BATCH_SIZE", 32]]
    assert [point["status"] for point in result["points"]] == ["ok", "out-of-memory"]
    assert result["points"][0]["throughput"]["n"] == 2
    assert "out of memory" in out
    assert 'id="figure-sweep-1"' in (path / "report.html").read_text(encoding="utf-8")
