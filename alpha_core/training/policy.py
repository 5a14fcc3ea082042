"""Fitting the execution policy: Munchausen-C51 over the batched environment."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from alpha_core.control import kill_criteria
from alpha_core.control.bus import SignalBus
from alpha_core.errors import CheckpointError, DataError
from alpha_core.market.config import FillMode
from alpha_core.nn.q_networks import QNetwork
from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.policies import QPolicy
from alpha_core.rl.replay import PrioritisedReplay, ReplayBuffer, Transitions
from alpha_core.rl.rollout import MarketEnvironment
from alpha_core.rng import Purpose, generator_for
from alpha_core.training.checkpoint import part
from alpha_core.training.experience import Sweep, collect, draw_episodes
from alpha_core.training.learner import Learner, Scale, derive_scale
from alpha_core.training.resume import KeptState, Resume, numerics

KIND = "policy-training"
_STREAMS = ("_start", "_explore", "_draw")

SPREAD_BATCH = 4096
"""Transitions on which the spread of action values is measured."""


@dataclass(frozen=True, kw_only=True)
class PolicyFit:
    """A trained policy and how its training went.

    Attributes:
        network: action values in ticks x lots.
        config: settings it was trained with.
        scale: support and reward unit at the end.
        history: figures by sweep, in order.
        verdicts: the kill criteria, smoothed over sweeps.
        bus: signals at the end.
        seed: root of every random stream.
    """

    network: QNetwork
    config: PolicyConfig
    scale: Scale
    history: tuple[dict[str, float], ...]
    verdicts: tuple[kill_criteria.Verdict, ...]
    bus: SignalBus
    seed: int

    @property
    def policy(self) -> QPolicy:
        """The policy that acts as configured, greedily or by Thompson draws."""
        return QPolicy.configured(self.network, self.config)


def fit_policy(
    environment: MarketEnvironment,
    starts: Tensor,
    config: PolicyConfig,
    *,
    baseline_mean: float,
    baseline_std: float,
    seed: int,
    device: str = "cpu",
    on_log: Callable[[dict[str, float]], None] | None = None,
    resume: Resume | None = None,
) -> PolicyFit:
    """Train a policy: sweeps of experience, each followed by gradient steps on replayed transitions.

    Args:
        environment: the market, with its perception's alpha in place.
        starts: [n] int64 rows from which an episode lies inside one segment; may overlap.
        config: settings.
        baseline_mean: mean PnL of a random episode, ticks x lots.
        baseline_std: its standard deviation.
        seed: root of every random stream; equal seeds give equal weights on one device.
        device: where the networks live, that of the environment.
        on_log: called after each sweep with its figures; not again for sweeps that a resumed run had done before.
        resume: where the run keeps its state after each sweep, from which the same call goes on after a kill with the
            same result.

    Raises:
        DataError: no starts, a baseline without spread, or a loss that is not finite.
    """
    if starts.numel() == 0:
        raise DataError(
            "policy: starts were empty, must hold at least one row: use longer days or a shorter horizon"
        )
    scale = derive_scale(config, baseline_std, environment.config.horizon)
    training = _Training(environment, starts.to(device), config, scale, seed, device)
    kept = None if resume is None else KeptState(resume, training.identity(baseline_mean, baseline_std))
    if kept is not None:
        training.go_on(kept)
    while len(training.history) < config.sweeps:
        figures = training.run(len(training.history), baseline_mean, baseline_std)
        training.history.append(figures)
        if kept is not None:
            kept.save(*training.snapshot(), f"sweep {len(training.history)}")
        if on_log is not None:
            on_log(figures)
    learner = training.learner
    return PolicyFit(
        network=learner.online.requires_grad_(False),
        config=config,
        scale=learner.scale,
        history=tuple(training.history),
        verdicts=tuple(training.verdicts),
        bus=training.bus,
        seed=seed,
    )


def _replay(config: PolicyConfig, device: str) -> ReplayBuffer:
    if config.replay_kind == "prioritised":
        return PrioritisedReplay(config.replay, alpha=config.priority_alpha, device=device)
    return ReplayBuffer(config.replay, device=device)


class _Training:
    """What one fit carries from sweep to sweep."""

    def __init__(
        self,
        environment: MarketEnvironment,
        starts: Tensor,
        config: PolicyConfig,
        scale: Scale,
        seed: int,
        device: str,
    ) -> None:
        self.environment, self.starts, self.config, self.seed = environment, starts, config, seed
        generator = generator_for(seed, Purpose.INITIALISE)
        self.learner = Learner(config, scale, config.sweeps * config.updates, generator, device)
        self.initial = [p.detach().clone() for p in self.learner.online.parameters()]
        self.replay = _replay(config, device)
        self.bus = SignalBus.initial(device=device)
        self.verdicts: list[kill_criteria.Verdict] = []
        self.history: list[dict[str, float]] = []
        self._start, self._explore, self._draw = (
            generator_for(seed, purpose) for purpose in (Purpose.START, Purpose.EXPLORE, Purpose.REPLAY)
        )

    def identity(self, baseline_mean: float, baseline_std: float) -> dict[str, Any]:
        """What the result depends on; of the market, what lanes see at every start."""
        flat = torch.zeros_like(self.starts)
        state = self.environment.reset(
            self.starts,
            episode_ids=flat,
            cost_micro=flat,
            threshold=flat.float(),
            fill_mode=FillMode[self.config.fill_mode.upper()],
            seed=self.seed,
        )
        seen = hashlib.sha256(self.environment.observe(state).cpu().numpy().tobytes())
        seen.update(self.starts.cpu().numpy().tobytes())
        return {
            "policy settings": json.dumps(asdict(self.config)),
            "seed": self.seed,
            "market": seen.hexdigest(),
            "baseline": [baseline_mean, baseline_std],
            **numerics(self.environment.device),
        }

    def snapshot(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which `go_on` continues with the same bits."""
        tensors = self.learner.tensors() | {f"replay.{n}": v for n, v in self.replay.tensors().items()}
        tensors["bus"] = self.bus.values
        for name in _STREAMS:
            tensors[f"generator.{name}"] = getattr(self, name).get_state()
        document = {
            "kind": KIND,
            "taken": self.learner.taken,
            "scale": asdict(self.learner.scale),
            "history": self.history,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
        }
        return tensors, document

    def go_on(self, kept: KeptState) -> None:
        """Continue where `snapshot` was taken; a state of another run is left aside, and that is told."""
        found = kept.load()
        if found is None:
            return
        tensors, document = found
        if document.get("kind") != KIND:
            kept.begin_anew(CheckpointError(f"it holds a '{document.get('kind')}', must be a '{KIND}'"))
            return
        self.learner.restore(tensors, document["taken"], Scale(**document["scale"]))
        self.replay.restore(part(tensors, "replay."))
        self.bus = SignalBus(tensors["bus"].to(self.bus.values.device))
        for name in _STREAMS:
            getattr(self, name).set_state(tensors[f"generator.{name}"])
        self.history = document["history"]
        self.verdicts = [kill_criteria.Verdict(**verdict) for verdict in document["verdicts"]]
        kept.goes_on(f"sweep {len(self.history)}")

    def run(self, sweep: int, baseline_mean: float, baseline_std: float) -> dict[str, float]:
        """Collect, learn, measure."""
        experience = self._collect(sweep)
        if sweep == 0:
            self._standardise(experience.transitions)
        self.replay.add(experience.transitions)
        figures = {
            "sweep": float(sweep),
            "pnl_ticks": float(experience.pnl.mean()),
            **self._learn(sweep),
            "half_width": self.learner.scale.half_width,
        }
        self._widen(figures["edge_mass"])
        judged = self._judge(experience, baseline_mean, baseline_std)
        # The first sweep knows no policy, so its returns and actions judge none.
        if sweep > 0 or self.config.sweeps == 1:
            self.bus, self.verdicts = kill_criteria.observe(self.bus, judged)
        return figures | judged

    def _collect(self, sweep: int) -> Sweep:
        return collect(
            self.environment,
            draw_episodes(self.starts, self.config, sweep, self._start),
            None if sweep == 0 else QPolicy(self.learner.online, mirror=self.config.mirror),
            self.config,
            fill_mode=FillMode[self.config.fill_mode.upper()],
            seed=self.seed,
            generator=self._explore,
        )

    def _standardise(self, first: Transitions) -> None:
        """Fix the input scaling to the first sweep's experience."""
        inputs = torch.cat((first.observation_tm1, first.cost[:, None]), dim=-1).double()
        center = inputs.mean(0)
        spread = (inputs - center).square().mean(0).sqrt()
        self.learner.set_inputs(center.float(), torch.where(spread > 0, spread, 1.0).float())

    def _learn(self, sweep: int) -> dict[str, float]:
        """All gradient steps of a sweep; figures are means over its second half."""
        steps = [self._step() for _ in range(self.config.updates)]
        late = steps[len(steps) // 2 :]
        figures = {name: float(torch.stack([step[name] for step in late]).mean()) for name in late[0]}
        for name, value in figures.items():
            if not math.isfinite(value):
                raise DataError(
                    f"policy training: {name} was {value} in sweep {sweep}, must be finite: lower learning_rate "
                    f"(was {self.config.learning_rate}) or check the observations"
                )
        return figures

    def _step(self) -> dict[str, Tensor]:
        """One gradient step; the weights undo more of the draw's preference the nearer the end is."""
        start = self.config.priority_beta
        drawn = self.replay.draw(self.config.batch, self._draw, start + (1 - start) * self.learner.progress)
        figures, losses = self.learner.update(drawn.transitions, drawn.weights)
        self.replay.learned(drawn.places, losses)
        return figures

    def _widen(self, edge_mass: float) -> None:
        """Give the targets room once too much of their mass lies on the ends of the support."""
        if edge_mass > self.config.edge_mass:
            self.learner.widen(self.config.widening)

    def _judge(self, experience: Sweep, baseline_mean: float, baseline_std: float) -> dict[str, float]:
        count = min(SPREAD_BATCH, experience.transitions.a_tm1.shape[0])
        sample = self.replay.sample(count, self._draw)
        # Replayed states are canonical already where the mirror is on; turning them again would change nothing.
        policy = QPolicy(self.learner.online, mirror=False)
        q_values, _ = policy.values(sample.observation_tm1, sample.cost)
        now = [p.detach() for p in self.learner.online.parameters()]
        figures = {
            "q_spread": kill_criteria.q_spread(q_values, sample.legal_tm1),
            "action_entropy": kill_criteria.action_entropy(experience.drawn),
            "return_vs_random": kill_criteria.return_vs_random(
                experience.pnl.mean(), baseline_mean, baseline_std
            ),
            "early_q_movement": kill_criteria.early_q_movement(self.initial, now),
        }
        return {name: float(value) for name, value in figures.items()}
