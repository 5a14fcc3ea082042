"""One market's whole configuration: typed sections, read from `instruments/<name>.toml`, unknown keys refused.

Each section is a frozen dataclass that lives beside the code it configures; this module only nests and loads them.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import PydanticCustomError

from alpha_core.errors import AlphaError, ConfigError
from alpha_core.market.config import MarketConfig
from alpha_core.rl.config import PolicyConfig
from alpha_core.training.config import PerceptionConfig
from alpha_pipeline.download.config import DownloadConfig
from alpha_pipeline.evaluation.config import GateConfig, GridConfig, WalkForwardConfig
from alpha_pipeline.features.config import FeatureConfig
from alpha_pipeline.fills.config import FillConfig
from alpha_pipeline.ingest.config import IngestConfig, QualityThresholds, SourceConfig
from alpha_pipeline.ingest.sessions import check_calendar
from alpha_pipeline.instrument import InstrumentSpec
from alpha_pipeline.paths import Workspace
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.toml_values import mended, unfit_values, with_tuples

_SECTION = "section"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

MUST_SAY = ("name", "symbols", "tick_size", "calendar")
"""Keys of `[instrument]` that no market shares with another, so that a file which leaves one out is refused."""


class PipelineConfig(BaseModel):
    """Everything that stages read.

    Attributes:
        instrument: what is traded and how its files name it.
        source: where its raw files lie.
        simulator: present when the market is simulated rather than read from files of one's own.
        download: present when missing days can be fetched from the vendor.
        seed: root of every random stream.
        device: `cpu`, or `cuda` where a GPU is.
        threads: CPU threads of one fit; another number may round differently, so it is part of a result's identity.
        processes: processes that train one perception together, each on a GPU of its own where `device` is `cuda`;
            part of a result's identity for the same reason.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    instrument: InstrumentSpec
    source: SourceConfig = Field(default_factory=SourceConfig)
    ingest: IngestConfig = Field(default_factory=IngestConfig)
    quality: QualityThresholds = Field(default_factory=QualityThresholds)
    features: FeatureConfig = Field(default_factory=FeatureConfig)
    market: MarketConfig = Field(default_factory=MarketConfig)
    fills: FillConfig = Field(default_factory=FillConfig)
    perception: PerceptionConfig = Field(default_factory=PerceptionConfig)
    policy: PolicyConfig = Field(default_factory=PolicyConfig)
    grid: GridConfig = Field(default_factory=GridConfig)
    walk_forward: WalkForwardConfig = Field(default_factory=WalkForwardConfig)
    gate: GateConfig = Field(default_factory=GateConfig)
    simulator: SimulatorConfig | None = None
    download: DownloadConfig | None = None
    seed: int = Field(default=7, ge=0)
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    threads: int = Field(default=1, ge=1, le=256)
    processes: int = Field(default=1, ge=1, le=256)

    @field_validator("*", mode="wrap")
    @classmethod
    def _listed(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        """What a section finds wrong with itself is told together with what others find."""
        try:
            return handler(with_tuples(value))
        except AlphaError as error:
            raise PydanticCustomError(_SECTION, "{said}", {"said": str(error)}) from error

    @property
    def name(self) -> str:
        return self.instrument.name

    @property
    def numerics(self) -> tuple[int, str, int, int]:
        """Seed, device, threads and processes: with equal settings, what two fits may still differ by."""
        return self.seed, self.device, self.threads, self.processes


def available(workspace: Workspace) -> list[str]:
    """Names of the instruments that have a file."""
    return sorted(path.stem for path in workspace.instruments.glob("*.toml"))


def load(name: str, workspace: Workspace) -> PipelineConfig:
    """Read `instruments/<name>.toml`; a key `base` names another instrument whose values it starts from.

    Raises:
        ConfigError: no such file, not TOML, an unknown key, or a value out of bounds; all problems at once.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"instrument was {name!r}, must be letters, digits, - and _: the name of a file, not a path"
        )
    path = workspace.instruments / f"{name}.toml"
    try:
        config = _checked(_read(path, workspace, ()))
        if config.name != name:
            raise ConfigError(f"instrument.name was {config.name!r}, must be {name!r}, the name of its file")
        check_calendar(config.instrument.calendar)
        return config
    except AlphaError as error:
        raise type(error)(f"{path.name}: {error}") from error


def _checked(raw: dict[str, Any]) -> PipelineConfig:
    """The typed configuration. Raises ConfigError with all problems of all sections; unfit values come first."""
    given = raw.get("instrument")
    absent = [key for key in MUST_SAY if isinstance(given, dict) and key not in given]
    problems = [f"instrument must say {', '.join(absent)}, which have no default"] if absent else []
    unfit = list(unfit_values(raw))
    if unfit:
        raise ConfigError("; ".join(problems + unfit))
    try:
        # strictly: neither truth nor text is a number; as JSON: a table is a section
        config = PipelineConfig.model_validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        raise ConfigError("; ".join(problems + [_sentence(e) for e in error.errors()])) from error
    if problems:
        raise ConfigError("; ".join(problems))
    return config


def _read(path: Path, workspace: Workspace, above: tuple[str, ...]) -> dict[str, Any]:
    if not path.is_file():
        known = ", ".join(available(workspace)) or "none"
        raise ConfigError(
            f"no instrument named {path.stem!r} in {path.parent} (known: {known}): add {path.name}"
        )
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): mend its rights") from error
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of a number with thousands of digits
        raise ConfigError(f"is not valid TOML: {error}") from error
    base = raw.pop("base", None)
    if base is None:
        return raw
    if not isinstance(base, str) or not _NAME.fullmatch(base) or base in (*above, path.stem):
        raise ConfigError(
            f"base was {base!r}, must be the name of another instrument, without going in circles"
        )
    return _overlay(_read(path.with_name(f"{base}.toml"), workspace, (*above, path.stem)), raw)


def _overlay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _overlay(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _sentence(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown key {where!r}, remove it or mend its spelling"
    if error["type"] == _SECTION:
        return error["msg"]
    if error["type"] == "missing":
        return f"{where} is missing"
    wrong = mended(error["type"], error["input"])
    return f"{where} {wrong}" if wrong else f"{where} was {error['input']!r}: {error['msg'].lower()}"
