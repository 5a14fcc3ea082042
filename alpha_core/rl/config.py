"""Settings of the execution policy, its network and its training."""

from dataclasses import dataclass
from typing import ClassVar

from alpha_core.errors import ConfigError
from alpha_core.nn.q_networks import KINDS
from alpha_core.rl.replay import PrioritisedReplay

REPLAYS = ("uniform", "prioritised")
SELECTIONS = ("greedy", "thompson")
FILL_MODES = ("pessimistic", "touch", "queue", "poisson")


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """Munchausen-C51 trained in the batched environment.

    Attributes:
        network: step of the ladder: `c51`, return distributions from the observation, or `linear`, values linear in it.
        hidden: width of the two hidden layers of c51.
        atoms: atoms of the return distribution.
        support_deviations: half width of the support in standard deviations of the baseline's discounted return.
        edge_mass: mean target mass on the two end atoms above which the support is widened.
        widening: factor by which the support is widened.
        tail_compression: kappa of the negative-tail compression, as a share of the support's half width; 0 for none.
        discount: per decision. An advantage that pays over 100 decisions needs 0.99 or more.
        n_step: most decisions between a state and its bootstrap state.
        munchausen_alpha: weight of the Munchausen bonus.
        munchausen_tau: temperature of the softmax policy, in reward units (see `reward_unit`).
        munchausen_floor: lower clip of tau log pi, in reward units.
        reward_unit: ticks that count as 1 inside the learner; 0 takes 1/20 of the support's half width.
        lanes: episodes that run in lockstep while experience is collected.
        sweeps: times that all lanes run an episode.
        updates: gradient steps after each sweep.
        batch: transitions of one gradient step.
        replay: transitions kept.
        replay_kind: how they are drawn, `uniform` or `prioritised`.
        priority_alpha: how much a transition's loss counts where they are drawn by priority.
        priority_beta: share of that preference that the losses' weights undo at first; at the end they undo all.
        learning_rate: of Adam, annealed to 0 along a half cosine.
        gradient_clip: most norm of the gradient.
        target_rate: share of the online weights that each gradient step moves into the target network.
        explore_low: least share of exploratory decisions of a lane.
        explore_high: greatest share; lanes lie between the two, evenly in logarithm.
        cost_low: least cost in training, ticks per lot and side.
        cost_high: greatest cost in training.
        mirror: treat long and short as mirror images (see `alpha_core.rl.mirror`).
        selection: how the trained policy acts: `greedy` or `thompson`.
        margin: ticks x lots by which another action must exceed waiting before a greedy policy takes it.
        fill_mode: fill model of the training environment: pessimistic, touch, queue or poisson.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    network: str = "c51"
    hidden: int = 64
    atoms: int = 51
    support_deviations: float = 3.0
    edge_mass: float = 0.01
    widening: float = 1.5
    tail_compression: float = 0.0
    discount: float = 0.99
    n_step: int = 60
    munchausen_alpha: float = 0.9
    munchausen_tau: float = 0.03
    munchausen_floor: float = -1.0
    reward_unit: float = 0.0
    lanes: int = 256
    sweeps: int = 5
    updates: int = 100
    batch: int = 2048
    replay: int = 500_000
    replay_kind: str = "uniform"
    priority_alpha: float = 0.6
    priority_beta: float = 0.4
    learning_rate: float = 8e-3
    gradient_clip: float = 10.0
    target_rate: float = 0.05
    explore_low: float = 0.02
    explore_high: float = 0.5
    cost_low: float = 0.0
    cost_high: float = 1.0
    mirror: bool = True
    selection: str = "greedy"
    margin: float = 0.05
    fill_mode: str = "poisson"

    def __post_init__(self) -> None:
        problems = [
            f"{name} was {getattr(self, name)}, must be in [{low:g}, {high:g}]"
            for name, low, high in _BOUNDS
            if not low <= getattr(self, name) <= high
        ]
        if self.cost_low > self.cost_high:
            problems.append(f"cost_low was {self.cost_low}, must be at most cost_high = {self.cost_high}")
        if self.explore_low > self.explore_high:
            problems.append(
                f"explore_low was {self.explore_low}, must be at most explore_high = {self.explore_high}"
            )
        if self.network not in KINDS:
            problems.append(f"network was {self.network!r}, must be one of {KINDS}")
        if self.network == "linear" and self.selection == "thompson":
            problems.append(
                "selection was 'thompson', must be 'greedy' with network 'linear', which has nothing to draw"
            )
        if self.selection not in SELECTIONS:
            problems.append(f"selection was {self.selection!r}, must be one of {SELECTIONS}")
        if self.replay_kind not in REPLAYS:
            problems.append(f"replay_kind was {self.replay_kind!r}, must be one of {REPLAYS}")
        elif self.replay_kind == "prioritised" and self.replay > PrioritisedReplay.LARGEST:
            problems.append(
                f"replay was {self.replay}, must be at most {PrioritisedReplay.LARGEST} with replay_kind 'prioritised'"
            )
        if self.fill_mode not in FILL_MODES:
            problems.append(f"fill_mode was {self.fill_mode!r}, must be one of {FILL_MODES}")
        if problems:
            raise ConfigError(f"policy: {'; '.join(problems)}")


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("hidden", 1, 4096),
    ("atoms", 2, 1001),
    ("support_deviations", 0.1, 100),
    ("edge_mass", 0, 1),
    ("widening", 1.01, 10),
    ("tail_compression", 0, 1),
    ("discount", 0, 1),
    ("n_step", 1, 10_000),
    ("munchausen_alpha", 0, 0.999),
    ("munchausen_tau", 1e-6, 100),
    ("munchausen_floor", -1e6, 0),
    ("reward_unit", 0, 1e9),
    ("lanes", 1, 1_000_000),
    ("sweeps", 1, 100_000),
    ("updates", 1, 1_000_000),
    ("batch", 2, 1_000_000),
    ("replay", 1, 100_000_000),
    ("priority_alpha", 0, 1),
    ("priority_beta", 0, 1),
    ("learning_rate", 1e-9, 1),
    ("gradient_clip", 1e-6, 1e9),
    ("target_rate", 1e-6, 1),
    ("explore_low", 1e-6, 1),
    ("explore_high", 1e-6, 1),
    ("cost_low", 0, 1e6),
    ("cost_high", 0, 1e6),
    ("margin", 0, 1e6),
)
