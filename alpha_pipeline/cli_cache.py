"""`alpha cache ...`: what people type about the feature cache. Parses, calls one function, prints."""

import dataclasses
import json
from typing import Annotated, Any

import typer

from alpha_pipeline import cli_shared
from alpha_pipeline.paths import Workspace

app = typer.Typer(help="Look at the feature cache, verify it, clean up behind it.", no_args_is_help=True)
app.command()(cli_shared.push)
app.command()(cli_shared.pull)

INSTRUMENT = Annotated[str, typer.Option(help="Name of a file in instruments/, without .toml.")]
RAW = Annotated[str | None, typer.Option(help="Folder or URL with raw files.")]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def _scope(instrument: str, raw: str | None) -> Any:
    from alpha_pipeline.run import scope_of

    return scope_of(instrument, Workspace.locate(), raw=raw)


@app.command()
def ls(instrument: INSTRUMENT = "demo", raw: RAW = None, as_json: AS_JSON = False) -> None:
    """List the cached days: version, rows, size, status, and why a day is stale."""
    from alpha_pipeline.cached_days import list_cached

    lines = list_cached(_scope(instrument, raw))
    if as_json:
        print(json.dumps([dataclasses.asdict(line) for line in lines], indent=1))
        return
    for line in lines:
        version = "v?" if line.version is None else f"v{line.version}"
        marks = "; ".join([*line.degraded, *line.stale]) or "up to date"
        facts = (
            f"{line.rows:>9} rows {line.bytes / 1e6:>8.1f} MB {line.status:<8} {line.sampler} {line.builder}"
        )
        print(f"{line.day} {version} {facts} {marks}")
    total = sum(line.bytes for line in lines)
    print(f"{len(lines)} days, {total / 1e6:.1f} MB, {sum(bool(line.stale) for line in lines)} stale")


@app.command()
def verify(
    instrument: INSTRUMENT = "demo",
    raw: RAW = None,
    day: Annotated[list[str] | None, typer.Option(help="Only this day; may be repeated.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Compare all checksums; reads whole files.")] = False,
    as_json: AS_JSON = False,
) -> None:
    """Check the files of cached days; damaged ones become stale, and the exit code is 1."""
    from alpha_pipeline.cached_days import verify_cached

    found = list(verify_cached(_scope(instrument, raw), day or (), full=full))
    bad = [one for one in found if one.problem is not None]
    if as_json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=1))
    else:
        for one in bad:
            print(f"{one.day}: {one.problem}")
        print(f"{len(found)} days verified, {len(bad)} damaged")
    raise typer.Exit(1 if bad else 0)


@app.command()
def gc(
    instrument: INSTRUMENT = "demo",
    raw: RAW = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AS_JSON = False,
) -> None:
    """Remove what killed and superseded attempts left behind; nothing in force and nothing younger than an hour."""
    from alpha_pipeline.cached_days import collect_garbage

    found = collect_garbage(_scope(instrument, raw), dry_run=dry_run)
    if as_json:
        print(json.dumps([{"path": str(one.path), "bytes": one.bytes} for one in found], indent=1))
        return
    for one in found:
        print(f"{one.path}: {one.bytes / 1e6:.1f} MB")
    verb = "would be removed" if dry_run else "removed"
    print(f"{len(found)} leftovers {verb}, {sum(one.bytes for one in found) / 1e6:.1f} MB")


@app.command()
def show(
    day: Annotated[str, typer.Argument(help="YYYY-MM-DD")],
    instrument: INSTRUMENT = "demo",
    raw: RAW = None,
    as_json: AS_JSON = False,
) -> None:
    """Tell everything about one cached day: header, counts, ties, stamps, quality."""
    from alpha_pipeline.cached_days import describe_cached

    facts = describe_cached(_scope(instrument, raw), day)
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    for name, value in facts.items():
        print(f"{name}: {json.dumps(value) if isinstance(value, (dict, list, tuple)) else value}")
