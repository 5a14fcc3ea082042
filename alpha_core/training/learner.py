"""One gradient step of Munchausen learning, distributional or not, and the support it learns on."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from alpha_core.errors import DataError
from alpha_core.nn.q_networks import C51Network, make_q_network
from alpha_core.rl import categorical, munchausen
from alpha_core.rl.config import PolicyConfig
from alpha_core.rl.replay import Transitions
from alpha_core.training.checkpoint import load_weights, part, restore_optimizer


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How returns in ticks become numbers of the learner.

    Attributes:
        half_width: half width of the support, ticks.
        unit: ticks that count as 1; rewards and Munchausen settings are in these.
    """

    half_width: float
    unit: float


def derive_scale(config: PolicyConfig, baseline_std: float, horizon: int) -> Scale:
    """Support and reward unit from the random baseline's spread.

    An episode's return spreads by sd over H decisions; discounted it spreads by
    sd sqrt((1 - g^2H) / ((1 - g^2) H)) when increments are alike. The support is centred on 0, the return of
    never trading, because the values it must hold are those of acting well from now on, not of acting at
    random: the baseline's mean, which is mostly costs, is no guide.

    Raises:
        DataError: the baseline has no spread.
    """
    if not (math.isfinite(baseline_std) and baseline_std > 0):
        raise DataError(
            f"random baseline: standard deviation was {baseline_std} ticks, must be positive: run the baseline "
            "on a market that moves"
        )
    g2 = config.discount**2
    decisions = horizon if g2 == 1 else (1 - g2**horizon) / (1 - g2)
    half_width = config.support_deviations * baseline_std * math.sqrt(decisions / horizon)
    return Scale(half_width=half_width, unit=config.reward_unit or half_width / 20)


class Learner:
    """Online and target network, optimiser, and the number of steps taken.

    Args:
        config: settings.
        scale: support and reward unit.
        steps: gradient steps planned, for annealing.
        generator: source of the initial weights.
        device: where the networks live.
    """

    def __init__(
        self, config: PolicyConfig, scale: Scale, steps: int, generator: torch.Generator, device: str
    ) -> None:
        self.config, self.scale, self.steps = config, scale, steps
        self.taken = 0
        sizes = {"hidden": config.hidden, "atoms": config.atoms}
        self.online = make_q_network(config.network, **sizes, generator=generator).to(device)
        self.target = make_q_network(config.network, **sizes, generator=generator).to(device)
        self._set_support(scale.half_width)
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.optimiser = torch.optim.Adam(self.online.parameters(), lr=config.learning_rate)

    def set_inputs(self, center: Tensor, scale: Tensor) -> None:
        """Input standardisation of both networks, [11] each."""
        for network in (self.online, self.target):
            network.center.copy_(center)
            network.scale.copy_(scale)

    def widen(self, factor: float) -> None:
        """Stretch the support; the reward unit stays, so that temperatures keep their meaning."""
        self.scale = replace(self.scale, half_width=self.scale.half_width * factor)
        self._set_support(self.scale.half_width)

    def _set_support(self, half_width: float) -> None:
        """Atoms over +-half_width ticks, in both networks where they know distributions."""
        atoms = categorical.support(-half_width, half_width, self.config.atoms)
        for network in (self.online, self.target):
            if isinstance(network, C51Network):
                network.support.copy_(atoms)

    def update(self, batch: Transitions, weights: Tensor | None = None) -> tuple[dict[str, Tensor], Tensor]:
        """One gradient step on a batch; figures stay on the device.

        Args:
            batch: B transitions.
            weights: [B] of their losses, all 1 when None.

        Returns:
            loss, gradient norm, mean target mass on the end atoms: 0-d tensors; and the loss of each transition [B].
        """
        losses, edges = self._losses(batch)
        loss = (losses if weights is None else weights * losses).mean()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.online.parameters(), self.config.gradient_clip)
        self._anneal()
        self.optimiser.step()
        self._track()
        return {"loss": loss.detach(), "gradient_norm": norm, "edge_mass": edges}, losses.detach()

    def _losses(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        """The loss of each transition, and the mean target mass on the end atoms; inside all is in reward units."""
        values = self.online(batch.observation_tm1, batch.cost)
        chosen = batch.a_tm1.view(-1, *(1,) * (values.dim() - 1)).expand(-1, 1, *values.shape[2:])
        taken = values.gather(1, chosen).squeeze(1)
        if isinstance(self.target, C51Network):
            target = self._distribution(batch, self.target)
            return categorical.cross_entropies(taken, target), categorical.edge_mass(target)
        unit = self.scale.unit
        return (taken / unit - self._value(batch)).square(), torch.zeros((), device=taken.device)

    @torch.no_grad()
    def _distribution(self, batch: Transitions, network: C51Network) -> Tensor:
        """[B, Z] target distribution."""
        unit = self.scale.unit
        atoms = network.support / unit
        q_tm1 = network(batch.observation_tm1, batch.cost).softmax(-1) @ atoms
        bonus = munchausen.bonus(q_tm1, batch.a_tm1, self._munchausen, batch.legal_tm1)
        probs_t = network(batch.observation_t, batch.cost).softmax(-1)
        return munchausen.distributional_target(
            batch.r_t / unit + bonus,
            batch.discount_t,
            probs_t,
            atoms,
            self.config.munchausen_tau,
            legal_t=batch.legal_t,
            kappa=self.config.tail_compression * float(atoms[-1]),
        )

    @torch.no_grad()
    def _value(self, batch: Transitions) -> Tensor:
        """[B] target of a network that gives values alone."""
        unit = self.scale.unit
        q_tm1 = self.target(batch.observation_tm1, batch.cost) / unit
        q_t = self.target(batch.observation_t, batch.cost) / unit
        bonus = munchausen.bonus(q_tm1, batch.a_tm1, self._munchausen, batch.legal_tm1)
        soft = munchausen.soft_value(q_t, self.config.munchausen_tau, batch.legal_t)
        return batch.r_t / unit + bonus + batch.discount_t * soft

    @property
    def _munchausen(self) -> munchausen.Munchausen:
        c = self.config
        return munchausen.Munchausen(alpha=c.munchausen_alpha, tau=c.munchausen_tau, floor=c.munchausen_floor)

    def tensors(self) -> dict[str, Tensor]:
        """Both networks and the optimiser's state, by name."""
        named = {f"online.{name}": value for name, value in self.online.state_dict().items()}
        named |= {f"target.{name}": value for name, value in self.target.state_dict().items()}
        for index, slots in self.optimiser.state_dict()["state"].items():
            named |= {f"optimiser.{index}.{slot}": value for slot, value in slots.items()}
        return named

    def restore(self, tensors: dict[str, Tensor], taken: int, scale: Scale) -> None:
        """Be as `tensors` were taken after so many steps. Raises CheckpointError where they do not fit."""
        self.taken, self.scale = taken, scale
        load_weights(self.online, part(tensors, "online."), "policy training state")
        load_weights(self.target, part(tensors, "target."), "policy training state")
        restore_optimizer(self.optimiser, part(tensors, "optimiser."))

    @property
    def progress(self) -> float:
        """Share of the planned steps that were taken, at most 1."""
        return min(self.taken / max(self.steps, 1), 1.0)

    def _anneal(self) -> None:
        """Half a cosine from the learning rate to 0 over the planned steps."""
        share = self.progress
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.learning_rate * 0.5 * (1 + math.cos(math.pi * share))
        self.taken += 1

    @torch.no_grad()
    def _track(self) -> None:
        """Target weights move towards the online ones."""
        for old, new in zip(self.target.parameters(), self.online.parameters(), strict=True):
            old.lerp_(new, self.config.target_rate)
