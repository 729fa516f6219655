"""`tdrop ui`: both pages answer, say where they are, and leave no process behind."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import httpx
import pytest
from waiting import LIMIT_SECONDS, is_gone, wait_until

from flows.orchestration import announced, answers, free_port
from tdrop.base import TdropError

TDROP = Path(sys.executable).with_name("tdrop")


@pytest.fixture
def environment(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_TRACKING"))}
    return {**kept, "TDROP_HOME": str(tmp_path / "home"), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


def test_both_pages_answer_until_ctrl_c(environment, tmp_path):
    prefect, mlflow = free_port(), free_port()
    command = [str(TDROP), "ui", "--prefect-port", str(prefect), "--mlflow-port", str(mlflow)]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said = read_until(process, "Ctrl-C stops both")
        assert f"export PREFECT_API_URL=http://127.0.0.1:{prefect}/api" in said
        assert "<html" in fetch(f"http://127.0.0.1:{prefect}/").lower()
        assert "mlflow" in fetch(f"http://127.0.0.1:{mlflow}/").lower()
        wait_until(lambda: announced(tmp_path / "home") == f"http://127.0.0.1:{prefect}/api")
        assert_closed("POST", f"http://127.0.0.1:{prefect}/api/flows/", {"name": "planted"})
        assert_closed("POST", f"http://127.0.0.1:{mlflow}/api/2.0/mlflow/experiments/create", {"name": "planted"})
        assert_closed("PUT", f"http://127.0.0.1:{mlflow}/api/2.0/mlflow-artifacts/artifacts/planted.json", {"a": "b"})
        second = subprocess.run(
            [str(TDROP), "ui", "--prefect-port", str(free_port()), "--mlflow-port", str(free_port())],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        addresses = f"Prefect http://127.0.0.1:{prefect}, MLflow http://127.0.0.1:{mlflow}"
        assert f"`tdrop ui` is running on {tmp_path / 'home'} already: {addresses}" in second.stderr
        assert len(second.stderr.strip().splitlines()) == 1
        assert announced(tmp_path / "home") is not None, "the second took the first one's note away"
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 0
    assert not answers(f"http://127.0.0.1:{prefect}/api/health")
    assert not answers(f"http://127.0.0.1:{mlflow}/health")
    assert announced(tmp_path / "home") is None
    assert {file.name for file in (tmp_path / "home" / "logs").iterdir()} == {"prefect.log", "mlflow.log"}
    assert {file.name for file in tmp_path.iterdir()} == {"home"}, "something was written beside the home"


def assert_closed(method: str, address: str, wanted: dict[str, str]) -> None:
    """Something is made for the server's own page, and for no other page or host name."""
    own = address.split("/api")[0]
    origins = ("https://evil.example", "null", "http://127.0.0.1:8080", "http://localhost:3000", "https://localhost")
    for foreign in (*({"Origin": origin} for origin in origins), {"Host": "evil.example"}):
        refused = httpx.request(method, address, json=wanted, headers=foreign, timeout=LIMIT_SECONDS)
        assert refused.status_code in {400, 403}, (address, foreign)
        assert "access-control-allow-origin" not in refused.headers
    made = httpx.request(method, address, json=wanted, headers={"Origin": own}, timeout=LIMIT_SECONDS)
    assert made.is_success, address


def read_until(process: subprocess.Popen[str], words: str) -> str:
    said = io.StringIO()
    for line in process.stdout:
        said.write(line)
        if words in line:
            return said.getvalue()
    raise AssertionError(said.getvalue())


def fetch(address: str) -> str:
    with urllib.request.urlopen(address, timeout=LIMIT_SECONDS) as answer:
        return str(answer.read().decode())


def test_a_port_in_use_is_one_sentence(environment, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        failed = subprocess.run(
            [str(TDROP), "ui", "--prefect-port", str(port), "--mlflow-port", str(free_port())],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"tdrop: port {port} for Prefect is in use")
    assert len(failed.stderr.strip().splitlines()) == 1


def test_a_server_dies_with_the_command_that_started_it(tmp_path):
    program = (
        "import subprocess, sys, time\nfrom pathlib import Path\nfrom flows.orchestration import starting\n"
        "with starting('sleep', ['sleep', '3600'], '', Path(sys.argv[1]), {}) as server:\n"
        "    print(server.process.pid, flush=True)\n    time.sleep(3600)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    wait_until(lambda: is_gone(child))


def test_a_server_that_stops_while_starting_is_one_sentence(tmp_path):
    from flows.orchestration import serving

    command = [sys.executable, "-c", "raise SystemExit(3)"]
    server = serving("Prefect", command, "http://127.0.0.1:9", tmp_path / "log", {})
    with pytest.raises(TdropError, match=r"Prefect stopped \(exit code 3\); its log is"), server:
        pass


def test_a_configured_server_that_is_down_is_one_sentence(monkeypatch):
    from flows.orchestration import prefect_server
    from tdrop.base import Unavailable

    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9/api does not answer"), prefect_server():
        pass
