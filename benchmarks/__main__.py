"""`make bench`: runs every script beside this one and writes what was seen into docs/benchmarks.md."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from measure import ROOT, machine

SCRIPTS = ("ingest", "features", "simulator", "staleness", "perception")
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


def main() -> None:
    lines = [
        f"Written by `make bench`. {machine()}.",
        "",
        "| what | figure | bar | script |",
        "|---|---|---|---|",
    ]
    for name in sys.argv[1:] or SCRIPTS:
        print(f"benchmarks/{name}.py ...", flush=True)
        done = subprocess.run(
            [sys.executable, str(HERE / f"{name}.py")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for row in json.loads(done.stdout.splitlines()[-1]):
            print(f"  {row['what']}: {row['figure']} (bar {row['bar'] or 'none'})", flush=True)
            lines.append(
                f"| {row['what']} | {row['figure']} | {row['bar'] or '-'} | `benchmarks/{name}.py` |"
            )
    if sys.argv[1:]:
        return  # a part is shown, the page holds whole runs only
    text = PAGE.read_text()
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + after)


if __name__ == "__main__":
    main()
