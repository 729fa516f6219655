"""The local servers answer their own pages and programs, and nobody whom a stranger's page sends."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest

from flows.closed_server import closed, create_app, is_own
from flows.orchestration import orchestrated

OWN = [
    {"host": "127.0.0.1:4200"},
    {"host": "localhost:4200"},
    {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:4200"},
    {"host": "127.0.0.1:4200", "origin": "http://localhost:4200"},
    {"host": "LOCALHOST:4200", "origin": "http://localhost:4200"},
    {"host": "localhost", "origin": "http://localhost"},
]
FOREIGN = [
    {},
    {"host": ""},
    {"host": "evil.example:4200"},
    {"host": "127.0.0.1.evil.example:4200"},
    {"host": "localhost.:4200"},
    {"host": "user@127.0.0.1:4200"},
    {"host": "evil.example@127.0.0.1:4200", "origin": "http://127.0.0.1:4200"},
    {"host": "127.0.0.1:notaport"},
    {"host": "127.0.0.1:4200", "origin": "https://evil.example"},
    {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:5000"},
    {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1.evil.example:4200"},
    {"host": "127.0.0.1:4200", "origin": "null"},
    {"host": "127.0.0.1:4200", "origin": ""},
    {"host": "127.0.0.1:4200", "origin": "file://"},
    {"host": "127.0.0.1:4200", "origin": "http://[bad"},
]


def headers(named):
    return [(name.title().encode(), value.encode()) for name, value in named.items()]


def told(kind, named):
    """The first words that the application behind the door, or the door, sends."""
    sent = []

    async def inside(scope, receive, send):
        await send({"type": "inside"})

    async def send(message):
        sent.append(message)

    asyncio.run(closed(inside)({"type": kind, "headers": headers(named)}, None, send))
    return sent


@pytest.mark.parametrize("named", OWN, ids=str)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_its_own_pages_and_programs_are_answered(kind, named):
    assert told(kind, named) == [{"type": "inside"}]


@pytest.mark.parametrize("named", FOREIGN, ids=str)
def test_strangers_are_refused(named):
    start, body = told("http", named)
    assert start["status"] == 403
    assert b"only its own" in body["body"]
    assert told("websocket", named) == [{"type": "websocket.close", "code": 1008}]


def test_two_host_names_are_one_too_many():
    assert not is_own([(b"host", b"127.0.0.1:1"), (b"Host", b"evil.example")])


def test_the_start_of_the_application_is_not_kept_from_it():
    assert told("lifespan", {}) == [{"type": "inside"}]


def test_the_server_that_a_command_brings_up_is_the_closed_one(tmp_path, monkeypatch):
    """`tdrop ui` starts it by the same command; its test asks a real one."""
    started = []

    @contextmanager
    def serving(name, command, *_):
        started.append(command)
        yield

    monkeypatch.setattr("flows.orchestration.serving", serving)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("TDROP_HOME", str(tmp_path))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with orchestrated(needed=True):
        pass
    (command,) = started
    assert f"{create_app.__module__}:{create_app.__name__}" in command
    assert command[command.index("--host") + 1] == "127.0.0.1"
