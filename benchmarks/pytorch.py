"""ResNet-50 in PyTorch on this machine's GPU, for comparison with the `resnet50` workloads.

    python -m benchmarks.pytorch train:512:eager train:512:compile infer:256:compile

Each argument is KIND:BATCH:MODE. As in NVIDIA's recipes: channels-last, float16 (automatic mixed precision
with gradient scaling for training), cuDNN autotuning, fused SGD, and one batch in GPU memory. PyTorch and
torchvision are not dependencies of this project: install them separately, and run this right after `tfbench
bench` on the same GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

try:
    import torch
    import torchvision
except ImportError:
    sys.exit("PyTorch is not installed. Try: pip install torch torchvision.")

WARMUP_STEPS, STEPS_PER_SYNC = 8, 5
WINDOWS, WINDOW_S = 3, 2.0
IMAGE, CLASSES = (3, 224, 224), 1000


def main() -> int:
    """Print a JSON line per configuration with its median images/s; exit with 1 without a GPU."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "configurations", metavar="KIND:BATCH:MODE", nargs="+", type=_configuration,
        help="train or infer, batch size, eager or compile",
    )  # fmt: skip
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU. Check nvidia-smi and install a CUDA build of PyTorch.")
    torch.backends.cudnn.benchmark = True
    for kind, batch, mode in arguments.configurations:
        step = {"train": training, "infer": inference}[kind](batch, compiled=mode == "compile")
        row = {
            "torch": torch.__version__,
            "gpu": torch.cuda.get_device_name(),
            "kind": kind,
            "batch": batch,
            "mode": mode,
            "images_per_s": round(statistics.median(measure(step, batch)), 1),
        }
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        torch.cuda.empty_cache()
    return 0


def _configuration(text: str) -> tuple[str, int, str]:
    kind, _, remainder = text.partition(":")
    batch, _, mode = remainder.partition(":")
    if kind not in ("train", "infer") or mode not in ("eager", "compile") or not batch.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND:BATCH:MODE, for example train:512:compile")
    return kind, int(batch), mode


def training(batch: int, *, compiled: bool) -> Callable[[], Any]:
    """Return a function that runs one training step of `batch` images."""
    network = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    images = torch.randn(batch, *IMAGE, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (batch,), device="cuda")
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9, fused=True)
    scaler, criterion = torch.amp.GradScaler("cuda"), torch.nn.CrossEntropyLoss()
    forward = torch.compile(network) if compiled else network

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16):
            loss = criterion(forward(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def inference(batch: int, *, compiled: bool) -> Callable[[], Any]:
    """Return a function that runs inference on `batch` images."""
    network = torchvision.models.resnet50().cuda().half().eval().to(memory_format=torch.channels_last)
    images = torch.randn(batch, *IMAGE, device="cuda").half().to(memory_format=torch.channels_last)
    forward = torch.compile(network) if compiled else network
    return torch.inference_mode()(lambda: forward(images))


def measure(step: Callable[[], Any], batch: int) -> list[float]:
    """Return images/s of each window, after a warm-up that includes compilation."""
    for _ in range(WARMUP_STEPS):
        step()
    torch.cuda.synchronize()
    rates = []
    for _ in range(WINDOWS):
        began, done = time.monotonic(), 0
        while time.monotonic() - began < WINDOW_S:
            for _ in range(STEPS_PER_SYNC):
                step()
            torch.cuda.synchronize()
            done += STEPS_PER_SYNC
        rates.append(done * batch / (time.monotonic() - began))
    return rates


if __name__ == "__main__":
    sys.exit(main())
