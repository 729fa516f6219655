"""What a task's failure says: never another package's message, which may hold patients' values."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys

import pytest
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName

from tasks import errors
from tasks.errors import RETRY_UNAVAILABLE, sanitize_errors
from tdrop.base import DataError, OutOfMemory, OutOfTime, TdropError, Unavailable, listen_to_notices

PATIENT_ID = "MIL0000001"


def failing(error):
    @sanitize_errors
    def read():
        raise error

    return read


def test_another_packages_message_is_left_out():
    with pytest.raises(TdropError, match="read failed with ValueError") as caught:
        failing(ValueError(f"could not convert '{PATIENT_ID}'"))()
    assert PATIENT_ID not in str(caught.value)
    assert caught.value.__suppress_context__


def test_our_own_sentence_goes_through_and_a_lost_connection_may_be_tried_again():
    with pytest.raises(DataError, match="send it again"):
        failing(DataError("the extract is cut off; send it again"))()
    with pytest.raises(Unavailable, match="ConnectionRefusedError"):
        failing(ConnectionRefusedError(f"no {PATIENT_ID}"))()


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread"), OSError(errno.ENOMEM, "Cannot allocate memory")]
)
def test_memory_that_is_used_up_is_one_sentence(error):
    with pytest.raises(OutOfMemory, match="there is no memory left; run the same command again with fewer --processes"):
        failing(error)()


@pytest.mark.parametrize(("command", "most", "needs"), [("status", 1.0, "2.0"), ("transfer", 3.0, "4.0")])
def test_a_limit_of_addresses_that_libraries_die_under_is_one_sentence(command, most, needs):
    """Before anything is loaded: BLAS and the import machinery would each say it in hundreds of lines."""
    limit = round(most * 1e9)
    result = subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main()", command],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(
        f"tdrop: this process may use {most} GB of address space (`ulimit -v`) and needs {needs}"
    )
    assert result.stderr.count("\n") == 1


def test_prefects_own_errors_are_left_to_it():
    import httpx

    with pytest.raises(httpx.ConnectError):
        failing(httpx.ConnectError("no server"))()


def test_prefect_keeps_no_patients_values_of_a_failure(prefect_server, caplog):
    @task
    @sanitize_errors
    def convert():
        raise ValueError(f"could not convert '{PATIENT_ID}'")

    @flow(name="fails")
    def fails():
        convert()

    with pytest.raises(TdropError):
        fails()
    ours = FlowFilter(name=FlowFilterName(any_=["fails"]))
    with get_client(sync_client=True) as client:
        runs = [*client.read_flow_runs(flow_filter=ours), *client.read_task_runs(flow_filter=ours)]
    messages = [run.state.message for run in runs if run.state is not None and run.state.message]
    assert any("convert failed with ValueError" in message for message in messages)
    assert not [message for message in messages if PATIENT_ID in message]
    assert PATIENT_ID not in caplog.text


def test_only_what_was_out_of_reach_is_tried_again_and_each_try_is_announced(prefect_server, monkeypatch):
    monkeypatch.setattr(errors, "BACKOFF_SECONDS", [0.0] * 3)
    quick = {**RETRY_UNAVAILABLE, "retry_delay_seconds": 0}
    tries, said = [], []
    listen_to_notices(said.append)

    def attempt(error):
        @task(name="read", **quick)
        @sanitize_errors
        def read():
            tries.append(type(error).__name__)
            if len(tries) < 3:
                raise error

        @flow(name="attempts")
        def attempts():
            read()

        attempts()

    attempt(Unavailable("table 'x': locked; end that program"))
    assert tries == ["Unavailable"] * 3
    assert said == ["read: table 'x': locked; trying again in 0 s"] * 2
    listen_to_notices(None)
    for lasting in (DataError("wrong"), OutOfTime("endless")):
        tries.clear()
        with pytest.raises(DataError):
            attempt(lasting)
        assert tries == [type(lasting).__name__]
