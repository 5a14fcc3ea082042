"""The environment's step in one launch: a state goes in as it is and comes back as views of what was written."""

from dataclasses import replace

import torch
from torch import Tensor

from alpha_core.cuda.market.step import Stepped, StepRules, market_step
from alpha_core.market.accounting import Account
from alpha_core.market.config import MarketConfig
from alpha_core.market.fills import FILL_LEVELS
from alpha_core.market.matching import RestingOrder
from alpha_core.market.observation import unrealised_scale
from alpha_core.market.state import EnvState, Pending
from alpha_core.market.tables import MarketTables

_ACCOUNT = ("position", "cash_micro", "basis_micro", "trades", "fills", "turnover")
_ORDER = ("side", "price", "left", "queue", "level", "priority")


class FusedStep:
    """`Environment.step` for a CUDA device, bit for bit.

    Args:
        tables: the market.
        config: the rules.
        depth: levels that the largest order can reach into.
    """

    def __init__(self, tables: MarketTables, config: MarketConfig, depth: int) -> None:
        t = tables
        self._tables = (t.quote, t.ladder, t.flow, t.view, t.edge, t.hazard, t.queue_factor, t.waiting)
        self._config, self._depth = config, depth

    def entered(self, state: EnvState, seen: Tensor) -> EnvState:
        """A first state in the form that steps leave behind, with its observation."""
        return replace(_unpacked(state, _numbers(state)), seen=seen)

    def __call__(self, state: EnvState, actions: Tensor) -> tuple[EnvState, Tensor, Tensor]:
        """See `Environment.step`."""
        after = market_step(
            self._tables,
            self._rules(state.fill_mode),
            numbers=_numbers(state) if state.packed is None else state.packed,
            flight=torch.cat((state.pending.action, state.pending.price)),
            episode=state.episode,
            cost_micro=state.cost_micro,
            threshold=state.threshold,
            mask=state.mask,
            actions=actions,
            seed=state.seed,
        )
        return _state(state, after), after.reward, after.done

    def _rules(self, mode: int) -> StepRules:
        c = self._config
        return StepRules(
            horizon=c.horizon,
            latency=c.latency,
            order_size=c.order_size,
            position_limit=c.position_limit,
            post_only=c.post_only,
            share_milli=c.cancel_share_milli,
            depth=self._depth,
            fill_levels=FILL_LEVELS,
            mode=mode,
            position_scale=1.0 / c.position_limit,
            unrealised_scale=unrealised_scale(c),
            time_scale=1.0 / c.horizon,
        )


def _numbers(state: EnvState) -> Tensor:
    """[15, E], see `alpha_core.cuda.market.step.NUMBERS`."""
    account = [getattr(state.account, name) for name in _ACCOUNT]
    order = [getattr(state.order, name) for name in _ORDER]
    return torch.stack([state.row, state.step, *account, *order, state.pnl_micro])


def _unpacked(state: EnvState, numbers: Tensor) -> EnvState:
    row, step, *rest, pnl = numbers.unbind()
    return replace(
        state,
        row=row,
        step=step,
        account=Account(**dict(zip(_ACCOUNT, rest[:6], strict=True))),
        order=RestingOrder(**dict(zip(_ORDER, rest[6:], strict=True))),
        pnl_micro=pnl,
        packed=numbers,
    )


def _state(before: EnvState, after: Stepped) -> EnvState:
    waiting = after.flight.shape[0] // 2
    return replace(
        _unpacked(before, after.numbers),
        pending=Pending(action=after.flight[:waiting], price=after.flight[waiting:]),
        quotes=after.quotes,
        mask=after.mask,
        seen=after.seen,
    )
