"""Captured work gives the bits of work that is launched call by call."""

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs an accelerator: run `make test-gpu` on one"
    ),
]


def trained(captured: bool, updates: int = 8) -> list[torch.Tensor]:
    """Weights after some updates on data that differ each time."""
    from alpha_core.cuda.graphs import Captured, run_beside
    from alpha_core.nn.perception import Architecture, Perception

    generator = torch.Generator().manual_seed(3)
    model = Perception(Architecture(hidden=64, layers=1), generator=generator).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-2), fused=True, capturable=True)

    def step(x, dt):
        with torch.autocast("cuda", torch.bfloat16):
            logits, _ = model(x, dt)
        loss = logits.float().square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return (loss.detach(),)

    graph = None
    for update in range(updates):
        data = [
            torch.randn(4, 40, 40, generator=generator).cuda(),
            torch.rand(4, 40, generator=generator).cuda(),
        ]
        if not captured or update < 3:
            run_beside(step, data)
        else:
            graph = graph or Captured(step, data)
            graph(*data)
    return [p.detach().clone() for p in model.parameters()]


def test_captured_training_step_has_the_same_bits():
    assert all(
        torch.equal(a, b) for a, b in zip(trained(captured=False), trained(captured=True), strict=True)
    )


def test_arguments_of_another_shape_are_refused():
    from alpha_core.cuda.graphs import Captured, run_beside

    def double(x):
        return (2 * x,)

    x = torch.ones(3, device="cuda")
    run_beside(double, [x])
    graph = Captured(double, [x])
    assert graph(torch.full((3,), 4.0, device="cuda"))[0].tolist() == [8.0] * 3
    with pytest.raises(ValueError, match="argument 0"):
        graph(torch.ones(4, device="cuda"))


def test_first_shapes_are_recorded_after_a_few_calls_and_others_are_launched():
    from alpha_core.cuda.graphs import Replayed

    launched = []

    def double(x):
        launched.append(len(x))
        return (2 * x,)

    replayed = Replayed(double, on=True)
    for value in range(8):
        for n in (3, 2):
            x = torch.full((n,), float(value), device="cuda")
            assert replayed(x)[0].tolist() == [2.0 * value] * n
    assert launched.count(3) == Replayed.WARM + 1
    assert launched.count(2) == 8


def test_recording_bears_other_threads_that_copy_and_allocate():
    import threading

    from alpha_core.cuda.graphs import Captured, run_beside

    done = threading.Event()

    def busy():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            size = 1
            while not done.is_set():
                size = size % 64 + 1
                torch.ones(size << 16).pin_memory().to("cuda", non_blocking=True)
                torch.cuda.synchronize() if size == 1 else stream.synchronize()

    def slow(x):
        for _ in range(2000):
            x = x + 1
        return (x,)

    x = torch.zeros(3, device="cuda")
    run_beside(slow, [x])
    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            assert Captured(slow, [x])(x)[0].tolist() == [2000.0] * 3
    finally:
        done.set()
        thread.join()
