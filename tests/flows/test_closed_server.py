"""The local servers answer their own pages and programs, and nobody whom a foreign page sends."""

from __future__ import annotations

import asyncio

import pytest

from flows.closed_server import closed, create_app
from flows.orchestration import prefect_command

OWN = [
    {"host": "127.0.0.1:4200"},
    {"host": "localhost:4200"},
    {"host": "127.0.0.1:4200", "origin": "http://127.0.0.1:4200"},
    {"host": "127.0.0.1:4200", "origin": "http://localhost:4200"},
    {"host": "LOCALHOST:4200", "origin": "http://localhost:4200"},
    {"host": "127.0.0.1:4200", "sec-fetch-site": "same-origin", "sec-fetch-dest": "empty"},
    {"host": "127.0.0.1:4200", "sec-fetch-site": "cross-site", "sec-fetch-dest": "document"},
]
FOREIGN_HOSTS = [
    "",
    "evil.example:4200",
    "127.0.0.1.evil.example:4200",
    "localhost.:4200",
    "user@127.0.0.1:4200",
    "evil.example@127.0.0.1:4200",
    "127.0.0.1:notaport",
]
FOREIGN_ORIGINS = [
    "https://evil.example",
    "http://127.0.0.1:5000",
    "http://localhost",
    "https://127.0.0.1:4200",
    "http://127.0.0.1.evil.example:4200",
    "null",
    "",
    "file://",
    "http://[bad",
]


def answers(kind, port=4200, **headers):
    """What the application sends, or what is sent in its place."""
    sent = []

    async def inside(scope, receive, send):
        await send({"type": "inside"})

    async def send(message):
        sent.append(message)

    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "headers": given, "server": ("127.0.0.1", port), "extensions": {}}
    asyncio.run(closed(inside)(scope, None, send))
    return sent


@pytest.mark.parametrize("headers", OWN, ids=str)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_its_own_pages_and_programs_are_answered(kind, headers):
    assert answers(kind, **headers) == [{"type": "inside"}]


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_foreign_hosts_and_pages_are_refused(kind):
    refused = [{}, *({"host": host} for host in FOREIGN_HOSTS)]
    refused += [{"host": "127.0.0.1:4200", "origin": origin} for origin in FOREIGN_ORIGINS]
    embedded = [(site, what) for site in ("cross-site", "same-site") for what in ("iframe", "image", "empty")]
    refused += [{"host": "127.0.0.1:4200", "sec-fetch-site": site, "sec-fetch-dest": what} for site, what in embedded]
    for headers in refused:
        sent = answers(kind, **headers)
        assert {"type": "inside"} not in sent, headers
        assert sent[0]["status"] in {400, 403}, headers


def test_a_page_on_the_usual_port_names_none():
    assert answers("http", 80, host="localhost", origin="http://localhost") == [{"type": "inside"}]


def test_the_start_of_the_application_reaches_it():
    assert answers("lifespan") == [{"type": "inside"}]


def test_the_server_that_a_command_starts_is_the_closed_one():
    """`tdrop ui` starts it by the same command; its test asks a real one."""
    command = prefect_command(4200)
    assert f"{create_app.__module__}:{create_app.__name__}" in command
    assert command[command.index("--host") + 1] == "127.0.0.1"
