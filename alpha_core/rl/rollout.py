"""Running a policy through episodes in lockstep, and what to remember of them."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from alpha_core.rl.policies import Policy
from alpha_core.rng import philox_uniforms
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
    peak, drawdown = torch.zeros_like(state.pnl_micro), torch.zeros_like(state.pnl_micro)
    counts = torch.zeros(episodes.shape[0], ACTIONS, dtype=torch.int64, device=device)
    one = torch.ones_like(episodes)[:, None]
    equity = []
    for step in range(environment.config.horizon):
        uniforms = _uniforms(policy, seed, episodes, step)
        actions = policy.act(environment.observe(state), cost, environment.action_mask(state), uniforms)
        state, _, _ = environment.step(state, actions)
        counts.scatter_add_(1, actions[:, None], one)
        peak = torch.maximum(peak, state.pnl_micro)
        drawdown = torch.maximum(drawdown, peak - state.pnl_micro)
        if record:
            equity.append(state.pnl_micro)
    return Rollout(
        pnl_micro=state.pnl_micro,
        trades=state.trades,
        fills=state.fills,
        turnover=state.turnover,
        max_drawdown_micro=drawdown,
        lane_actions=counts,
        equity_micro=torch.stack(equity, dim=1) if record else None,
    )


def _uniforms(policy: Policy, seed: int, episodes: Tensor, step: int) -> Tensor:
    """What the policy needs of its stream at this step, [E, n]; nothing is computed for one that draws nothing."""
    if policy.uniforms == 0:
        return torch.empty(episodes.shape[0], 0, device=episodes.device)
    return philox_uniforms(seed, episodes, step, policy.purpose, policy.uniforms)
