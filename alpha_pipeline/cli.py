"""The command `alpha`: what people type. Parses, calls one function, prints; heavy libraries load only when needed.

Exit codes: 0 done, and the verdict where there is one is PASS; 3 the verdict is FAIL; 1 an error, told in one
sentence; 2 the command line is wrong.
"""

import contextlib
import dataclasses
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from alpha_core.errors import AlphaError
from alpha_pipeline import cli_cache
from alpha_pipeline.paths import Workspace, writable_file

if TYPE_CHECKING:
    from alpha_pipeline.run import Standings

EXIT_ERROR, EXIT_FAIL_VERDICT = 1, 3

app = typer.Typer(
    help="From ten-level order-book files to a trading policy and a verdict one can defend.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_cache.app, name="cache")
console = Console(stderr=True, highlight=False)


@dataclasses.dataclass
class _Options:
    debug: bool = False


_options = _Options()


@app.callback()
def _shared(debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False) -> None:
    _options.debug = debug


@app.command()
def run(
    instrument: Annotated[str, typer.Option(help="Name of a file in instruments/, without .toml.")] = "demo",
    raw: Annotated[
        str | None, typer.Option(help="Folder or URL with raw files; the configured one if not given.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="The simulated market that ships with the product.")
    ] = False,
    null: Annotated[bool, typer.Option("--null", help="With --demo: the same market without alpha.")] = False,
    until: Annotated[str | None, typer.Option(help="Stop after this stage, for example fxcache.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Bring the whole pipeline up to date for one instrument and print the verdict."""
    from alpha_pipeline.run import run_market

    if demo or null:
        instrument = "demo-null" if null else "demo"
    outcome = run_market(instrument, Workspace.locate(), raw=raw, until=until, say=_say)
    if as_json:
        print(json.dumps(outcome.to_dict(), indent=1))
    else:
        print(outcome.text())
    raise typer.Exit(outcome.exit_code)


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="Port of the Dagster page.")] = 3000,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow page.")] = 5000,
) -> None:
    """Serve the Dagster page, its daemon and MLflow on loopback until interrupted."""
    from alpha_pipeline.ui import run_ui

    workspace = Workspace.locate()
    home, data = workspace.prepared_dagster_home(), workspace.root / "data"
    run_ui(home, data=data, dagster_port=port, mlflow_port=mlflow_port)


@app.command()
def simulate(
    out: Annotated[Path, typer.Argument(help="Folder to write DBN files into.")],
    instrument: Annotated[str, typer.Option(help="An instrument with a [simulator] section.")] = "demo",
) -> None:
    """Write the days of a simulated market as genuine MBP-10 DBN files."""
    from alpha_pipeline.artifacts import refusals_told
    from alpha_pipeline.config import load
    from alpha_pipeline.run import ensure_market

    with refusals_told(out):
        written = ensure_market(load(instrument, Workspace.locate()), out, say=_say)
    for path in written:
        print(path)


@app.command()
def facts(
    instrument: Annotated[str, typer.Option(help="An instrument with a [simulator] section.")] = "demo",
    days: Annotated[int | None, typer.Option(min=1, help="First days to look at; all if not given.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the page that draws them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compute the stylised facts of a simulated market; the page shows them beside published values."""
    from alpha_pipeline.artifacts import refusals_told
    from alpha_pipeline.config import load
    from alpha_pipeline.report.market_facts import write_page
    from alpha_pipeline.run import simulator_of
    from alpha_pipeline.simulator.stylised import facts_of_market

    config = load(instrument, Workspace.locate())
    simulator, page = simulator_of(config), html and writable_file(html)
    days = days or simulator.days
    found = facts_of_market(simulator, config.instrument.tick_nanos, days)
    if as_json:
        print(json.dumps(dict(found.numbers), indent=1))
    else:
        for name, value in found.numbers.items():
            print(f"{name}: {value:.4g}")
    if page is not None:
        with refusals_told(page):
            _say(f"page: {write_page(found, simulator, config.name, days, page)}")


@app.command()
def build(
    instrument: Annotated[str, typer.Option(help="Name of a file in instruments/, without .toml.")] = "demo",
    raw: Annotated[str | None, typer.Option(help="Folder or URL with raw files.")] = None,
    day: Annotated[list[str] | None, typer.Option(help="Only this day; may be repeated.")] = None,
    processes: Annotated[
        int | None, typer.Option(help="Days at a time; what cores and free memory allow if not given.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be built, and why.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Build exactly the stale days: from raw files to the feature cache, several days at a time."""
    from alpha_pipeline.run import DAY_STAGES, run_market, standings_of

    if dry_run:
        _tell(
            standings_of(instrument, Workspace.locate(), raw=raw, stages=DAY_STAGES, only=day or ()), as_json
        )
        return
    outcome = run_market(
        instrument,
        Workspace.locate(),
        raw=raw,
        until=DAY_STAGES[-1].name,
        say=_say,
        only=day or (),
        processes=processes,
    )
    print(json.dumps(outcome.to_dict(), indent=1) if as_json else outcome.text())
    raise typer.Exit(outcome.exit_code)


@app.command()
def compare(
    instrument: Annotated[str, typer.Option(help="Name of a file in instruments/, without .toml.")] = "demo",
    raw: Annotated[str | None, typer.Option(help="Folder or URL with raw files.")] = None,
    bypass: Annotated[list[str] | None, typer.Option(help="vsn, mamba2 or cfc; may be repeated.")] = None,
    head: Annotated[list[str] | None, typer.Option(help="linear or mlp; may be repeated.")] = None,
    network: Annotated[
        list[str] | None, typer.Option(help="deeplob, tlob or mlplob; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Train the perception, its ablations and reference networks on the in-sample days; all if none is named."""
    from alpha_pipeline.comparison import compare as compare_contenders

    names = [*(f"bypass {part}" for part in bypass or ()), *(f"head {kind}" for kind in head or ())]
    found = compare_contenders(
        instrument, Workspace.locate(), raw=raw, names=[*names, *(network or ())], say=_say
    )
    print(json.dumps(found.table.to_dicts(), indent=1) if as_json else found.text())


train = typer.Typer(no_args_is_help=True, help="Train and compare beside the pipeline; publishes nothing.")
app.add_typer(train, name="train")


@train.callback()
def _train() -> None:
    """Keeps `policy` a command of its own."""


@train.command("policy")
def train_policy(
    ladder: Annotated[
        bool, typer.Option("--ladder", help="Every step of the ladder, the rules beside it.")
    ] = False,
    instrument: Annotated[str, typer.Option(help="Name of a file in instruments/, without .toml.")] = "demo",
    raw: Annotated[str | None, typer.Option(help="Folder or URL with raw files.")] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of each network.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Train every policy of the ladder on the in-sample days and judge all on episodes that none has seen."""
    from alpha_pipeline.policy_ladder import climb

    if not ladder:
        raise typer.BadParameter(
            "say --ladder; the policy alone is trained by `alpha run --until execution_policy`"
        )
    found = climb(instrument, Workspace.locate(), raw=raw, seeds=seeds, say=_say)
    print(json.dumps(found.table.to_dicts(), indent=1) if as_json else found.text())


@app.command()
def status(
    instrument: Annotated[str, typer.Option(help="Name of a file in instruments/, without .toml.")] = "demo",
    raw: Annotated[str | None, typer.Option(help="Folder or URL with raw files.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Say which artifacts are stale and why, what follows from them, and which days are kept out. Runs nothing."""
    from alpha_pipeline.run import standings_of

    _tell(standings_of(instrument, Workspace.locate(), raw=raw), as_json)


def _tell(standings: "Standings", as_json: bool) -> None:
    if as_json:
        print(json.dumps(dataclasses.asdict(standings), indent=1))
        return
    for entry in standings.stale:
        print(f"{entry.stage} {entry.partition}: {'; '.join(entry.reasons)}")
    for name in standings.later:
        print(f"{name}: up to date, stale once the above is rebuilt")
    for partition, reason in [*standings.rejected.items(), *standings.failed.items()]:
        print(f"{partition}: {reason}")
    if not standings.stale:
        print("everything is up to date")


@app.command()
def download(
    start: Annotated[str, typer.Option(help="First day, YYYY-MM-DD.")],
    end: Annotated[str, typer.Option(help="Last day, YYYY-MM-DD.")],
    instrument: Annotated[str, typer.Option(help="An instrument with a [download] section.")] = "es",
    raw: Annotated[str | None, typer.Option(help="Folder or URL to fetch into.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Fetch missing days from the vendor; the key is read from DATABENTO_API_KEY."""
    from alpha_pipeline.fetch import fetch_market, price_of

    workspace = Workspace.locate()
    if dry_run:
        told = price_of(instrument, workspace, start, end, raw=raw)
        print(json.dumps(told) if as_json else f"{told['days']} days missing, ${told['dollars']:.2f}")
        return
    results = list(fetch_market(instrument, workspace, start, end, raw=raw, say=_say))
    if as_json:
        print(json.dumps([dataclasses.asdict(one) for one in results], indent=1, default=str))
    else:
        for one in results:
            print(f"{one.day} {one.outcome}: {one.detail}")
    raise typer.Exit(1 if any(one.outcome == "failed" for one in results) else 0)


@app.command("split")
def split_file(
    file: Annotated[Path, typer.Argument(help="A DBN file of several days.")],
    out: Annotated[Path, typer.Argument(help="Folder for one file per UTC day.")],
) -> None:
    """Write one file per UTC day of a DBN file that spans several, its records copied as they are."""
    from alpha_pipeline.artifacts import refusals_told
    from alpha_pipeline.ingest.split import split

    with refusals_told(out):
        written = split(file, out)
    for path, records in written.items():
        print(f"{path}: {records} records")


@app.command()
def quality(
    instrument: Annotated[str, typer.Option(help="Name of a file in instruments/, without .toml.")] = "demo",
    raw: Annotated[str | None, typer.Option(help="Folder or URL with raw files.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the page with all days and their details.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the days as JSON.")] = False,
) -> None:
    """List the days of an instrument as they were judged: what was rejected, what warns, and why. Runs nothing."""
    from alpha_pipeline.artifacts import refusals_told
    from alpha_pipeline.report.market_data import day_line, days_table
    from alpha_pipeline.run import failed_days, scope_of
    from alpha_pipeline.stages.judged_days import all_days, write_page

    scope = scope_of(instrument, Workspace.locate(), raw=raw)
    page = html and writable_file(html)
    days = all_days(scope, failed_days(scope))
    if as_json:
        print(json.dumps(days_table(days).to_dicts(), indent=1))
    else:
        for day in days:
            print(day_line(day))
    if page is not None:
        with refusals_told(page):
            _say(f"page: {write_page(scope, days, page)}")


@app.command()
def instruments() -> None:
    """List the markets that have a configuration file."""
    from alpha_pipeline.config import available

    for name in available(Workspace.locate()):
        print(name)


class _Progress(logging.Handler):
    """Shows what stages report while they run."""

    def emit(self, record: logging.LogRecord) -> None:
        line = getattr(record, "dagster_meta", {}).get("orig_message") or record.getMessage()
        _say(f"  {line}")


def _say(line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """Errors of the caller's become one sentence and exit code 1; others too, unless tracebacks are wanted."""
    try:
        yield
    except AlphaError as error:
        if _options.debug:
            raise
        console.print(f"error: {error}", markup=False, style="red", soft_wrap=True)
        sys.exit(EXIT_ERROR)
    except Exception as error:
        if _options.debug:
            raise
        told = (
            f"unexpected {type(error).__name__}: {' '.join(str(error).split())} (alpha --debug shows where)"
        )
        console.print(f"error: {told}", markup=False, style="red", soft_wrap=True)
        sys.exit(EXIT_ERROR)


def main(arguments: Sequence[str] | None = None) -> Any:
    """Entry point of the console script."""
    warnings.simplefilter("ignore")
    progress = logging.getLogger("alpha.progress")
    progress.setLevel(logging.INFO)
    progress.propagate = False
    progress.handlers = [_Progress()]
    with _one_sentence():
        return app(args=arguments)


if __name__ == "__main__":
    main()
