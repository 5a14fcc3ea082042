"""The step in one launch, compiled for the host where there is a compiler: the bits of the environment's own rules.

A kernel's source is C++ in which a thread is a lane, so a loop over threads runs it anywhere. What only a device can
show, that the same holds there and in a graph, is in test_market_gpu.
"""

import ctypes
import shutil
import subprocess
from dataclasses import fields

import numpy as np
import pytest
import torch
from market_synthetic import chosen, random_market, settings, some_fill_model

from alpha_core.cuda.market import step as launcher
from alpha_core.cuda.philox import op as philox
from alpha_core.market.config import FillMode, MarketConfig
from alpha_core.market.environment import Environment
from alpha_core.market.episodes import episode_starts
from alpha_core.market.fused import FusedStep
from alpha_core.market.state import EnvState
from alpha_core.rng import Purpose, philox_uniforms

PRELUDE = """
#define __device__ static
#define __forceinline__ inline
#define __global__
struct Place { int x; };
static Place blockIdx, blockDim, threadIdx;
"""

DRIVER = """
extern "C" void launch(int blocks, int threads, void **p) {{
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {call};
}}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """Stands for `alpha_core.cuda.nvrtc.compiled`: the same sources and definitions, built by the C++ compiler."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler: install one to test the kernels' rules without a GPU")
    folder, built = tmp_path_factory.mktemp("kernels"), {}

    def compiled(sources, kernel, shared_bytes, **defines):
        del shared_bytes
        key = (sources, kernel, *sorted(defines.items()))
        if key not in built:
            built[key] = build(sources, kernel, defines, folder / f"{len(built)}", compiler)
        return built[key]

    return compiled


def build(sources, kernel, defines, path, compiler):
    text = "".join(source.read_text() for source in sources)
    head = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    parameters = text[text.index(f"void {kernel}(") :].partition("(")[2].partition(")")[0].split(",")
    casts = [
        f"({p.rpartition('*')[0]}*)p[{i}]" if "*" in p else f"*({p.strip().rpartition(' ')[0]}*)p[{i}]"
        for i, p in enumerate(parameters)
    ]
    driver = DRIVER.format(call=f"{kernel}({', '.join(casts)})")
    path.with_suffix(".cpp").write_text(head + PRELUDE + text + driver)
    flags = ["-O1", "-shared", "-fPIC", "-ffp-contract=off", "-o", f"{path}.so"]
    subprocess.run([compiler, *flags, f"{path}.cpp"], check=True, capture_output=True, text=True)
    library = ctypes.CDLL(f"{path}.so")

    def run(*, grid, block, args):
        held = [ctypes.c_uint(v & 0xFFFFFFFF) if isinstance(v, int) else v for v in args]
        places = [ctypes.addressof(v) if isinstance(v, ctypes.c_uint) else v.data_ptr() for v in held]
        library.launch(grid[0], block[0], (ctypes.c_void_p * len(places))(*places))

    return run


@pytest.mark.parametrize("mode", list(FillMode))
@pytest.mark.parametrize(
    "config",
    [
        MarketConfig(horizon=30),
        MarketConfig(horizon=30, latency=0, order_size=3, position_limit=9, post_only=False),
        MarketConfig(horizon=30, latency=2, order_size=2, position_limit=5, cancel_ahead_share=0.7),
        MarketConfig(horizon=30, latency=4, order_size=30, position_limit=40, post_only=False),
    ],
    ids=["plain", "at_once", "late", "deep"],
)
def test_every_number_of_every_step_is_that_of_the_rules(host, monkeypatch, config, mode):
    monkeypatch.setattr(launcher, "compiled", host)
    data = random_market(700, seed=31)
    starts = episode_starts(data.segment, config.horizon, config.latency, stride=1)
    environment = Environment(data, config, some_fill_model())
    fused = FusedStep(environment.tables, config, environment._depth)
    own = environment.reset(**settings(starts, 400, 1), fill_mode=mode, seed=2**63 - 5)
    other = fused.entered(own, environment.observe(own))
    for step, actions in enumerate(chosen(np.random.default_rng(2), config.horizon + 2, 400)):
        own, *told = environment.step(own, actions)
        other, *heard = fused(other, actions)
        for name, a, b in zip(("reward", "done"), told, heard, strict=True):
            assert torch.equal(a, b), f"{name} at step {step}"
        assert torch.equal(environment.observe(own), other.seen), f"observation at step {step}"
        for name, a, b in numbers(own, other):
            assert torch.equal(a, b), f"{name} at step {step}"
    assert own.trades.sum() > 0


def numbers(own: EnvState, other: EnvState):
    """All that a state holds, by name."""
    for field in fields(EnvState):
        a, b = getattr(own, field.name), getattr(other, field.name)
        if isinstance(a, torch.Tensor):
            yield field.name, a, b
        elif field.name in ("account", "order", "pending"):
            for part in a.__slots__:
                yield f"{field.name}.{part}", getattr(a, part), getattr(b, part)


@pytest.mark.parametrize("seed", [0, 5, 2**63 - 1, 2**40 + 3])
def test_uniforms_are_those_of_the_generator(host, seed):
    episode = torch.arange(300) * 0x1234567891
    step = torch.tensor([77])
    out = torch.empty(300, 9)
    run = host(philox.SOURCES, "philox_uniforms", 0)
    words = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    run(grid=(2, 1, 1), block=(256, 1, 1), args=[episode, step, out, int(Purpose.THOMPSON), 9, 300, *words])
    assert torch.equal(out, philox_uniforms(seed, episode, 77, Purpose.THOMPSON, 9))
    assert torch.equal(out, philox.uniforms(seed, episode, step, int(Purpose.THOMPSON), 9))
