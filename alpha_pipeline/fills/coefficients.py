"""`fill_coeffs.json`: the fitted intensity with its units, uncertainty and origin, checked on the way out
and in."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from alpha_core.durable import write_atomic
from alpha_core.errors import DataError, InputError
from alpha_core.market.fills import FILL_COVARIATES, FILL_LEVELS, FillModel

Coefficient = Annotated[float, Field(ge=-60.0, le=60.0)]
Bound = Annotated[float, Field(ge=-1e9, le=1e9)]
Deviation = Annotated[float, Field(ge=0.0, le=1e6)]
Count = Annotated[int, Field(ge=0)]


class FillCoefficients(BaseModel):
    """What the file holds.

    Attributes:
        version: of this layout.
        fitted: False when the window could not carry a fit; then there are no coefficients.
        reason: why not, None when fitted.
        unit: of exp(intercept).
        covariates: names of z, in order.
        intercept: [5][2] β0 by level 1..5 and side (bid, ask).
        slope: [7] β.
        low: [7] smallest z that the fit covers; below it z counts as this.
        high: [7] largest z that the fit covers.
        intercept_errors: standard errors, scaled by the root of the dispersion where that exceeds 1.
        slope_errors: likewise.
        exposures: order intervals fitted on.
        fills: of them filled.
        seconds: exposure in all.
        rows: decision points of the window.
        days: trading days that the fitted part reaches.
        rows_per_order: rows that each order was followed.
        cancel_ahead_share: of the queue model.
        dispersion: variance over mean of fills per block of rows, given the fitted mean; None without a fit.
        over_dispersed: whether the bound on it is exceeded, so that a negative binomial would describe
            counts better.
        deviance_explained: share of the constant-rate deviance that the model removes on the later part.
        digests: content digests of what it was fitted on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Literal[1] = 1
    fitted: bool
    reason: str | None = None
    unit: Literal["fills per second"] = "fills per second"
    covariates: tuple[str, ...] = FILL_COVARIATES
    intercept: tuple[tuple[Coefficient, Coefficient], ...] = ()
    slope: tuple[Coefficient, ...] = ()
    low: tuple[Bound, ...] = ()
    high: tuple[Bound, ...] = ()
    intercept_errors: tuple[tuple[Deviation, Deviation], ...] = ()
    slope_errors: tuple[Deviation, ...] = ()
    exposures: Count
    fills: Count
    seconds: Annotated[float, Field(ge=0.0)]
    rows: Count
    days: Count
    rows_per_order: Annotated[int, Field(ge=1)]
    cancel_ahead_share: Annotated[float, Field(ge=0.0, le=1.0)]
    dispersion: Annotated[float, Field(ge=0.0)] | None = None
    over_dispersed: bool = False
    deviance_explained: Annotated[float, Field(le=1.0)] | None = None
    digests: dict[str, str] = Field(default_factory=dict)

    @field_validator("covariates")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if names != FILL_COVARIATES:
            raise ValueError(f"must be {list(FILL_COVARIATES)}")
        return names

    @model_validator(mode="after")
    def _complete(self) -> Self:
        sizes = dict.fromkeys(("intercept", "intercept_errors"), FILL_LEVELS)
        sizes |= dict.fromkeys(("slope", "low", "high", "slope_errors"), len(FILL_COVARIATES))
        for name, size in sizes.items():
            if len(getattr(self, name)) != size * self.fitted:
                raise ValueError(
                    f"{name} must have {size * self.fitted} entries when fitted is {self.fitted}"
                )
        if any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError("low must not exceed high")
        if self.fitted is not (self.reason is None):
            raise ValueError("reason must be given exactly when fitted is false")
        return self

    def model(self, origin: str = "the fill model") -> FillModel:
        """The intensity. Raises DataError, naming `origin`, when there is none."""
        if not self.fitted:
            raise DataError(
                f"{origin} was not fitted: {self.reason}; add days with trades before simulating fills"
            )
        return FillModel.from_dict(self.model_dump(mode="json"))


def write_coefficients(coefficients: FillCoefficients, path: Path) -> None:
    """Write the file in one step."""
    write_atomic(path, (coefficients.model_dump_json(indent=1) + "\n").encode())


def read_coefficients(path: Path) -> FillCoefficients:
    """Read and check the file.

    Raises:
        InputError: the file is absent, not JSON, or holds an unknown key, a number out of range, NaN or a
            wrong shape.
    """
    try:
        return FillCoefficients.model_validate(json.loads(path.read_text()))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist: fit the fill model first") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not JSON ({error}): fit the fill model again") from error
    except ValidationError as error:
        problems = "; ".join(_sentence(problem) for problem in error.errors())
        raise InputError(f"{path}: {problems}: fit the fill model again") from error


def load_fill_model(path: Path) -> FillModel:
    """The intensity stored in `fill_coeffs.json`.

    Raises:
        InputError: as `read_coefficients`.
        DataError: the file says that nothing could be fitted.
    """
    return read_coefficients(path).model(str(path))


def _sentence(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"][:1].lower() + problem["msg"][1:]
    return f"{where} was {problem['input']!r}, {message}" if where else message
