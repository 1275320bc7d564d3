"""Servers as subprocesses: ready, dead, paused, restarted."""

import signal

import pytest

from localcluster.errors import LocalClusterError
from localcluster.processes import Server
from localcluster.waiting import wait_until
from tests.localcluster.conftest import ServerFactory

SLEEP = "import time; time.sleep(60)"
READY_THEN_SLEEP = "open('ready', 'w').close(); import time; time.sleep(60)"


def test_start_returns_when_the_server_answers(http_server: Server) -> None:
    """After `start` the server serves."""
    assert http_server.start() > 0
    assert http_server.is_ready()


def test_server_that_dies_early_shows_the_end_of_its_log(program: ServerFactory) -> None:
    """A process that ends before it is ready raises at once, with its exit code and last words."""
    server = program("print('cannot open the database'); raise SystemExit(3)")
    with pytest.raises(LocalClusterError, match=r"program ended with code 3:\n(?s:.*)cannot open the database"):
        server.start()
    assert not server.running


def test_server_that_is_never_ready_is_killed(program: ServerFactory) -> None:
    """A process that does not become ready in time is ended, and its log shown."""
    server = program(f"print('still loading', flush=True); {SLEEP}", ready_timeout_seconds=0.5)
    with pytest.raises(LocalClusterError, match=r"program ready: not within 2 s\n(?s:.*)still loading"):
        server.start()
    assert not server.running


def test_program_that_does_not_exist_is_named(program: ServerFactory) -> None:
    """A missing executable is an error that names the server."""
    server = program("")
    server.command.arguments[0:1] = ["/nonexistent/etcd"]  # type: ignore[index] # the fixture made a list
    with pytest.raises(LocalClusterError, match=r"program cannot be started: .*/nonexistent/etcd"):
        server.start()


def test_killed_server_starts_again_on_its_port(http_server: Server) -> None:
    """Kill -9 and `start` bring the same address back."""
    http_server.start()
    first = http_server.pid
    http_server.kill()
    assert not http_server.is_ready()
    http_server.start()
    assert http_server.is_ready()
    assert http_server.pid != first


def test_paused_server_answers_only_after_resume(http_server: Server) -> None:
    """SIGSTOP leaves the process and its port, without answers; SIGCONT brings the answers back."""
    http_server.start()
    http_server.pause()
    assert http_server.running
    assert not http_server.is_ready()
    http_server.resume()
    wait_until(http_server.is_ready, timeout_seconds=5, description="answer after resume")


def test_stop_ends_a_paused_server(http_server: Server) -> None:
    """A frozen process ends too."""
    http_server.start()
    http_server.pause()
    http_server.stop()
    assert not http_server.running


def test_stop_ends_a_server_that_ignores_sigterm(program: ServerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not end on SIGTERM within its grace is killed."""
    monkeypatch.setattr("localcluster.processes.STOP_GRACE_SECONDS", 0.2)
    server = program(f"import signal; signal.signal({int(signal.SIGTERM)}, signal.SIG_IGN); {READY_THEN_SLEEP}")
    server.start()
    server.stop()
    assert not server.running


def test_server_cannot_be_started_twice(http_server: Server) -> None:
    """A second `start` without an end is a mistake of the caller."""
    http_server.start()
    with pytest.raises(LocalClusterError, match="http is already running"):
        http_server.start()


def test_pid_of_a_server_that_was_not_started_is_an_error(http_server: Server) -> None:
    """There is no process id before `start`."""
    with pytest.raises(LocalClusterError, match="http is not running"):
        _ = http_server.pid


def test_check_tells_of_a_server_that_ended_later(program: ServerFactory) -> None:
    """A server that served and then ended by itself is noticed by `check`."""
    server = program("import pathlib; pathlib.Path('ready').touch(); print('out of memory'); raise SystemExit(137)")
    server.launch()
    wait_until(lambda: not server.running, timeout_seconds=5, description="the end of the program")
    with pytest.raises(LocalClusterError, match=r"program ended with code 137:\n(?s:.*)out of memory"):
        server.check()
