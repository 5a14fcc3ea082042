"""The pages, started for real with a small Dagster module of the test's own."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from alpha_pipeline.ui import UiError, run_ui

ROOT = Path(__file__).resolve().parent.parent
DEFINITIONS = """
import dagster as dg

@dg.asset
def tide_table() -> int:
    return 1

defs = dg.Definitions(assets=[tide_table])
"""
START = """
import sys
from pathlib import Path
from alpha_pipeline.ui import run_ui
run_ui(Path(sys.argv[1]), dagster_port=int(sys.argv[2]), mlflow_port=int(sys.argv[3]), module="tides")
"""
LAUNCH = """mutation { launchRun(executionParams: {
  selector: {repositoryLocationName: "tides", repositoryName: "__repository__", pipelineName: "__ASSET_JOB",
             assetSelection: [{path: ["tide_table"]}]}, runConfigData: "{}"
}) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
MARK = "ALPHA_TEST_MARK"
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "dagster_home"
    folder.mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", folder)
    (tmp_path / "tides.py").write_text(DEFINITIONS)
    return folder


def graphql(url: str, query: str) -> dict:
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    with OPEN.open(request, timeout=30) as answer:
        return json.load(answer)["data"]


def files_dagster_would_upload(home: Path) -> list[Path]:
    folders = [home / "logs", home / ".logs_queue"]
    return [path for folder in folders if folder.is_dir() for path in folder.iterdir()]


def processes_with(word: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "environ").read_bytes() and (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


@contextlib.contextmanager
def serving(home: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`run_ui` in a process started as a shell starts a background job: with SIGINT ignored."""
    environment = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    environment |= {"PYTHONPATH": f"{home.parent}:{ROOT}", "PYTHONUNBUFFERED": "1", MARK: str(home)}
    background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    ui = subprocess.Popen(
        [*background, sys.executable, "-c", START, str(home), str(port), str(port)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ui.stdout is not None
    lines = []
    try:
        for line in ui.stdout:
            lines.append(line)
            if "Stop with" in line:
                break
        yield ui, "".join(lines)
    finally:
        ui.send_signal(signal.SIGINT)
        ui.communicate(timeout=40)


def daemons_become_healthy(url: str) -> bool:
    query = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy required } } } }"
    for _ in range(60):
        statuses = graphql(url, query)["instance"]["daemonHealth"]["allDaemonStatuses"]
        required = [status for status in statuses if status["required"]]
        if required and all(status["healthy"] for status in required):
            return True
        time.sleep(0.5)
    return False


def materialize(url: str) -> str:
    """Press the button as the page does, and wait for the run's last status."""
    launched = graphql(url, LAUNCH)["launchRun"]
    assert launched["__typename"] == "LaunchRunSuccess", launched
    query = f'{{ runOrError(runId: "{launched["run"]["runId"]}") {{ ... on Run {{ status }} }} }}'
    status = ""
    for _ in range(120):
        status = graphql(url, query)["runOrError"]["status"]
        if status in ("SUCCESS", "FAILURE", "CANCELED"):
            break
        time.sleep(0.5)
    return status


def test_pages_come_up_beside_a_busy_port_run_the_graph_and_end_on_an_interrupt(home):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        busy = holder.getsockname()[1]
        with serving(home, busy) as (ui, text):
            dagster = re.search(r"Dagster +(http://\S+)", text)
            mlflow = re.search(r"MLflow +(http://\S+)", text)
            assert dagster is not None, text
            assert mlflow is not None, text
            assert len({dagster[1], mlflow[1], f"http://127.0.0.1:{busy}"}) == 3
            assert daemons_become_healthy(dagster[1])
            names = graphql(
                dagster[1], "{ workspaceOrError { ... on Workspace { locationEntries { name } } } }"
            )
            assert names["workspaceOrError"]["locationEntries"] == [{"name": "tides"}]
            assert materialize(dagster[1]) == "SUCCESS"
            with OPEN.open(f"{mlflow[1]}/", timeout=30) as page:
                assert b"MLflow" in page.read()
            with pytest.raises(UiError, match="already serves"):
                run_ui(home, module="tides", say=lambda _: None)
    assert ui.returncode == 0
    assert processes_with(f"{MARK}={home}") == []
    assert (home / "mlflow.db").is_file()
    assert (home / "history").is_dir()
    logs = {path.name: path.read_text() for path in (home / "ui_logs").iterdir()}
    assert sorted(logs) == ["code.log", "daemon.log", "mlflow.log", "webserver.log"]
    assert files_dagster_would_upload(home) == []
    assert "Serving dagster-webserver" in logs["webserver.log"]


def test_home_without_settings_is_refused(tmp_path):
    with pytest.raises(UiError, match=r"no dagster\.yaml"):
        run_ui(tmp_path)


def test_home_in_use_is_refused_before_anything_is_written(home):
    with FileLock(home / "ui.lock"), pytest.raises(UiError, match="stop it first"):
        run_ui(home, module="tides", say=lambda _: None)
    assert not (home / "ui_workspace.yaml").exists()
    assert not (home / "ui_logs").exists()


def test_committed_settings_are_what_dagster_reads(home):
    code = (
        "import dagster as dg, json\n"
        "with dg.DagsterInstance.get() as i:\n"
        "    print(json.dumps([i.telemetry_enabled, i.nux_enabled, i.run_coordinator.inst_data.config_dict,\n"
        "                      i.root_directory]))\n"
    )
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    telemetry, nux, queue, root = json.loads(answer.stdout)
    assert (telemetry, nux, root) == (False, False, str(home))
    assert queue == {"max_concurrent_runs": 2}
