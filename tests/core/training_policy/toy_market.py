"""A tiny market with the environment's interface: one-tick spread, a trending signal seen through a noisy logit."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from alpha_core.rng import Purpose, philox_uniform
from alpha_core.shapes import ACTIONS, MICRO, OBSERVATIONS


@dataclass(frozen=True)
class ToyConfig:
    horizon: int = 600
    limit: int = 1
    passive_fill: float = 0.03


@dataclass(frozen=True)
class ToyState:
    row: Tensor
    step: int
    position: Tensor
    cash_micro: Tensor
    pnl_micro: Tensor
    trades: Tensor
    fills: Tensor
    turnover: Tensor
    resting: Tensor  # +1 bid, -1 ask, 0 none
    resting_mid2: Tensor
    entry_mid2: Tensor
    episode: Tensor
    cost_micro: Tensor
    threshold: Tensor
    seed: int


def planted_prices(
    rows: int, *, strength: float, seed: int, persistence: float = 0.98, moves: float = 0.05
) -> tuple[Tensor, Tensor]:
    """Mid in half ticks (steps of one tick) whose drift follows an AR(1) signal, and the logit that shows it.

    strength: expected ticks per row at one standard deviation of the signal.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(rows, generator=generator, dtype=torch.float64)
    signal = torch.empty(rows, dtype=torch.float64)
    value = 0.0
    scale = (1 - persistence**2) ** 0.5
    for i, e in enumerate(noise.tolist()):
        value = persistence * value + scale * e
        signal[i] = value
    drift = strength * signal
    up = (moves + drift / 2).clamp(0, 0.5)
    down = (moves - drift / 2).clamp(0, 0.5)
    u = torch.rand(rows, generator=generator, dtype=torch.float64)
    change = (u < up).long() - (u > 1 - down).long()
    mid2 = 2001 + 2 * torch.cat([torch.zeros(1, dtype=torch.long), change[:-1].cumsum(0)])
    # Expected move over the signal's life against the noise of the same time, as a probability's logit.
    life = 1 / (1 - persistence)
    logit = 1.7 * drift * life / (2 * moves * life) ** 0.5
    return mid2, logit.float()


class ToyEnvironment:
    """See the module; actions, observation, money and masks as in the market environment."""

    def __init__(self, mid2: Tensor, alpha: Tensor, config: ToyConfig = ToyConfig()) -> None:
        self.mid2, self.alpha, self.config = mid2, alpha, config
        self.device = torch.device("cpu")

    def reset(
        self,
        start_rows: Tensor,
        *,
        episode_ids: Tensor,
        cost_micro: Tensor,
        threshold: Tensor,
        fill_mode: int,
        seed: int = 0,
    ) -> ToyState:
        zeros = torch.zeros_like(start_rows)
        return ToyState(
            start_rows,
            0,
            zeros,
            zeros,
            zeros,
            zeros,
            zeros,
            zeros,
            zeros,
            zeros,
            zeros,
            episode_ids,
            cost_micro,
            threshold,
            seed,
        )

    def observe(self, s: ToyState) -> Tensor:
        out = torch.zeros(s.row.shape[0], OBSERVATIONS)
        out[:, 0] = self.alpha[s.row]
        out[:, 1] = 1.0
        out[:, 2] = s.position / self.config.limit
        out[:, 3] = s.position * (self.mid2[s.row] - s.entry_mid2) / 20
        out[:, 4] = 1 - s.step / self.config.horizon
        out[:, 8] = s.resting.float()
        return out

    def action_mask(self, s: ToyState) -> Tensor:
        can_buy, can_sell = s.position < self.config.limit, s.position > -self.config.limit
        free, yes = s.resting == 0, torch.ones_like(s.row, dtype=torch.bool)
        edge = torch.sigmoid(self.alpha[s.row]) - 0.5
        buy = can_buy & ((s.position < 0) | (edge >= s.threshold))
        sell = can_sell & ((s.position > 0) | (-edge >= s.threshold))
        no = ~yes
        return torch.stack([yes, buy, sell, buy & free, sell & free, no, no, ~free, s.position != 0], dim=-1)

    def step(self, s: ToyState, actions: Tensor) -> tuple[ToyState, Tensor, Tensor]:
        legal = self.action_mask(s).gather(1, actions[:, None]).squeeze(1)
        a = torch.where(legal, actions, 0)
        row, step = s.row + 1, s.step + 1
        mid2 = self.mid2[row]
        done = step >= self.config.horizon
        # Orders resting before this decision meet the move of the interval first.
        u = philox_uniform(s.seed, s.episode, s.step, Purpose.FILL)
        through = torch.where(s.resting > 0, mid2 < s.resting_mid2, mid2 > s.resting_mid2)
        hit = (s.resting != 0) & (through | ((mid2 == s.resting_mid2) & (u < self.config.passive_fill)))
        passive = torch.where(hit, s.resting, 0)
        room = (s.position + passive).abs() <= self.config.limit
        passive = torch.where(room, passive, 0)
        position = s.position + passive
        # A bid at the touch rests half a tick (one half tick of mid2) below the mid it was placed at.
        cash = s.cash_micro - passive * (s.resting_mid2 - passive) * (MICRO // 2)
        market = (a == 1).long() - (a == 2).long() - torch.where(a == 8, position.sign() * position.abs(), 0)
        market = torch.where((position + market).abs() <= self.config.limit, market, 0)
        position = position + market
        cash = cash - (market * mid2 + market.abs()) * (MICRO // 2)
        resting = torch.where(hit | (a == 7), 0, s.resting)
        joins = (a == 3).long() - (a == 4).long()
        resting_mid2 = torch.where(joins != 0, mid2, s.resting_mid2)
        resting = torch.where(joins != 0, joins, resting)
        lots = passive.abs() + market.abs()
        if done:
            cash = cash + (position * mid2 - position.abs()) * (MICRO // 2)
            lots = lots + position.abs()
            position = torch.zeros_like(position)
        cash = cash - lots * s.cost_micro
        pnl = cash + position * mid2 * (MICRO // 2)
        opened = (s.position.sign() != position.sign()) & (position != 0)
        new = replace(
            s, row=row, step=step, position=position, cash_micro=cash, pnl_micro=pnl,
            trades=s.trades + (lots > 0), fills=s.fills + (passive != 0), turnover=s.turnover + lots,
            resting=resting, resting_mid2=resting_mid2,
            entry_mid2=torch.where(opened, mid2, s.entry_mid2),
        )  # fmt: skip
        reward = (pnl - s.pnl_micro).float() / MICRO
        return new, reward, torch.full_like(row, done, dtype=torch.bool)


assert ACTIONS == 9
