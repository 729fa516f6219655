"""Proposes the site of a hospital with a database of events: codes of the table that it lacks, and its look-alikes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from tdrop.base import ContractError, TdropError
from tdrop.contracts import Contract, Extract, Network, Selection, Site
from tdrop.data.event_proposal import plain_title, titles_of
from tdrop.data.names import split_words
from tdrop.data.readers import open_events
from tdrop.data.readers._event_queries import BIRTH, DEATH, most_recorded, recorded
from tdrop.data.readers._event_reading import EventStore, resolve_codes
from tdrop.data.site_proposal import first_lines, location_of, require_new_site, sources_of

#: Titles so alike may mean the same.
ALIKE = 0.85
#: Look-alikes that are named of one code.
MOST_NAMED = 3


def propose_event_site(
    name: str, extract: Extract, contract: Contract, network: Network, *, home: Path, level: float | None = None
) -> str:
    """Returns the YAML of a site that has a database of events.

    Codes of the table that the site does not record are named, and so are codes of its own with the same title.

    Args:
        name: Name of the new site.
        extract: Where its database is.
        contract: The table that it delivers.
        network: Where it will belong.
        home: What {home} in the sources' locations stands for.
        level: The risk from which the site acts, where a person said it.
    """
    require_new_site(name, network)
    if contract.index is None:
        raise ContractError(f"table '{contract.name}' has no `index`, by which a database is read; see OMOP_MEDS.md")
    sources = sources_of(contract, network)
    with open_events(extract, home=home, base=network.base) as store:
        lacking = _lacking(store, contract)
        titles = _table_titles(store, contract, lacking, sources, network, home)
        own = _recorded_titles(store)
    alike = {code: _look_alikes(titles[code], own) for code in titles}
    taken = {code: same for code, (same, _) in alike.items() if same}
    absent = [column.name for column in contract.features
              if column.events is not None and set(column.events.listed) <= lacking - set(taken)]  # fmt: skip
    reader = {"kind": extract.reader.kind, **extract.reader.options, **({"codes": taken} if taken else {})}
    why = "    # guess (likely): codes of the same title, for codes that are not recorded here" if taken else ""
    place = {} if extract.location is None else {"location": location_of(Path(extract.location), network)}
    lines = [
        *first_lines(name, contract, sources, level, looked_at="database", holds_outcome=False),
        *(f"{key}: {json.dumps(value)}" for key, value in place.items()),
        f"reader: {json.dumps(reader, ensure_ascii=False)}{why}",
    ]
    if sources:
        labels = json.dumps({**place, "reader": reader}, ensure_ascii=False)
        lines.append(f"# labels: {labels}    # to evaluate on the outcomes that this database holds by now")
    if absent and sources:
        lines.append(f"not_recorded: {json.dumps(absent)}    # guess (likely): none of its codes is recorded here")
    return "\n".join([*lines, *_notes(lacking, titles, alike, own)]) + "\n"


def _selections(contract: Contract) -> Iterator[Selection]:
    """Everything of a table that speaks of codes."""
    events = contract.outcome.events
    parts = [contract.index, *(column.events for column in contract.columns), events, events and events.competing]
    yield from (part for part in parts if part is not None)


def _lacking(store: EventStore, contract: Contract) -> set[str]:
    """Codes of the table of which the place has no record."""
    resolved = {given: codes for part in _selections(contract) for given, codes in resolve_codes(store, part).items()}
    asked = [code for codes in resolved.values() for code in codes]
    held = set(store.ask(recorded(store.relations, asked))["code"])
    return {given for given, codes in resolved.items() if not held & set(codes) and given not in (BIRTH, DEATH)}


def _table_titles(
    store: EventStore, contract: Contract, lacking: set[str], sources: Sequence[Site], network: Network, home: Path
) -> dict[str, str]:
    """By code that is not recorded here, what it is called: here, at a source, or by its column's title."""
    titles = {
        column.events.listed[0]: column.title
        for column in contract.features
        if column.events is not None and len(column.events.listed) == 1 and column.title
    }
    for site in sources:
        # A source that is not at hand, or no database, cannot say.
        with suppress(TdropError), open_events(site, home=home, base=network.base) as other:
            titles |= _known_titles(other, contract, lacking)
    titles |= _known_titles(store, contract, lacking)
    return {code: title for code, title in titles.items() if code in lacking}


def _known_titles(store: EventStore, contract: Contract, lacking: set[str]) -> dict[str, str]:
    titles: dict[str, str] = {}
    for part in _selections(contract):
        titles |= titles_of(store, resolve_codes(store, part))
    return {code: title for code, title in titles.items() if code in lacking and title != code}


def _recorded_titles(store: EventStore) -> dict[str, str]:
    """By code that the place records, as a table writes it, its title; the most frequent ones."""
    codes = list(store.ask(most_recorded(store.relations))["code"])
    return dict(store.titles(codes).values())


def _look_alikes(title: str, own: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Codes with the same title, and codes with nearly the same."""
    wanted = " ".join(split_words(title))
    words = {code: " ".join(split_words(other)) for code, other in own.items()}
    same = [code for code, other in words.items() if other == wanted]
    alike = set(get_close_matches(wanted, set(words.values()) - {wanted}, n=3, cutoff=ALIKE))
    return same, [code for code, other in words.items() if other in alike]


def _notes(
    lacking: set[str],
    titles: Mapping[str, str],
    alike: Mapping[str, tuple[list[str], list[str]]],
    own: Mapping[str, str],
) -> Iterator[str]:
    """Per code that is not recorded here, what it is called and which codes may stand for it."""
    for code in sorted(lacking):
        same, nearly = alike.get(code, ([], []))
        title = f" ({plain_title(titles[code])})" if code in titles else ""
        others = ", ".join(f"{other} ({plain_title(own[other])})" for other in (same or nearly)[:MOST_NAMED])
        words = f"; of the same title: {others}" if same else f"; perhaps {others}" if nearly else ""
        yield f"# note: {code}{title} is not recorded here{words}"
