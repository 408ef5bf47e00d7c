"""GPUs, engines and images that trials use. Kept free of slow imports."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.protocol import TENSORFLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as described by NVML; None means "not available", never 0."""

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    driver_version: str
    cuda_version: str
    compute_capability: str | None
    power_limit_w: float | None
    power_default_limit_w: float | None
    ecc_enabled: bool | None
    mig_enabled: bool | None
    mig_uuid: str = ""
    pcie_gen: int | None = None
    pcie_width: int | None = None
    clock_max_sm_mhz: int | None = None
    clock_max_mem_mhz: int | None = None
    minor_number: int | None = None  # of /dev/nvidia<minor>

    @property
    def cuda_id(self) -> str:
        """UUID for CUDA and NVML: that of the MIG instance if there is one, else the GPU's."""
        return self.mig_uuid or self.uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """The engine that ran the containers. `isolated` is False for the local engine."""

    name: str
    version: str
    isolated: bool
    rootless: bool | None = None
    cgroup_version: int | None = None
    gpu_access: str = ""  # "toolkit", "cdi", "devices", "host" (not isolated) or ""
    runtimes: tuple[str, ...] = ()  # OCI runtimes registered with the engine
    cdi_folders: tuple[str, ...] = ()  # search paths of CDI specifications


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    """An image used by a run.

    `digest` is the engine's content id. `lock_sha256` is "" for a user's own image. `contents` is a hash of
    files and settings only, independent of when and where the image was built; "" without an image. `sbom_sha256`
    is the hash of sbom-TARGET.cdx.json in the run folder, "" for images that tfbench did not build.
    """

    target: str
    reference: str
    digest: str
    base: str
    lock_sha256: str
    contents: str = ""
    sbom_sha256: str = ""


def target_for(image: str, *, gpu: bool) -> str:
    """Return a family's image target: "cpu" or "cuda" for TensorFlow, else "NAME-cpu" or "NAME-cuda"."""
    kind = "cuda" if gpu else "cpu"
    return kind if image == TENSORFLOW else f"{image}-{kind}"
