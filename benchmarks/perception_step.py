"""One training step of the perception on an accelerator, beside what else one could run.

    python benchmarks/perception_step.py [--quick]

needs torch with CUDA and triton, nothing else. `ours` is the network as trained: bfloat16 autocast, kernels of
alpha_core/cuda, eagerly and in a CUDA graph. `plain` is the same network on its readable references: eagerly, with
everything but the loop over rows under torch.compile and the loop's cell compiled, and in a CUDA graph. `official` is
`plain` in a graph with the state-space scan of the package mamba_ssm, where that is importable.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import Tensor

import alpha_core.nn.cfc as cfc_module
import alpha_core.nn.mamba2 as mamba_module
from alpha_core.cuda.bce import masked_bce
from alpha_core.cuda.cfc.reference import cfc_loop
from alpha_core.cuda.graphs import Captured, run_beside
from alpha_core.cuda.ssd import chunked
from alpha_core.nn.mamba2 import MambaState
from alpha_core.nn.perception import Architecture, Perception, PerceptionState
from alpha_core.shapes import FEATURES, HORIZONS

T = TypeVar("T")
WEIGHTS = torch.tensor([0.2] * len(HORIZONS))


def medians(step: Callable[[], object], repeats: int) -> float:
    """Median milliseconds of a call, after two more."""
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[repeats // 2]


class Step:
    """Forward, backward, clipping and AdamW on fixed data of one shape."""

    def __init__(self, B: int, T: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.model = Perception(Architecture(), generator=generator).cuda()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=torch.tensor(1e-3), fused=True, capturable=True
        )
        self.data = [
            torch.randn(B, T, FEATURES, generator=generator).cuda(),
            torch.rand(B, T, generator=generator).cuda(),
            (torch.rand(B, T, len(HORIZONS), generator=generator) > 0.5).float().cuda(),
            (torch.rand(B, T, len(HORIZONS), generator=generator) > 0.1).float().cuda(),
            (torch.rand(B, T, generator=generator) < 0.001).cuda(),
        ]
        self.weights = WEIGHTS.cuda()
        self.forward: Callable[..., tuple[Tensor, object]] = self.model

    def __call__(self, x: Tensor, dt: Tensor, up: Tensor, mask: Tensor, reset: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast("cuda", torch.bfloat16):
            logits, _ = self.forward(x, dt, None, reset)
        loss = masked_bce(logits, up, mask, self.weights)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        return (loss.detach(),)

    def eager(self, repeats: int) -> float:
        return medians(lambda: self(*self.data), repeats)

    def graphed(self, repeats: int) -> float:
        for _ in range(3):
            run_beside(self, self.data)
        torch.cuda.synchronize()
        captured = Captured(self, self.data)
        return medians(lambda: captured(*self.data), repeats)


def ssd_chunked(
    x: Tensor, b: Tensor, c: Tensor, delta: Tensor, *, chunk: int, reset: Tensor | None, **rest: Tensor
) -> tuple[Tensor, Tensor]:
    """The scan in chunks in torch calls, differentiated by autograd."""
    y, last, _ = chunked.forward(
        x, b, c, delta, rest["a_log"], rest["d"], rest["state"], reset, chunk, keep=False
    )
    return y, last


def plain() -> None:
    """Put the readable references in the place of the operators."""
    cfc_module.cfc_scan = lambda gates, *rest: cfc_loop(gates.float(), *rest)
    mamba_module.ssd_scan = ssd_chunked


def official() -> bool:
    """Put the package's scan in the place of ours, as it is called: no resets, no state."""
    try:
        from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined
    except ImportError as error:
        print(f"official scan not importable: {error}")
        return False

    def scan(x: Tensor, b: Tensor, c: Tensor, delta: Tensor, **rest: Any) -> tuple[Tensor, Tensor]:
        maps = (v[:, :, None].bfloat16() for v in (b, c))
        y = mamba_chunk_scan_combined(
            x.bfloat16(), delta, -torch.exp(rest["a_log"]), *maps, rest["chunk"], D=rest["d"]
        )
        return y.float(), rest["state"]

    mamba_module.ssd_scan = scan
    return True


def compiled_loop() -> Callable[..., tuple[Tensor, Tensor]]:
    """The plain loop with its cell compiled; compiling the loop unrolled takes longer than it is worth."""

    @torch.compile
    def cell(gates: Tensor, hidden: Tensor, weight: Tensor, dt: Tensor, reset: Tensor) -> Tensor:
        hidden = hidden.masked_fill(reset[:, None], 0.0)
        first, second, offset, slope = (gates + hidden @ weight).chunk(4, dim=-1)
        share = torch.sigmoid(slope * dt[:, None] + offset)
        return torch.tanh(first) * (1 - share) + share * torch.tanh(second)

    @torch.compiler.disable
    def loop(
        gates: Tensor, weight: Tensor, dt: Tensor, state: Tensor, reset: Tensor
    ) -> tuple[Tensor, Tensor]:
        outputs, gates = [], gates.float()
        for t in range(gates.shape[1]):
            state = cell(gates[:, t], state, weight, dt[:, t], reset[:, t])
            outputs.append(state)
        return torch.stack(outputs, dim=1), state

    return loop


def report(shape: tuple[int, int], name: str, measure: Callable[[], float]) -> float:
    began = time.monotonic()
    try:
        figure = measure()
    except (RuntimeError, torch.OutOfMemoryError) as error:
        print(f"B {shape[0]} T {shape[1]} {name}: not measured, {str(error).splitlines()[0]}", flush=True)
        return float("inf")
    print(f"B {shape[0]} T {shape[1]} {name}: {figure:.2f} ms ({time.monotonic() - began:.0f} s)", flush=True)
    return figure


def live(rows: int = 3000) -> None:
    """Milliseconds from a row on the host to its probabilities on the host, one stream, state carried, in a graph."""
    model = Step(1, 1).model.eval()

    @torch.no_grad()
    def step(x: Tensor, dt: Tensor, taps: Tensor, ssm: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
        logits, after = model.step(x, dt, PerceptionState((MambaState(taps, ssm),), hidden))
        return torch.sigmoid(logits), *after.blocks[0], none_is_a_bug(after.hidden)

    block, cell = model.blocks[0], none_is_a_bug(model.cfc)
    state = [*block.initial_state(1), cell.initial_state(1)]
    row = [torch.randn(1, FEATURES).pin_memory(), torch.rand(1).pin_memory()]
    first = [*(v.cuda() for v in row), *state]
    for _ in range(3):
        run_beside(step, first)
    captured, result = Captured(step, first), torch.empty(1, len(HORIZONS)).pin_memory()
    times = []
    for _ in range(rows):
        began = time.perf_counter()
        probabilities, *state = captured(*row, *state)
        result.copy_(probabilities, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        times.append(time.perf_counter() - began)
    times = sorted(times[100:])
    print(
        f"live step: median {1e6 * times[len(times) // 2]:.0f} us, p99 {1e6 * times[int(0.99 * len(times))]:.0f} us"
    )


def none_is_a_bug(value: T | None) -> T:
    assert value is not None
    return value


def both(shape: tuple[int, int], name: str) -> list[float]:
    """Eagerly and in a graph."""
    return [
        report(shape, f"{name}, eager", lambda: Step(*shape).eager(5)),
        report(shape, f"{name}, graph", lambda: Step(*shape).graphed(9)),
    ]


def compiled_step(shape: tuple[int, int]) -> float:
    step = Step(*shape)
    step.forward = torch.compile(step.model)
    return step.eager(3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only ours")
    parser.add_argument("--shapes", nargs="+", default=["64x256", "512x256", "64x1024", "512x1024"])
    options = parser.parse_args()
    shapes = [(int(B), int(T)) for B, T in (text.split("x") for text in options.shapes)]
    live()
    ours = {shape: both(shape, "ours") for shape in shapes}
    if options.quick:
        return
    plain()
    others = {shape: both(shape, "plain") for shape in shapes}
    if official():
        for shape in shapes:
            measure = lambda shape=shape: Step(*shape).graphed(5)  # noqa: E731
            others[shape].append(report(shape, "official scan and plain loop, graph", measure))
    plain()
    cfc_module.cfc_scan = compiled_loop()
    others[shapes[0]].append(report(shapes[0], "plain, compiled", lambda: compiled_step(shapes[0])))
    for shape in shapes:
        own, best = min(ours[shape]), min(others[shape])
        print(f"B {shape[0]} T {shape[1]}: ours {own:.2f} ms, best other {best:.2f} ms, {best / own:.1f} x")


if __name__ == "__main__":
    main()
