"""The page of a simulated market's stylised facts: each drawn, and beside it what the literature reports."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from alpha_pipeline.provenance import git_revision
from alpha_pipeline.report.html import ReportInputs, Section, render_report
from alpha_pipeline.report.svg import Look, Plot, Series
from alpha_pipeline.simulator import VERSION
from alpha_pipeline.simulator.config import SimulatorConfig
from alpha_pipeline.simulator.stylised import WINDOW, Curve, StylisedFacts

LARGE_TICK = "Dayri and Rosenbaum, Large tick assets: implicit spread and optimal tick size, 2015"
BOOKS = "Bouchaud, Mézard and Potters, Statistical properties of stock order books: empirical results and models, 2002"
IMPACT = "Cont, Kukanov and Stoikov, The price impact of order book events, 2014"
SIGNS = "Lillo and Farmer, The long memory of the efficient market, 2004"
RETURNS = "Cont, Empirical properties of asset returns: stylized facts and statistical issues, 2001"

PUBLISHED_R2, PUBLISHED_SIGN_EXPONENT, PUBLISHED_VOLATILITY_EXPONENTS = 0.65, 0.6, (0.2, 0.4)
_WHITE_NOISE = 1.96


@dataclass(frozen=True, kw_only=True)
class Published:
    """One line of a comparison.

    Attributes:
        fact: a name in `StylisedFacts.numbers`.
        value: what was published, empty where nothing is that can be compared.
        source: authors, title, year.
    """

    fact: str
    value: str = ""
    source: str = ""


SPREAD = (
    Published(
        fact="share of events with a one-tick spread",
        value="of assets with a large tick the spread is almost always one tick",
        source=LARGE_TICK,
    ),
    Published(fact="share of events with a two-tick spread"),
)
DEPTH = (
    Published(
        fact="level with the largest mean size",
        value="the average book has a hump: its largest size lies away from the best price (Paris Bourse)",
        source=BOOKS,
    ),
    Published(fact="mean size at the touch, lots"),
    Published(fact="mean size at level 5, lots"),
    Published(fact="mean size at level 10, lots"),
)
FLOW = (
    Published(
        fact="R2 of OFI against the return of the same ten seconds",
        value=f"{PUBLISHED_R2:g} on average (50 US stocks, ten seconds, regressions by half hour)",
        source=IMPACT,
    ),
    Published(fact="R2 of OFI against the return of the same 100 events"),
)
TRADES = (
    Published(
        fact="exponent of decay of the autocorrelation of trade signs",
        value=f"about {PUBLISHED_SIGN_EXPONENT:g} (signs of orders, London Stock Exchange)",
        source=SIGNS,
    ),
    Published(fact="autocorrelation of trade signs, lag 1"),
    Published(fact="autocorrelation of trade signs, lag 10"),
)
RETURN = (
    Published(
        fact="autocorrelation of returns, lag 1",
        value="often insignificant, except on scales below about 20 minutes",
        source=RETURNS,
    ),
)
VOLATILITY = (
    Published(
        fact="exponent of decay of the autocorrelation of absolute returns",
        value="roughly a power law, exponent {:g} to {:g}".format(*PUBLISHED_VOLATILITY_EXPONENTS),
        source=RETURNS,
    ),
    Published(fact="autocorrelation of absolute returns, lag 1", value="positive", source=RETURNS),
    Published(
        fact="autocorrelation of squared returns, lag 1",
        value="positive over several days",
        source=RETURNS,
    ),
    Published(fact="autocorrelation of squared returns, lag 10"),
    Published(fact="excess kurtosis of returns", value="positive: tails heavier than normal", source=RETURNS),
)


def write_page(facts: StylisedFacts, config: SimulatorConfig, name: str, days: int, out: Path) -> Path:
    """Write one self-contained page; the same facts and code revision give the same bytes.

    Args:
        facts: of the market.
        config: what made the market.
        name: of the instrument.
        days: how many days were looked at.
        out: the HTML file, its folder is created.

    Returns:
        `out`.
    """
    settings = {f"simulator.{key}": str(value) for key, value in asdict(config).items()}
    inputs = ReportInputs(
        title=f"{name}: stylised facts of the simulated market",
        instrument=name,
        verdict=None,
        of_verdict=False,
        sections=[_sample(facts, days), *sections(facts)],
        lineage={"code revision": git_revision(), "simulator rules": VERSION} | settings,
    )
    return render_report(inputs, out)


def _sample(facts: StylisedFacts, days: int) -> Section:
    counts = {"days": days, "events": facts.events, "trades": facts.trades, "windows": facts.windows}
    return Section(
        title="Sample",
        text=f"All figures are computed from the records of trading between halts. Returns are changes of the mid "
        f"over windows of {WINDOW} events unless said otherwise. Published values come from other markets: they say "
        "what markets are like, not what this one was fitted to.",
        tables=[("Counts", pl.DataFrame({"what": list(counts), "count": list(counts.values())}))],
    )


def sections(facts: StylisedFacts) -> list[Section]:
    """One section a fact: drawing, figures, and published values."""
    return [
        Section(
            title="Spread",
            text="The simulated spread is one tick or two by construction.",
            plots=[_plot("Spread", "spread, ticks", "share of events", _series(facts.spreads, "bars"))],
            tables=[_compared(facts, SPREAD)],
        ),
        Section(
            title="Depth profile",
            text="Queues revert to targets that grow with the distance from the touch, in the spirit of the "
            "queue-reactive model (Huang, Lehalle and Rosenbaum, Simulating and analyzing order book data, 2015). "
            "Levels that come into view are drawn afresh and smaller, which bends the far end of the profile down.",
            plots=[_plot("Mean size by level", "level", "lots", _series(facts.depth, "bars"))],
            tables=[_compared(facts, DEPTH)],
        ),
        _flow_section(facts),
        _signs_section(facts),
        Section(
            title="Autocorrelation of returns",
            text="A planted alpha (simulator.rho above 0) makes it slightly positive; without one it is zero but for "
            "noise.",
            plots=[
                _plot(
                    "Autocorrelation of returns",
                    f"lag, windows of {WINDOW} events",
                    "autocorrelation",
                    *_noise(facts.returns, facts.windows),
                    _series(facts.returns, "line"),
                )
            ],
            tables=[_compared(facts, RETURN)],
        ),
        _volatility_section(facts),
    ]


def _flow_section(facts: StylisedFacts) -> Section:
    level = Curve(x=facts.explained.x[[0, -1]], y=np.full(2, PUBLISHED_R2))
    return Section(
        title="Order-flow imbalance and return",
        text="Windows of ten seconds within half hours repeat the published regression. R2 depends on the length of "
        f"the windows: nothing published is known to compare with windows of {WINDOW} events.",
        plots=[
            _plot(
                f"Mean return by order-flow imbalance, windows of {WINDOW} events in bins of equal count",
                "order-flow imbalance, lots",
                "mean return, ticks",
                _series(facts.impact, "points"),
            ),
            _plot(
                "R2 over ten seconds, by half hour",
                "UTC hour at which the half hour begins",
                "R2, mean over days",
                _series(level, "reference", f"published average: {PUBLISHED_R2:g}"),
                _series(facts.explained, "line"),
            ),
        ],
        tables=[_compared(facts, FLOW)],
    )


def _signs_section(facts: StylisedFacts) -> Section:
    curve = facts.trade_signs
    return Section(
        title="Autocorrelation of trade signs",
        text="The published curve is scaled to the simulated value at lag 1. The exponent is that of the "
        "least-squares power law through lags up to 100. The memory of the simulated signs is not a power law: it is "
        "that of the latent signal and of the recent signs, and ends with them.",
        plots=[
            _plot(
                "Autocorrelation of trade signs",
                "lag, trades",
                "autocorrelation",
                *_noise(curve, facts.trades),
                _power(curve, PUBLISHED_SIGN_EXPONENT),
                _series(curve, "line"),
                log_x=True,
            )
        ],
        tables=[_compared(facts, TRADES)],
    )


def _volatility_section(facts: StylisedFacts) -> Section:
    curve = facts.volatility
    return Section(
        title="Volatility clustering",
        text="The published curves are scaled to the simulated value at lag 1. The exponent is that of the "
        "least-squares power law through lags up to 100.",
        plots=[
            _plot(
                "Autocorrelation of absolute returns",
                f"lag, windows of {WINDOW} events",
                "autocorrelation",
                *_noise(curve, facts.windows),
                *(_power(curve, exponent) for exponent in PUBLISHED_VOLATILITY_EXPONENTS),
                _series(curve, "line"),
                log_x=True,
            )
        ],
        tables=[_compared(facts, VOLATILITY)],
    )


def _plot(title: str, x: str, y: str, *series: Series, log_x: bool = False) -> Plot:
    return Plot(title=title, x=x, y=y, series=series, log_x=log_x)


def _series(curve: Curve, look: Look, name: str = "simulated") -> Series:
    return Series(name=name, x=curve.x.tolist(), y=curve.y.tolist(), look=look)


def _power(curve: Curve, exponent: float) -> Series:
    """The published power law through the curve's first point."""
    law = Curve(x=curve.x, y=curve.y[0] * (curve.x / curve.x[0]) ** -exponent)
    return _series(law, "reference", f"published: lag^-{exponent:g}")


def _noise(curve: Curve, count: int) -> tuple[Series, Series]:
    """The band in which 95 of 100 autocorrelations of `count` independent values lie."""
    bound = _WHITE_NOISE / math.sqrt(count)
    ends = curve.x[[0, -1]].tolist()
    return (
        Series(name="95 % of white noise", x=ends, y=[bound, bound], look="bound"),
        Series(name="", x=ends, y=[-bound, -bound], look="bound"),
    )


def _compared(facts: StylisedFacts, lines: Sequence[Published]) -> tuple[str, pl.DataFrame]:
    table = pl.DataFrame(
        {
            "fact": [line.fact for line in lines],
            "simulated": [facts.numbers[line.fact] for line in lines],
            "published": [line.value or "–" for line in lines],
            "source": [line.source or "–" for line in lines],
        }
    )
    return "Simulated and published", table
