"""`alpha cache push` and `pull`: cached days to and from a folder that others read. Parses, calls, prints."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alpha_pipeline.paths import Workspace

if TYPE_CHECKING:
    from alpha_pipeline.fxcache.shared import Exchanged

INSTRUMENT = Annotated[str, typer.Option(help="Name of a file in instruments/, without .toml.")]
DAY = Annotated[list[str] | None, typer.Option(help="Only this day; may be repeated.")]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
URL_HELP = "Shared folder: s3://bucket/prefix, file:///folder or a path."


def push(
    to: Annotated[str, typer.Option(help=URL_HELP)],
    instrument: INSTRUMENT = "demo",
    day: DAY = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace days of which another file is in force.")
    ] = False,
    as_json: AS_JSON = False,
) -> None:
    """Put cached days in force in a shared folder; exit code 1 when one was refused."""
    from alpha_pipeline.exchange import push_days

    _tell(push_days(instrument, Workspace.locate(), to, day or (), replace=replace), as_json)


def pull(
    source: Annotated[str, typer.Option("--from", help=URL_HELP)],
    instrument: INSTRUMENT = "demo",
    day: DAY = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files; data/pulled/<instrument> if not given.")
    ] = None,
    as_json: AS_JSON = False,
) -> None:
    """Make verified local files of the days in a shared folder."""
    from alpha_pipeline.exchange import pull_days

    _tell(pull_days(instrument, Workspace.locate(), source, day or (), out), as_json)


def _tell(results: "Iterable[Exchanged]", as_json: bool) -> None:
    found = []
    for one in results:
        found.append(one)
        if not as_json:
            print(f"{one.day} {one.outcome}: {one.detail} ({one.file})")
    if as_json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=1, default=str))
    raise typer.Exit(1 if any(one.outcome == "refused" for one in found) else 0)
