"""The network that a configuration names: ours, or one of the field's reference architectures."""

from collections.abc import Sequence
from typing import Any

from torch import Generator

from alpha_core.nn.deeplob import DeepLOB
from alpha_core.nn.mlplob import MLPLOB
from alpha_core.nn.network import Network
from alpha_core.nn.perception import Architecture, Perception
from alpha_core.nn.tlob import TLOB


def make_network(
    architecture: Architecture, feature_names: Sequence[str], *, generator: Generator
) -> Network[Any]:
    """Untrained network `architecture.network` on the host.

    Args:
        architecture: shape; references read `window` and `feature_clip` alone, their sizes are the published ones.
        feature_names: names of the columns, needed by DeepLOB.
        generator: source of the first weights.

    Raises:
        DataError: a column that the network needs is absent.
    """
    clip, window = architecture.feature_clip, architecture.window
    match architecture.network:
        case "deeplob":
            return DeepLOB(clip, feature_names, generator=generator)
        case "tlob":
            return TLOB(clip, window, generator=generator)
        case "mlplob":
            return MLPLOB(clip, window, generator=generator)
        case _:
            return Perception(architecture, generator=generator)
