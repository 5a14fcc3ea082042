"""Serve the MLflow page of a tracking database: `python -m alpha_pipeline.tracking URI ARTIFACTS HOST PORT`.

Makes the store first, under the lock, then becomes MLflow's own server: two processes that migrate a new
database at the same time break each other, and MLflow's server does not know our lock.
"""

import os
import sys

from alpha_pipeline.tracking import Tracker


def main(uri: str, artifacts: str, host: str, port: str) -> None:
    """Replace this process by `mlflow server`."""
    Tracker(uri, artifacts).prepare()
    options = {
        "--backend-store-uri": uri,
        "--artifacts-destination": artifacts,
        "--host": host,
        "--port": port,
        "--workers": "1",
    }
    words = [word for option in options.items() for word in option]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "server", *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
