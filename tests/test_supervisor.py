"""Children that live and die together."""

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from alpha_pipeline.supervisor import Service, ServiceError, Supervisor, free_port

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
# A program that starts another and ignores the polite request to end.
STUBBORN = (
    sys.executable, "-c",
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen(['sleep', '60']); print(child.pid, flush=True); time.sleep(60)",
)  # fmt: skip


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until(condition, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def pids_of(supervisor: Supervisor) -> list[int]:
    return [child.pid for child in supervisor._children.values()]


def test_children_end_with_the_block_even_on_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), Supervisor(tmp_path) as supervisor:
        supervisor.start(Service(name="a", command=SLEEP))
        supervisor.start(Service(name="b", command=SLEEP))
        pids = pids_of(supervisor)
        assert all(map(is_alive, pids))
        raise ZeroDivisionError
    assert not any(map(is_alive, pids))


def test_death_of_one_is_reported_with_its_log_and_ends_the_others(tmp_path):
    with (
        pytest.raises(ServiceError, match=r"broken stopped with exit code 7; see .*broken\.log"),
        Supervisor(tmp_path) as supervisor,
    ):
        supervisor.start(Service(name="steady", command=SLEEP))
        supervisor.start(Service(name="broken", command=(sys.executable, "-c", "print('why'); exit(7)")))
        steady = pids_of(supervisor)[0]
        supervisor.supervise()
    assert not is_alive(steady)
    assert supervisor.log_of("broken").read_text() == "why\n"


def test_stubborn_child_and_grandchild_are_killed(tmp_path):
    with Supervisor(tmp_path, grace=0.3) as supervisor:
        supervisor.start(Service(name="stubborn", command=STUBBORN))
        log = supervisor.log_of("stubborn")
        assert until(lambda: log.read_text().endswith("\n"))
        pids = [*pids_of(supervisor), int(log.read_text())]
        assert all(map(is_alive, pids))
    assert until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_watch_and_handlers_are_put_back(tmp_path, number):
    before = signal.getsignal(number)
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(Service(name="a", command=SLEEP))
        threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
        supervisor.supervise()
        pids = pids_of(supervisor)
    assert not any(map(is_alive, pids))
    assert signal.getsignal(number) is before


def test_children_of_a_background_job_can_be_interrupted(tmp_path):
    """A shell starts background jobs with SIGINT ignored; that must not reach the children."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom alpha_pipeline.supervisor import Service, Supervisor\n"
        "with Supervisor(Path(sys.argv[1])) as s:\n"
        "    s.start(Service(name='child', command=('grep', 'SigIgn', '/proc/self/status')))\n"
        "    s._children['child'].wait()\n"
    )
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    subprocess.run([*ignoring, sys.executable, "-c", code, str(tmp_path)], check=True)
    mask = int((tmp_path / "child.log").read_text().split()[1], 16)
    assert not mask >> (signal.SIGINT - 1) & 1


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_killed_parent_leaves_no_orphan(tmp_path):
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from alpha_pipeline.supervisor import Service, Supervisor\n"
        "with Supervisor(Path(sys.argv[1])) as s:\n"
        "    s.start(Service(name='child', command=('sleep', '60')))\n"
        "    print(s._children['child'].pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert until(lambda: not is_alive(child))


def test_readiness_is_waited_for(tmp_path):
    port = free_port("127.0.0.1", 41200)
    late = f"import time; time.sleep(0.5); import runpy, sys; sys.argv=['x','{port}','--bind','127.0.0.1'];"
    service = Service(
        name="pages",
        command=(sys.executable, "-c", late + "runpy.run_module('http.server', run_name='__main__')"),
        probe=f"http://127.0.0.1:{port}/",
    )
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(service)
        assert supervisor.wait_for(service)
        with socket.create_connection(("127.0.0.1", port), 1):
            pass


def test_service_that_never_answers_is_named(tmp_path):
    port = free_port("127.0.0.1", 41300)
    service = Service(name="mute", command=SLEEP, probe=f"tcp://127.0.0.1:{port}")
    with (
        pytest.raises(ServiceError, match="mute did not answer within 0 s"),
        Supervisor(tmp_path, patience=0.3) as supervisor,
    ):
        supervisor.start(service)
        supervisor.wait_for(service)


def test_page_that_fails_is_not_ready(tmp_path):
    class Failing(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(503)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    service = Service(name="ill", command=SLEEP, probe=f"http://127.0.0.1:{server.server_port}/")
    try:
        with pytest.raises(ServiceError, match="ill did not answer"), Supervisor(tmp_path, patience=0.3) as s:
            s.start(service)
            s.wait_for(service)
    finally:
        server.shutdown()
        server.server_close()


def test_program_that_does_not_exist_is_one_sentence(tmp_path):
    with pytest.raises(ServiceError, match="ghost could not be started"), Supervisor(tmp_path) as supervisor:
        supervisor.start(Service(name="ghost", command=("/nowhere/ghost",)))


def test_last_log_is_kept(tmp_path):
    for word in ("first", "second"):
        with Supervisor(tmp_path) as supervisor:
            supervisor.start(Service(name="a", command=("echo", word)))
            supervisor._children["a"].wait()
    assert (tmp_path / "a.log").read_text() == "second\n"
    assert (tmp_path / "a.previous.log").read_text() == "first\n"


def test_busy_port_gives_the_next_free_one():
    with socket.socket() as holder:
        port = free_port("127.0.0.1", 41400)
        holder.bind(("127.0.0.1", port))
        holder.listen()
        assert free_port("127.0.0.1", port) > port
        assert free_port("127.0.0.1", port, taken=range(port, port + 5)) >= port + 5
        with pytest.raises(ServiceError, match="all busy"):
            free_port("127.0.0.1", port, taken=range(port, port + 50))
