"""Turns what pydantic found in a YAML file into one sentence with file, line and a suggestion."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from tdrop.base import ContractError, did_you_mean
from tdrop.contracts.yaml_file import Document, Place

Model = TypeVar("Model", bound=BaseModel)
#: Characters of a name or value that a sentence repeats.
LONGEST = 60


def parse(model: type[Model], document: Document) -> Model:
    """Validates a document against `model`; a ContractError tells the first thing that is wrong."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise refuse(document, [_explain(model, document, item) for item in error.errors()]) from None


def refuse(document: Document, problems: list[tuple[Place, str]]) -> ContractError:
    """Returns the error that tells the first of `problems` and how many more there are."""
    # A misspelled key is also a missing one: the misspelling is what to tell first.
    problems = sorted(
        problems,
        key=lambda problem: (problem[1].startswith("needs"), int(document.where(problem[0]).rsplit(":", 1)[1])),
    )
    place, sentence = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ContractError(f"{document.where(place)}: {sentence}{more}")


def short(given: object) -> str:
    """What a file says, on one line and no longer than a line is read."""
    text = " ".join(str(given).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _explain(model: type[BaseModel], document: Document, item: Any) -> tuple[Place, str]:
    place: Place = tuple(item["loc"])
    kind = item["type"]
    name = _dotted(document, place)
    if kind == "extra_forbidden":
        known = _keys_at(model, place[:-1])
        return place, f"unknown key '{short(place[-1])}'{did_you_mean(str(place[-1]), known)}"
    if kind == "missing":
        return place, f"needs the key '{name}'"
    if kind == "literal_error":
        given = short(item["input"])
        return place, f"{name} is '{given}', expected {item['ctx']['expected']}{_only_close(given, item)}"
    if kind == "incoherent":
        return tuple(item["ctx"]["place"]), str(item["ctx"]["sentence"])
    if kind == "string_pattern_mismatch":
        return (
            place,
            f"{name} is '{short(item['input'])}': use letters, digits and underscores, starting with a letter",
        )
    message = item["msg"].removeprefix("Value error, ")
    return place, f"{name}: {message[:1].lower()}{message[1:]}" if name else message


def _only_close(given: str, item: Any) -> str:
    expected = [word.strip("'") for word in item["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    hint = did_you_mean(given, expected)
    return hint if "did you mean" in hint else ""


def _dotted(document: Document, place: Place) -> str:
    """Writes a place as `columns.psa.unit`: list items by their name where they have one."""
    data: Any = document.data
    words: list[str] = []
    for step in place:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            data = None
        named = data.get("name") if isinstance(data, dict) else None
        words.append(short(named if isinstance(step, int) and named else step))
    return ".".join(words)


def _keys_at(model: type[BaseModel], place: Place) -> list[str]:
    """The keys that the model knows at `place`, as they are written in YAML."""
    current: type[BaseModel] | None = model
    for step in place:
        if isinstance(step, int) or current is None:
            continue
        fields = {info.alias or name: info.annotation for name, info in current.model_fields.items()}
        current = _model_in(fields.get(step)) if step in fields else current
    return [info.alias or name for name, info in current.model_fields.items()] if current is not None else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_in(inner)) is not None), None)
