"""Running a policy through episodes in lockstep, and what to remember of them."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from alpha_core.cuda.graphs import Repeated
from alpha_core.cuda.philox import uniforms
from alpha_core.rl.policies import Policy
from alpha_core.shapes import ACTIONS, MICRO


class Rules(Protocol):
    """What a rollout asks of an environment's settings."""

    @property
    def horizon(self) -> int:
        """Decisions per episode."""
        ...


class MarketEnvironment(Protocol):
    """What a rollout asks of an environment; states are the environment's own and only passed back.

    A state has [E] int64 attributes pnl_micro (marked PnL, micro-ticks x lots), trades, fills and turnover (lots).
    """

    @property
    def config(self) -> Rules:
        """The rules of an episode."""
        ...

    @property
    def device(self) -> torch.device:
        """Where states live."""
        ...

    def reset(
        self,
        start_rows: Tensor,
        *,
        episode_ids: Tensor,
        cost_micro: Tensor,
        threshold: Tensor,
        fill_mode: int,
        seed: int,
    ) -> Any:
        """States of E new episodes."""
        ...

    def observe(self, state: Any) -> Tensor:
        """[E, 10] float32."""
        ...

    def action_mask(self, state: Any) -> Tensor:
        """[E, 9] bool, legal actions."""
        ...

    def step(self, state: Any, actions: Tensor) -> tuple[Any, Tensor, Tensor]:
        """Next state, [E] float32 change of marked PnL in ticks x lots, [E] bool done."""
        ...


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Results of E episodes, one row each.

    Attributes:
        pnl_micro: [E] int64, terminal PnL, micro-ticks x lots.
        trades: [E] int64.
        fills: [E] int64, executions of resting orders.
        turnover: [E] int64, lots.
        max_drawdown_micro: [E] int64, largest fall of the marked PnL from its peak so far, the start counted as 0.
        lane_actions: [E, 9] int64, how often each action was chosen.
        equity_micro: [E, H] int64, marked PnL after each decision; None unless recorded.
    """

    pnl_micro: Tensor
    trades: Tensor
    fills: Tensor
    turnover: Tensor
    max_drawdown_micro: Tensor
    lane_actions: Tensor
    equity_micro: Tensor | None

    @property
    def action_counts(self) -> Tensor:
        """[9] int64, over all lanes."""
        return self.lane_actions.sum(0)


@torch.inference_mode()
def rollout(
    environment: MarketEnvironment,
    policy: Policy,
    starts: Tensor,
    *,
    episode_ids: Tensor,
    cost_micro: Tensor,
    threshold: Tensor,
    fill_mode: int,
    seed: int,
    record: bool = False,
) -> Rollout:
    """Run E episodes to their end.

    Every draw is a function of (seed, episode, step, purpose), so an episode's result does not depend on the batch it
    is in.

    Args:
        environment: the market.
        policy: who acts.
        starts: [E] int64 rows.
        episode_ids: [E] int64 identities that key the random numbers.
        cost_micro: [E] int64, micro-ticks per lot and side.
        threshold: [E] float32, least |P(up) - 0.5| of an entry.
        fill_mode: of the environment.
        seed: of fills and selection.
        record: keep the marked PnL of every step.
    """
    device = environment.device
    episodes, cost = episode_ids.to(device), cost_micro.to(device).float() / MICRO
    state = environment.reset(
        starts.to(device),
        episode_ids=episodes,
        cost_micro=cost_micro.to(device),
        threshold=threshold.to(device),
        fill_mode=fill_mode,
        seed=seed,
    )
    decide = _Decision(environment=environment, policy=policy, episodes=episodes, cost=cost, seed=seed)
    horizon = environment.config.horizon
    last = Repeated(decide, _first(state, horizon if record else 0)).take(horizon)
    return Rollout(
        pnl_micro=last.state.pnl_micro,
        trades=last.state.trades,
        fills=last.state.fills,
        turnover=last.state.turnover,
        max_drawdown_micro=last.drawdown,
        lane_actions=last.counts,
        equity_micro=last.equity if record else None,
    )


@dataclass(frozen=True, kw_only=True)
class _Decision:
    """One decision of every lane, which turns what a rollout carries into what it carries on."""

    environment: MarketEnvironment
    policy: Policy
    episodes: Tensor
    cost: Tensor
    seed: int

    def __call__(self, now: "_Lanes") -> "_Lanes":
        drawn = _uniforms(self.policy, self.seed, self.episodes, now.step)
        observation, mask = self.environment.observe(now.state), self.environment.action_mask(now.state)
        actions = self.policy.act(observation, self.cost, mask, drawn)
        after, _, _ = self.environment.step(now.state, actions)
        peak = torch.maximum(now.peak, after.pnl_micro)
        if now.equity.shape[1]:
            now.equity.index_copy_(1, now.step, after.pnl_micro[:, None])
        return _Lanes(
            state=after,
            peak=peak,
            drawdown=torch.maximum(now.drawdown, peak - after.pnl_micro),
            counts=now.counts.scatter_add_(1, actions[:, None], torch.ones_like(actions)[:, None]),
            equity=now.equity,
            step=now.step + 1,
        )


@dataclass(frozen=True, kw_only=True)
class _Lanes:
    """What a rollout carries from decision to decision; shapes as in Rollout."""

    state: Any
    peak: Tensor
    drawdown: Tensor
    counts: Tensor
    equity: Tensor
    step: Tensor  # [1] int64, decisions taken


def _first(state: Any, recorded: int) -> _Lanes:
    """Lanes before their first decision, with room for the equity after so many of them."""
    zero = torch.zeros_like(state.pnl_micro)
    lanes = zero.shape[0]
    return _Lanes(
        state=state,
        peak=zero,
        drawdown=zero,
        counts=zero.new_zeros(lanes, ACTIONS),
        equity=zero.new_zeros(lanes, recorded),
        step=zero.new_zeros(1),
    )


def _uniforms(policy: Policy, seed: int, episodes: Tensor, step: Tensor) -> Tensor:
    """What the policy needs of its stream at this step, [E, n]; nothing is computed for one that draws nothing."""
    return uniforms(seed, episodes, step, int(policy.purpose), policy.uniforms)
