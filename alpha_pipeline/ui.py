"""`alpha ui`: Dagster's pages and daemon and the MLflow page, started and stopped together.

Belongs here: which programs, on which ports, with which settings. How children are kept alive and ended is
`supervisor`'s. One code server holds the imported pipeline for both the page and the daemon: each would load
its own copy otherwise.
"""

import json
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from alpha_core.errors import AlphaError
from alpha_pipeline.supervisor import Service, Supervisor, free_port
from alpha_pipeline.tracking import default_uri

_CODE_PORT = 4266
_QUIET = {
    "DAGSTER_DISABLE_TELEMETRY": "yes",
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # its job runner serves features we do not use
    "PYTHONUNBUFFERED": "1",
}


# Not "logs": Dagster takes all in a folder of that name for telemetry, uploads it and deletes it.
_LOGS = "ui_logs"


class UiError(AlphaError):
    """The pages cannot be served from this folder."""


def run_ui(
    home: Path,
    *,
    dagster_port: int = 3000,
    mlflow_port: int = 5000,
    host: str = "127.0.0.1",
    open_browser: bool = False,
    data: Path | None = None,
    module: str = "alpha_pipeline.definitions",
    say: Callable[[str], None] = print,
) -> None:
    """Serve the pages until Ctrl-C or SIGTERM; returns then, with every child ended.

    Args:
        home: the Dagster home: settings, databases, `ui_logs/`.
        dagster_port: port of Dagster's page; the next free one above it when busy.
        mlflow_port: likewise for MLflow's.
        host: address to listen on. The pages have no password: leave it at loopback.
        open_browser: also open Dagster's page.
        data: folder of artifacts, by default `data` beside `home`.
        module: Python module with the Dagster definitions.
        say: where to write the links.

    Raises:
        UiError: `home` has no dagster.yaml, or another `alpha ui` serves it.
        ServiceError: a program did not start or died; the text names its log.
    """
    home = home.resolve()
    if not (home / "dagster.yaml").is_file():
        raise UiError(f"{home} holds no dagster.yaml: copy the project's dagster_home/dagster.yaml there")
    data = (data or home.parent / "data").resolve()
    say(f"Starting Dagster and MLflow, logs in {home / _LOGS} ...")
    try:
        with FileLock(home / "ui.lock", timeout=0), Supervisor(home / _LOGS) as supervisor:
            plan = _Plan.make(
                home, data, module, host=host, dagster_port=dagster_port, mlflow_port=mlflow_port
            )

            def on_ready() -> None:
                say(f"Dagster  {plan.dagster_url}\nMLflow   {plan.mlflow_url}\nStop with Ctrl-C.")
                if open_browser:
                    webbrowser.open(plan.dagster_url)

            _serve(supervisor, plan, on_ready)
    except Timeout as error:
        raise UiError(f"another `alpha ui` already serves {home}: stop it first") from error


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What to run. `mlflow` is None where runs go to a server that somebody else runs."""

    code: Service
    webserver: Service
    daemon: Service
    mlflow: Service | None
    dagster_url: str
    mlflow_url: str

    @classmethod
    def make(
        cls, home: Path, data: Path, module: str, *, host: str, dagster_port: int, mlflow_port: int
    ) -> "_Plan":
        tracking, mlflow = default_uri(home), None
        mlflow_url = tracking
        dagster_port = free_port(host, dagster_port)
        if not tracking.startswith("http"):
            mlflow_port = free_port(host, mlflow_port, taken=[dagster_port])
            mlflow_url = f"http://{host}:{mlflow_port}"
            mlflow = _mlflow(tracking, data / "mlflow", host, mlflow_port)
        environment = {**_QUIET, "DAGSTER_HOME": str(home), "ALPHA_MLFLOW_URL": mlflow_url}
        workspace, code_port = home / "ui_workspace.yaml", free_port("127.0.0.1", _CODE_PORT)
        # The name identifies schedules and sensors a person has switched on: it must not depend on the port.
        server = {"host": "127.0.0.1", "port": code_port, "location_name": module}
        workspace.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))  # JSON is YAML
        return cls(
            code=_code_server(module, code_port, environment),
            webserver=_webserver(workspace, host, dagster_port, environment),
            daemon=_daemon(workspace, environment),
            mlflow=mlflow,
            dagster_url=f"http://{host}:{dagster_port}",
            mlflow_url=mlflow_url,
        )


def _serve(supervisor: Supervisor, plan: _Plan, on_ready: Callable[[], None]) -> None:
    """Start all, report, stay until a signal or a death. The code server is first: the page reads it."""
    others = [plan.mlflow] if plan.mlflow else []
    for service in (plan.code, *others):
        supervisor.start(service)
    if not supervisor.wait_for(plan.code):
        return
    for service in (plan.webserver, plan.daemon):
        supervisor.start(service)
    if supervisor.wait_for(plan.webserver, *others):
        on_ready()
        supervisor.supervise()


def _mlflow(uri: str, artifacts: Path, host: str, port: int) -> Service:
    return Service(
        name="mlflow",
        command=(sys.executable, "-m", "alpha_pipeline.tracking", uri, str(artifacts), host, str(port)),
        probe=f"http://{host}:{port}/health",
        environment=_QUIET,
    )


def _code_server(module: str, port: int, environment: dict[str, str]) -> Service:
    options = {"--module-name": module, "--location-name": module, "--host": "127.0.0.1", "--port": str(port)}
    words = [word for option in options.items() for word in option]
    return Service(
        name="code",
        command=(sys.executable, "-m", "dagster", "code-server", "start", *words),
        probe=f"tcp://127.0.0.1:{port}",
        environment=environment,
    )


def _webserver(workspace: Path, host: str, port: int, environment: dict[str, str]) -> Service:
    options = ("--host", host, "--port", str(port), "--workspace", str(workspace))
    return Service(
        name="webserver",
        command=(sys.executable, "-m", "dagster_webserver", *options),
        probe=f"http://{host}:{port}/server_info",
        environment=environment,
    )


def _daemon(workspace: Path, environment: dict[str, str]) -> Service:
    return Service(
        name="daemon",
        command=(sys.executable, "-m", "dagster._daemon", "run", "--workspace", str(workspace)),
        environment=environment,
    )
