"""What a step's failure says: never another package's words, which may hold patients' values."""

from __future__ import annotations

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from tasks.step import discreet, step, when_unavailable

from tasks import step as steps
from tdrop.base import DataError, OutOfTime, TdropError, Unavailable, listen_to_notices

PATIENT_ID = "MIL0000001"


def failing(error):
    def run():
        raise error

    return discreet("read", run)


def test_another_packages_words_are_left_out():
    with pytest.raises(TdropError, match="read failed with ValueError") as caught:
        failing(ValueError(f"could not convert '{PATIENT_ID}'"))()
    assert PATIENT_ID not in str(caught.value)
    assert caught.value.__suppress_context__


def test_our_own_sentence_goes_through_and_silence_may_be_tried_again():
    with pytest.raises(DataError, match="send it again"):
        failing(DataError("the extract is cut off; send it again"))()
    with pytest.raises(Unavailable, match="ConnectionRefusedError"):
        failing(ConnectionRefusedError(f"no {PATIENT_ID}"))()


def test_the_orchestrators_own_errors_are_left_to_it():
    import httpx

    with pytest.raises(httpx.ConnectError):
        failing(httpx.ConnectError("no server"))()


def test_prefect_keeps_no_patients_values_of_a_failure(prefect_server, caplog):
    @step("convert", "convert")
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
    states = [run.state for run in runs]
    messages = [state.message for state in states if state is not None and state.message]
    assert any("convert failed with ValueError" in message for message in messages)
    assert not [message for message in messages if PATIENT_ID in message]
    assert PATIENT_ID not in caplog.text


def as_a_flow(attempt):
    @flow(name="attempts")
    def attempts():
        attempt()

    return attempts


AROUND = pytest.mark.parametrize("around", [lambda attempt: attempt, as_a_flow], ids=["plain call", "task"])


@AROUND
def test_only_what_was_out_of_reach_is_tried_again(around, prefect_server, monkeypatch):
    monkeypatch.setattr(steps, "BACKOFF_SECONDS", (0.0, 0.0, 0.0))
    tries: list[str] = []

    def attempt(error):
        @step("attempt", "attempt", retry=when_unavailable)
        def attempt():
            tries.append(type(error).__name__)
            if len(tries) < 3:
                raise error

        return around(attempt)

    attempt(Unavailable("away"))()
    assert tries == ["Unavailable"] * 3
    for lasting in (DataError("wrong"), OutOfTime("endless")):
        tries.clear()
        with pytest.raises(DataError):
            attempt(lasting)()
        assert tries == [type(lasting).__name__]


@AROUND
def test_what_is_waited_for_is_said(around, prefect_server, monkeypatch):
    monkeypatch.setattr(steps, "BACKOFF_SECONDS", (0.0,))
    said = []
    listen_to_notices(said.append)

    @step("read", "read", retry=when_unavailable)
    def read():
        raise Unavailable("table 'x': locked; end that program")

    with pytest.raises(Unavailable):
        around(read)()
    listen_to_notices(None)
    assert said == ["read: table 'x': locked; trying again in 0 s"]
