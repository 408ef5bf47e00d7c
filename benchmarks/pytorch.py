"""ResNet-50, GPT-2 and NCCL in PyTorch on this machine's GPUs, for comparison with tfbench on the same ones.

    python -m benchmarks.pytorch train:512:eager train:512:compile gpt2:8:compile all-reduce:256:eager
    python -m benchmarks.pytorch generate:1:compile

Each argument is KIND:BATCH:MODE. `train` is ResNet-50 as in NVIDIA's recipes: channels-last, float16
(automatic mixed precision with gradient scaling), cuDNN autotuning, fused SGD. `gpt2` trains a
decoder of 124 M parameters on sequences of 1,024 tokens as in nanoGPT: bfloat16 autocast, TensorFloat-32 for what
stays float32, fused attention, fused AdamW, the vocabulary padded to a multiple of 128. Both have one batch in GPU
memory. `generate` is greedy generation as in workloads/gpt2-generate: 1.5 B parameters in bfloat16, prompts of 512
tokens and 128 new ones. As in gpt-fast, the cache of keys and values is static and a Python loop replays a compiled
step, captured as a CUDA graph. Its samples are new tokens.
`all-reduce` moves that many MiB a step by NCCL's bus bandwidth, which is then in MiB/s: with two GPUs, a sum
of as much float32. PyTorch and torchvision (for ResNet-50) are not dependencies of this project: install them
separately, and run this right after `tfbench bench` on the same GPU.
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
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit("PyTorch is not installed. Try: pip install torch torchvision.")

WARMUP_STEPS, STEPS_PER_SYNC = 8, 5
WINDOWS, WINDOW_S = 3, 2.0
IMAGE, CLASSES = (3, 224, 224), 1000
# As in workloads/gpt2.
SEQUENCE, LAYERS, WIDTH, HEADS, VOCABULARY, PADDED = 1024, 12, 768, 12, 50257, 50304
# As in workloads/gpt2-generate: layers, width and heads; tokens of a sequence.
LARGEST, PROMPT, NEW_TOKENS = (48, 1600, 25), 512, 128
# Samples of a row of a batch.
SAMPLES = {"generate": NEW_TOKENS}


def main() -> int:
    """Print a JSON line per configuration with its median speed; exit with 1 without a GPU."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("configurations", metavar="KIND:BATCH:MODE", nargs="+", type=_configuration)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU. Check nvidia-smi and install a CUDA build of PyTorch.")
    torch.backends.cudnn.benchmark = True
    for kind, batch, mode in arguments.configurations:
        step = KINDS[kind](batch, compiled=mode == "compile")
        rate = statistics.median(measure(step, batch * SAMPLES.get(kind, 1)))
        row = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
        row |= {"kind": kind, "batch": batch, "mode": mode, "samples_per_s": round(rate, 2)}
        sys.stdout.write(f"{json.dumps(row)}\n")
        sys.stdout.flush()
        del step
        torch.cuda.empty_cache()
    return 0


def _configuration(text: str) -> tuple[str, int, str]:
    kind, _, remainder = text.partition(":")
    batch, _, mode = remainder.partition(":")
    if kind not in KINDS or mode not in ("eager", "compile") or not batch.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND:BATCH:MODE, for example train:512:compile")
    return kind, int(batch), mode


def training(batch: int, *, compiled: bool) -> Callable[[], Any]:
    """Return a function that runs one training step of `batch` images."""
    from torchvision.models import resnet50  # noqa: PLC0415 - GPT-2 does without

    network = resnet50().cuda().to(memory_format=torch.channels_last)
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


class Block(nn.Module):
    """Causal attention and two dense layers, each added to its input."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.count = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def parts(self, x: torch.Tensor) -> torch.Tensor:
        """Return query, key and value, [3, batch, heads, length, size], for [batch, length, width]."""
        parts = self.heads(self.first(x)).view(*x.shape[:2], 3, self.count, -1)
        return parts.permute(2, 0, 3, 1, 4)

    def out(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the output for the input and what attention found, [batch, heads, length, size]."""
        x = x + self.joined(attended.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(functional.gelu(self.wide(self.second(x)), approximate="tanh"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output for [batch, length, width]."""
        query, key, value = self.parts(x)
        return self.out(x, functional.scaled_dot_product_attention(query, key, value, is_causal=True))


class Decoder(nn.Module):
    """GPT-2 whose output matrix is the embedding; returns the mean cross-entropy of the next tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(PADDED, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.blocks, self.last = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss for int64[batch, length]."""
        x = self.last(self.blocks(self.tokens(tokens) + self.positions.weight))
        logits = functional.linear(x, self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gpt2(batch: int, *, compiled: bool) -> Callable[[], Any]:
    """Return a function that runs one training step of `batch` sequences."""
    torch.set_float32_matmul_precision("high")
    network = Decoder().cuda()
    text = torch.randint(0, VOCABULARY, (batch, SEQUENCE + 1), device="cuda")
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    optimizer = torch.optim.AdamW(network.parameters(), 3e-4, weight_decay=0.1, fused=True)
    forward = torch.compile(network) if compiled else network

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(tokens, targets)
        loss.backward()
        optimizer.step()

    return step


class Generator(nn.Module):
    """A decoder of GPT-2's largest size that keeps keys and values of `batch` sequences in a static cache."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        layers, width, heads = LARGEST
        self.tokens, self.positions = nn.Embedding(PADDED, width), nn.Embedding(PROMPT + NEW_TOKENS, width)
        self.blocks, self.last = (
            nn.ModuleList(Block(width, heads) for _ in range(layers)),
            nn.LayerNorm(width),
        )
        shape = (batch, heads, PROMPT + NEW_TOKENS, width // heads)
        # A tensor each: compiled changes of a view copy the whole tensor.
        self.keys, self.values = (
            nn.ParameterList(nn.Parameter(torch.zeros(shape), requires_grad=False) for _ in range(layers))
            for _ in range(2)
        )

    def forward(self, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return the likeliest next token, int64[batch, 1], for int64[batch, length] at the positions `places`."""
        x = self.tokens(tokens) + self.positions(places)
        seen = torch.arange(PROMPT + NEW_TOKENS, device=places.device) <= places[:, None]
        for block, keys, values in zip(self.blocks, self.keys, self.values, strict=True):
            query, key, value = block.parts(x)
            keys.index_copy_(2, places, key)
            values.index_copy_(2, places, value)
            x = block.out(x, functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen))
        logits = functional.linear(self.last(x[:, -1]), self.tokens.weight)
        return logits[:, :VOCABULARY].argmax(-1, keepdim=True)


def generate(batch: int, *, compiled: bool) -> Callable[[], Any]:
    """Return a function that generates for `batch` prompts."""
    with torch.device("cuda"):
        network = Generator(batch).to(torch.bfloat16).eval()
    prompts = torch.randint(0, VOCABULARY, (batch, PROMPT), device="cuda")
    begin = torch.arange(PROMPT, device="cuda")
    token, place = prompts[:, :1].clone(), begin[-1:] + 1

    @torch.no_grad()
    def step() -> None:
        token.copy_(forward(token, place))
        place.add_(1)

    forward = torch.compile(network, fullgraph=True) if compiled else network
    advance = _captured(step) if compiled else step

    @torch.no_grad()
    def run() -> None:
        token.copy_(network(prompts, begin))
        place.fill_(PROMPT)
        for _ in range(NEW_TOKENS - 1):
            advance()

    return run


def _captured(step: Callable[[], None]) -> Callable[[], None]:
    """Return a function that replays a step as a CUDA graph; the step is compiled before."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def all_reduce(mebibytes: int, *, compiled: bool) -> Callable[[], Any]:
    """Return a function that moves `mebibytes` of bus bandwidth; compilation changes nothing."""
    del compiled
    count = torch.cuda.device_count()
    if count < 2:
        sys.exit("An all-reduce takes two GPUs or more.")
    # Bus bandwidth counts 2 (n - 1) / n bytes for each byte of a sum.
    size = (mebibytes << 20) * count // (2 * (count - 1))
    parts = [torch.ones(size // 4, device=f"cuda:{index}") for index in range(count)]
    return lambda: torch.cuda.nccl.all_reduce(parts)


KINDS: dict[str, Callable[..., Callable[[], Any]]] = {
    "train": training,
    "gpt2": gpt2,
    "generate": generate,
    "all-reduce": all_reduce,
}


def measure(step: Callable[[], Any], samples: int) -> list[float]:
    """Return samples/s of each window for a step of `samples`, after a warm-up that includes compilation."""
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
        rates.append(done * samples / (time.monotonic() - began))
    return rates


if __name__ == "__main__":
    sys.exit(main())
