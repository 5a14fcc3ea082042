"""`alpha download`: an instrument's name and two dates in, whole files in its raw folder out."""

from collections.abc import Callable, Iterator
from typing import Any

from alpha_core.errors import ConfigError
from alpha_pipeline.config import PipelineConfig, load
from alpha_pipeline.download import DayResult, DownloadConfig, Vendor, fetch_days
from alpha_pipeline.download.days import day_after, days_between, missing_days
from alpha_pipeline.paths import Workspace
from alpha_pipeline.stages.base import open_scope


def fetch_market(
    instrument: str,
    workspace: Workspace,
    first: str,
    last: str,
    *,
    raw: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[DayResult]:
    """Fetch the missing days between two dates, both included, to where the instrument's raw files lie.

    Args:
        instrument: name of a configuration file.
        workspace: where everything lies.
        first: date 'YYYY-MM-DD'.
        last: date 'YYYY-MM-DD'.
        raw: folder or URL, None for the configured one.
        say: receives lines for people.

    Raises:
        ConfigError: no [download] section, no key, wrong dates, or a key that the vendor refuses.
    """
    config = load(instrument, workspace)
    section, days = _section(config), days_between(first, last)
    folder = open_scope(config, workspace, raw=raw).raw
    yield from fetch_days(Vendor(section, say=say), section, config.instrument, folder, days, say)


def price_of(
    instrument: str, workspace: Workspace, first: str, last: str, *, raw: str | None = None
) -> dict[str, Any]:
    """What fetching the missing days would cost: their number, and US dollars as the vendor says."""
    config = load(instrument, workspace)
    vendor, folder = Vendor(_section(config)), open_scope(config, workspace, raw=raw).raw
    days = missing_days(folder, config.instrument, days_between(first, last))
    return {"days": len(days), "dollars": sum((vendor.cost(day, day_after(day)) for day in days), 0.0)}


def _section(config: PipelineConfig) -> DownloadConfig:
    if config.download is None:
        raise ConfigError(
            f"{config.name} has no [download] section, so nothing to ask the vendor for: add dataset and symbols"
        )
    return config.download
