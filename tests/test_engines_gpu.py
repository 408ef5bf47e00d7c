"""How GPUs are chosen and handed over, on made-up hosts laid out under a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from psutil import _psutil_linux

from harness.engines.gpu import check_driver, choose_access, select_gpus
from harness.errors import GpuError, UsageError
from harness.model.platform import EngineInfo, Gpu

DRIVER = "580.95.05"
DOCKER = EngineInfo(name="docker", version="28.0", isolated=True, runtimes=("runc",))
H200 = Gpu(
    index=0,
    uuid="GPU-aaaa-0",
    name="NVIDIA H200",
    memory_bytes=150 * 10**9,
    driver_version=DRIVER,
    cuda_version="13.0",
    compute_capability="9.0",
    power_limit_w=700.0,
    power_default_limit_w=700.0,
    ecc_enabled=True,
    mig_enabled=False,
    minor_number=2,
)
SECOND = replace(H200, index=1, uuid="GPU-abbb-1", minor_number=0)
SLICES = tuple(
    replace(H200, index=2, uuid="GPU-cccc-2", mig_enabled=True, mig_uuid=f"MIG-{number}", minor_number=2,
            gpu_instance_id=number + 1, compute_instance_id=0)
    for number in range(2)
)  # fmt: skip
OWN, SYSTEM = "usr/local/nvidia/lib64", "usr/lib/x86_64-linux-gnu"


def put(root: Path, *paths: str, text: str = "") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def put_nodes(root: Path, *minors: int) -> None:
    put(root, "dev/nvidiactl", "dev/nvidia-uvm", *(f"dev/nvidia{minor}" for minor in minors))


def put_libraries(root: Path, folder: str, version: str = DRIVER) -> None:
    for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
        put(root, f"{folder}/{name}.so.{version}")
        (root / folder / f"{name}.so.1").symlink_to(f"{name}.so.{version}")
    put(root, f"{folder}/libnvidia-gpucomp.so.{version}", f"{folder}/libGLX_nvidia.so.{version}")


def access(root: Path, gpus=(H200,), engine: EngineInfo = DOCKER, folder: str = OWN):
    return choose_access(engine, gpus, root=root, libraries=root / folder)


def test_select_by_index_uuid_beginning_and_mig():
    gpus = (H200, SECOND, *SLICES)
    assert select_gpus(gpus, "all") == gpus
    assert select_gpus(gpus, "1,0") == (SECOND, H200)
    assert select_gpus(gpus, " 0, GPU-aaaa-0 ") == (H200,)
    assert select_gpus(gpus, "gpu-ab") == (SECOND,)
    assert select_gpus(gpus, "MIG-1") == (SLICES[1],)


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [
        ("7", "'7' matches no GPU"),
        ("GPU-a", "matches 2 GPUs"),
        ("2", "matches 2 GPUs"),
        ("", "no GPU"),
        ("0,", "''"),
    ],
)
def test_select_tells_what_there_is(wanted, printed):
    with pytest.raises(UsageError) as caught:
        select_gpus((H200, SECOND, *SLICES), wanted)
    assert printed in caught.value.message
    for name in ("GPU-aaaa-0", "GPU-abbb-1", "MIG-0"):
        assert name in caught.value.message


def test_card_in_mig_mode_without_instances_cannot_be_used():
    whole = replace(H200, mig_enabled=True)
    with pytest.raises(UsageError, match="MIG is on"):
        select_gpus((whole,), "0")
    with pytest.raises(UsageError, match="MIG is on"):
        select_gpus((whole,), "all")
    with pytest.raises(UsageError, match="none"):
        select_gpus((), "all")


def test_driver_check_has_the_numbers():
    assert check_driver((H200,)) == ()
    assert check_driver((replace(H200, driver_version="525.60.13"),)) == ()
    with pytest.raises(GpuError, match=r"is 470\.256\.02; .* needs 525\.60\.13"):
        check_driver((H200, replace(H200, driver_version="470.256.02")))
    with pytest.raises(GpuError, match=r"compute capability 5\.2; .* need 6\.0"):
        check_driver((replace(H200, compute_capability="5.2"),))


def test_card_newer_than_the_wheels_is_remarked_on():
    newer = replace(H200, name="NVIDIA B200", compute_capability="10.0")
    (remark,) = check_driver((newer, replace(newer, index=1)))
    assert "compiles for minutes" in remark
    older_driver = check_driver((replace(newer, driver_version="570.10.01"),))
    assert any("575.51.03" in remark for remark in older_driver)


def test_local_process_sees_the_cards_it_is_told(tmp_path):
    got = access(tmp_path, (SECOND, H200), EngineInfo(name="local", version="3", isolated=False))
    assert got.kind == "host"
    assert got.environment["CUDA_VISIBLE_DEVICES"] == "GPU-abbb-1,GPU-aaaa-0"


def test_toolkit_by_runtime_or_hook(tmp_path):
    got = access(tmp_path, engine=replace(DOCKER, runtimes=("nvidia", "runc")))
    assert (got.kind, got.uuids, got.device_nodes, got.mounts) == ("toolkit", ("GPU-aaaa-0",), (), ())
    put(tmp_path, "usr/bin/nvidia-container-runtime-hook")
    assert access(tmp_path).kind == "toolkit"


@pytest.mark.parametrize(
    ("names", "got"),
    [
        (("0", "1", "all"), ("nvidia.com/gpu=0", "nvidia.com/gpu=1")),
        (("GPU-aaaa-0", "GPU-abbb-1", "0", "1"), ("nvidia.com/gpu=GPU-aaaa-0", "nvidia.com/gpu=GPU-abbb-1")),
    ],
)
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_cdi_names_come_from_the_specification(tmp_path, names, got, suffix):
    spec = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": name} for name in names]}
    put(tmp_path, f"etc/cdi/nvidia.{suffix}", text=json.dumps(spec))
    put(tmp_path, "etc/cdi/other.json", text='{"kind": "vendor.com/nic", "devices": [{"name": "0"}]}')
    put(tmp_path, "etc/cdi/broken.yaml", text="{")
    engine = replace(DOCKER, cdi_folders=("/etc/cdi", "/var/run/cdi"))
    chosen = access(tmp_path, (H200, SECOND), engine)
    assert (chosen.kind, chosen.device_nodes) == ("cdi", got)
    assert chosen.environment["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_podman_takes_cdi_before_a_docker_runtime(tmp_path):
    put(tmp_path, "etc/cdi/nvidia.yaml", text="kind: nvidia.com/gpu\ndevices:\n- name: '0'\n")
    podman = replace(DOCKER, name="podman", runtimes=("crun", "nvidia"), cdi_folders=("/etc/cdi",))
    assert access(tmp_path, engine=podman).kind == "cdi"


def test_device_nodes_with_the_driver_s_own_folder(tmp_path):
    put_nodes(tmp_path, 0, 1, 2)
    put_libraries(tmp_path, "usr/local/nvidia/lib64")
    got = access(tmp_path)
    assert got.kind == "devices"
    assert got.device_nodes == ("/dev/nvidia2", "/dev/nvidiactl", "/dev/nvidia-uvm")
    (mount,) = got.mounts
    assert (mount.container, mount.host, mount.read_only) == (str(tmp_path / OWN), tmp_path / OWN, True)
    assert got.environment == {
        "CUDA_VISIBLE_DEVICES": "GPU-aaaa-0",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "LD_LIBRARY_PATH": str(tmp_path / OWN),
    }
    put(tmp_path, "dev/nvidia-uvm-tools")
    both = access(tmp_path, (SECOND, H200))
    assert both.device_nodes[:2] == ("/dev/nvidia0", "/dev/nvidia2")
    assert both.device_nodes[-1] == "/dev/nvidia-uvm-tools"


def test_from_a_system_folder_only_the_driver_s_files_are_mounted(tmp_path):
    put_nodes(tmp_path, 2)
    put_libraries(tmp_path, SYSTEM)
    put(tmp_path, f"{SYSTEM}/libc.so.6", f"{SYSTEM}/libstdc++.so.6")
    got = access(tmp_path, folder=SYSTEM)
    mounted = {mount.container: mount.host for mount in got.mounts}
    folder = "/usr/local/nvidia/lib64"
    assert got.environment["LD_LIBRARY_PATH"] == folder
    assert mounted[f"{folder}/libcuda.so.1"] == tmp_path / SYSTEM / f"libcuda.so.{DRIVER}"
    assert f"{folder}/libnvidia-gpucomp.so.{DRIVER}" in mounted
    assert not any("libc.so" in path or "stdc" in path or "GLX" in path for path in mounted)
    assert all(mount.read_only for mount in got.mounts)


def test_driver_folder_of_links_that_lead_elsewhere_is_mounted_file_by_file(tmp_path):
    put_nodes(tmp_path, 2)
    put_libraries(tmp_path, "opt/real")
    folder = tmp_path / "usr/local/nvidia/lib64"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.1").symlink_to(tmp_path / f"opt/real/libcuda.so.{DRIVER}")
    (mount,) = access(tmp_path).mounts
    assert mount.host == tmp_path / f"opt/real/libcuda.so.{DRIVER}"


def test_the_driver_s_folder_is_the_one_that_the_linker_finds_nvml_in(tmp_path):
    shutil.copy(_psutil_linux.__file__, tmp_path / "libnvidia-ml.so.1")  # any library that can be loaded
    code = "from harness.engines.gpu_files import driver_folder; print(driver_folder())"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path)


def test_every_missing_piece_is_named(tmp_path):
    with pytest.raises(GpuError) as caught:
        access(tmp_path)
    for words in ("no NVIDIA Container Toolkit", "not support CDI", "/dev/nvidia2 is missing"):
        assert words in caught.value.message
    assert "nvidia-modprobe" in caught.value.hint
    with pytest.raises(GpuError, match="which device node is GPU-aaaa-0"):
        access(tmp_path, (replace(H200, minor_number=None),))
    put_nodes(tmp_path, 2)
    (tmp_path / "dev/nvidia-uvm").unlink()
    with pytest.raises(GpuError, match="/dev/nvidia-uvm is missing"):
        access(tmp_path)
    put_nodes(tmp_path, 2)
    put(tmp_path, "etc/cdi/nvidia.yaml", text="kind: nvidia.com/gpu\ndevices:\n- name: '7'\n")
    with pytest.raises(GpuError) as caught:
        access(tmp_path, engine=replace(DOCKER, cdi_folders=("/etc/cdi",)))
    assert "does not name GPU-aaaa-0" in caught.value.message
    assert "no libcuda.so.1" in caught.value.message


def test_mig_instance_gets_its_own_capabilities_only(tmp_path):
    put_nodes(tmp_path, 2)
    put_libraries(tmp_path, "usr/local/nvidia/lib64")
    base = "proc/driver/nvidia/capabilities/gpu2/mig"
    for instance, (gi, ci) in {1: (12, 13), 2: (21, 22)}.items():
        put(tmp_path, f"{base}/gi{instance}/access", text=f"DeviceFileMinor: {gi}\nDeviceFileMode: 292\n")
        put(tmp_path, f"{base}/gi{instance}/ci0/access", text=f"DeviceFileMinor: {ci}\n")
        put(tmp_path, f"dev/nvidia-caps/nvidia-cap{gi}", f"dev/nvidia-caps/nvidia-cap{ci}")
    got = access(tmp_path, (SLICES[1],))
    assert [node for node in got.device_nodes if "caps" in node] == [
        "/dev/nvidia-caps/nvidia-cap21",
        "/dev/nvidia-caps/nvidia-cap22",
    ]
    assert got.uuids == ("MIG-1",)
    assert got.environment["CUDA_VISIBLE_DEVICES"] == "MIG-1"
    with pytest.raises(GpuError, match="no entry under"):
        access(tmp_path, (replace(SLICES[0], gpu_instance_id=9),))


def test_cuda_takes_one_mig_instance_only(tmp_path):
    with pytest.raises(GpuError, match="one MIG instance"):
        access(tmp_path, SLICES, replace(DOCKER, runtimes=("nvidia",)))
