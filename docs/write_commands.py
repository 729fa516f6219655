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
        f"| `{_usage(parameter)}` | {(parameter.help or '').replace('|', '/')}{_default(parameter)} |"
        for parameter in command.params
        if parameter.param_type_name == "option"
    ]
    table = ["| option | meaning |", "|---|---|", *rows] if rows else []
    arguments = " ".join(
        _value(parameter) if parameter.required else f"[{_value(parameter)}]"
        for parameter in command.params
        if parameter.param_type_name == "argument"
    )
    about = (command.help or "").replace("\n", " ").strip()
    return "\n".join([f"### tdrop {name} {arguments}".rstrip(), "", about, "", f"    {example}", "", *table])


def _usage(option: Any) -> str:
    """The option with its other name and its value: `--seeds N`, `--committee, --single`."""
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {_value(option)}"


def _value(parameter: Any) -> str:
    """What stands for the parameter's value: `N`, `SITE...` or `processes/dask`."""
    value = parameter.metavar or parameter.name.upper()
    return value.strip("{}").replace("|", "/") + ("..." if parameter.nargs == -1 else "")


def _default(option: Any) -> str:
    """The default, if it is a value or one of two names, and the help text does not say it."""
    if option.default in (None, "", (), []) or "default" in (option.help or ""):
        return ""
    if option.is_flag:
        names = option.opts if option.default else option.secondary_opts
        return f" (default: {names[0].lstrip('-')})" if option.secondary_opts else ""
    return f" (default: {option.default})"
