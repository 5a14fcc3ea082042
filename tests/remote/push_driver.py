"""Pushes files of one day, one after the other, until it is killed: `push_driver.py URL START [--once] FILE ...`.

Waits for the file START to appear, so that several of these begin at once.
"""

import json
import sys
import time
from itertools import cycle
from pathlib import Path

from alpha_pipeline.bucket import Bucket
from alpha_pipeline.fxcache import open_day
from alpha_pipeline.fxcache.shared import SharedDays

url, start, *files = sys.argv[1:]
once = files[0] == "--once"
shared = SharedDays(Bucket(url), "demo")
shared.days(), open_day(Path(files[-1]), verify="full")  # everything is loaded when the race begins
print("ready", flush=True)
while not Path(start).exists():
    time.sleep(0.001)
if once:
    print(json.dumps(shared.push(Path(files[1])).outcome), flush=True)
else:
    for file in cycle(files):
        shared.push(Path(file), replace=True)
        print(file, flush=True)
