"""Adds the text of `tdrop COMMAND --help` to the page of commands while the documentation site is built."""

from __future__ import annotations

from typing import Any

import typer

from flows.commands import COMMANDS, app


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Adds one section per command to COMMANDS.md; mkdocs calls it for every page."""
    if page.file.src_uri != "COMMANDS.md":
        return markdown
    group: Any = typer.main.get_command(app)
    sections, job = [markdown], ""
    for heading, function, example in COMMANDS:
        if heading != job:
            sections.append(f"## {heading}")
            job = heading
        name = function.__name__.replace("_", "-")
        sections.append(_section(name, group.commands[name], example))
    return "\n\n".join(sections)


def _section(name: str, command: Any, example: str) -> str:
    rows = [
        f"| `{', '.join(parameter.opts)}` | {(parameter.help or '').replace('|', '/')} |"
        for parameter in command.params
        if parameter.param_type_name == "option"
    ]
    table = ["| option | meaning |", "|---|---|", *rows] if rows else []
    arguments = " ".join(
        (parameter.metavar or parameter.name.upper()).strip("{}")
        for parameter in command.params
        if parameter.param_type_name == "argument"
    )
    about = (command.help or "").replace("\n", " ").strip()
    return "\n".join([f"### tdrop {name} {arguments}".rstrip(), "", about, "", f"    {example}", "", *table])
