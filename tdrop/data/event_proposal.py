"""Proposes a table from a database of events, and the site of another hospital with one; every guess is marked.

The table's features are the cohort's most frequent codes. For a second hospital, the proposal lists the table's codes
that it lacks, and its own codes with similar titles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas as pd

from tdrop.base import ContractError, DataError, TdropError, UsageError
from tdrop.contracts import Contract, Extract, Index, Network, Selection, Site, require_horizon
from tdrop.data.columns import FEWEST_VALUES, Guess, guess_column
from tdrop.data.names import split_words
from tdrop.data.outcome_proposal import without_guess
from tdrop.data.outcomes import source_outcome
from tdrop.data.readers import open_events
from tdrop.data.readers._event_queries import BIRTH, DAY, DEATH, Code, Queries, most_recorded, recorded
from tdrop.data.readers._event_reading import EventStore, from_ucum, read_events, resolve_codes
from tdrop.data.site_proposal import first_lines, location_of, require_file_name, require_new_site, sources_of
from tdrop.data.table_proposal import TableProposal, write_table
from tdrop.data.units import molar_mass_of, require_unit

#: How many codes are considered, most frequent first; and how many columns are proposed by default.
MOST_CODES, MOST_COLUMNS = 300, 20
#: If this share of a code's records has a number, or a text, the column is its value; else whether it happened.
MOSTLY = 0.8
#: A code that this share of the patients has does not distinguish them.
NEARLY_ALL = 0.99
#: A value is the last one within this many days before the index; other events count at any time before it.
RECENT_DAYS = 365
MOST_CATEGORIES = 12
#: How many letters of a title are shown.
MOST_LETTERS = 100
#: From this similarity on, two titles may mean the same.
ALIKE = 0.85
#: How many similar codes are listed for a code.
MOST_NAMED = 3
_ID, _TIME, _EVENT, _DIED = "patient", "followed", "happened", "died"


@dataclass(frozen=True)
class EventsAsked:
    """What a person states about the table.

    Attributes:
        index: Codes of the record that makes a person a row.
        outcome: Codes of the records that are the outcome.
        horizon: Within what time after the index.
        most: How many features are proposed at most.
    """

    index: tuple[str, ...]
    outcome: tuple[str, ...]
    horizon: str
    most: int = MOST_COLUMNS


def propose_event_table(name: str, extract: Extract, asked: EventsAsked, *, base: Path) -> TableProposal:
    """Returns the YAML of a table from a cohort's most frequent codes; a person must read it before it is used.

    Args:
        name: Name of the table.
        extract: Where the database is.
        asked: Index, outcome and horizon.
        base: What a relative location is relative to.
    """
    require_file_name("table", name)
    try:
        require_horizon(asked.horizon)
    except ValueError as error:
        raise UsageError(f"--horizon cannot be used: {error}") from None
    index = _selection(asked.index, extract)
    with open_events(extract, home=base, base=base) as store:
        candidates, left_out = _candidates(store, index, asked.most)
        outcome = _outcome(store, _selection(asked.outcome, extract), asked.horizon)
        draft = _draft(name, index, outcome, candidates)
        frame = read_events(store, draft, extract)
        title = " or ".join(titles_of(store, resolve_codes(store, Index.model_validate(index))).values())
    if len(frame) < FEWEST_VALUES:
        raise DataError(f"the index's codes make fewer than {FEWEST_VALUES} rows; check --index, or name more codes")
    guesses = [Guess(_ID, "", {"title": "Patient", "role": "id", "type": "categorical"})]
    for candidate in candidates:
        guess = _add_values(candidate, frame)
        if guess.role == "ignored":
            left_out[candidate.keys["title"]] = without_guess(guess.why["role"])
        else:
            guesses.append(guess)
    if len(guesses) == 1:
        raise DataError("no code of the cohort can predict; name other index codes with --index")
    guesses += _label_guesses(outcome)
    remark = "    # `washout` and `age` can restrict it"
    head = [f"index: {json.dumps({**index, 'occurrence': 'first'}, ensure_ascii=False)}{remark}"]
    lines = ["outcome:", *(f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in outcome.items())]
    text = write_table(name, guesses, lines, f"Patients with {plain_title(title)}", head)
    return TableProposal(text, {}, left_out, {}, _sentence(frame, draft))


def _selection(codes: Sequence[str], extract: Extract) -> dict[str, list[str]]:
    """The codes that a person gave, under the table's key for them."""
    numbers = extract.reader.kind == "omop" and all(code.isdecimal() for code in codes)
    return {"concept_ids" if numbers else "codes": list(codes)}


def _candidates(store: EventStore, index: Mapping[str, Any], most: int) -> tuple[list[Guess], dict[str, str]]:
    """Proposes features: age, then the most frequent codes; and returns, by title, why a frequent code is left out.

    `_add_values` adds what follows from their values, such as ranges.
    """
    record = Index.model_validate(index)
    known = {code for codes in resolve_codes(store, record).values() for code in codes}
    if not known:
        raise DataError(f"{store.shown} has none of the index's codes; check how --index is written")
    queries = Queries(store.relations, record, (), tuple(known))
    census = store.ask(queries.frequent(MOST_CODES, RECENT_DAYS * DAY))
    rows = int(census["cohort_rows"].iloc[0]) if len(census) else 0
    # Concept 0 means that the vocabulary has no concept for the record.
    not_features = {*known, store.relations.birth, store.relations.death, 0}
    census = census[~census["code"].isin(not_features) & (census["patients"] >= FEWEST_VALUES)]
    codes = census["code"].tolist()
    titles = store.titles(codes)
    details = store.ask(queries.described(codes)) if codes else pd.DataFrame()
    born = {"codes": [BIRTH], "take": "days_since"}
    candidates = [Guess("age", "", {"title": "Age", "type": "continuous", "unit": "years", "events": born})]
    left_out: dict[str, str] = {}
    static: set[int] = set()
    items: list[Any] = list(census.itertuples(index=False))
    for item in items:
        if len(candidates) == most:
            break
        written, title = titles.get(item.code, (str(item.code), str(item.code)))
        title = plain_title(title)
        candidate = _candidate(item, rows, written, title, details[details["code"] == item.code], store)
        if isinstance(candidate, str):
            left_out[title] = candidate
        elif not item.timed and rows - int(item.patients) in static:
            left_out[title] = "it is the opposite of another code without a time"
        else:
            static |= set() if item.timed else {int(item.patients)}
            names = [candidate.name for candidate in candidates]
            candidates.append(replace(candidate, name=_free_name(title, names)))
    return candidates, left_out


def _candidate(item: Any, rows: int, written: str, title: str, details: pd.DataFrame, store: EventStore) -> Guess | str:
    """Returns a frequent code as a feature, still without a name; or why it is not a feature."""
    events: dict[str, Any] = {"codes" if isinstance(item.code, str) or "/" in written else "concept_ids": [written]}
    keys: dict[str, Any] = {"title": title}
    why: dict[str, str] = {}
    having = int(item.patients)
    if item.numbers >= MOSTLY * item.records:
        having = int(item.recent)
        if having < FEWEST_VALUES:
            return f"fewer than {FEWEST_VALUES} patients have a value of the last {RECENT_DAYS} days"
        keys["type"] = "continuous"
        unit = _unit(str(details.groupby("unit")["records"].sum().idxmax()), store)
        if unit:
            keys["unit"], why["unit"] = unit, "guess (likely): the unit of most of its records here"
        mass = molar_mass_of(split_words(title), unit)
        if mass is not None:
            keys["molar_mass"], why["molar_mass"] = mass, "guess (likely): by its name, for other kinds of unit"
        events |= {"window": [f"-{RECENT_DAYS} d", "0 d"]} if item.timed else {}
        events["take"] = "last"
    elif item.labels >= MOSTLY * item.records:
        frequent = details[details["label"].notna() & (details["patients"] >= FEWEST_VALUES)]
        labels = sorted({str(label).strip() for label in frequent["label"]} - {""})
        if not 2 <= len(labels) <= MOST_CATEGORIES:
            return f"text of {details['label'].nunique():,} kinds"
        answers = store.titles([int(label) for label in labels if label.isdecimal()])
        titles = {str(code): plain_title(name) for code, (_, name) in answers.items()}
        keys |= {"type": "categorical", "categories": labels, "severity": {"categories": "row_warning"}}
        keys |= {"category_titles": titles} if titles else {}
        why |= {"categories": "guess: the texts of this database", "severity": "guess: other texts only warn"}
        events["take"] = "last"
    elif having > NEARLY_ALL * rows:
        return "nearly all patients have it"
    else:
        keys["type"] = "binary"
        events["take"] = "any"
    why["events"] = f"guess (possible): {having / rows:.0%} of the patients have such a record by then"
    return Guess("", "", {**keys, "events": events}, why)


def _unit(unit: str, store: EventStore) -> str:
    """Writes a unit of the records for a table; "" if there is none, or none that pint knows."""
    text = from_ucum(store.unit_names([unit]).get(unit, unit)) if unit else "dimensionless"
    try:
        require_unit(text, "")
    except ContractError:
        return ""
    return "" if text == "dimensionless" else text


def _free_name(title: str, taken: Sequence[str]) -> str:
    """Makes a column's name from its title."""
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")[:40].rstrip("_")
    name = name if re.match(r"[a-z]", name) else f"x_{name}"
    reserved = {*taken, _ID, _TIME, _EVENT}
    return next(free for free in (name, *(f"{name}_{place}" for place in range(2, 999))) if free not in reserved)


def _outcome(store: EventStore, selection: Mapping[str, Any], horizon: str) -> dict[str, Any]:
    """The table's `outcome`; death competes with any other outcome."""
    record = Selection.model_validate(selection)
    resolved = resolve_codes(store, record)
    if not any(resolved.values()):
        raise DataError(f"{store.shown} has none of the outcome's codes; check how --outcome-code is written")
    title = f"{' or '.join(titles_of(store, resolved).values())} within {horizon}"
    outcome = {"name": "outcome", "title": title, "time": _TIME, "event": _EVENT, "horizon": horizon}
    if DEATH in record.listed:
        return {**outcome, "events": dict(selection)}
    events = {**selection, "competing": {"codes": [DEATH]}}
    return {**outcome, "positive": "yes", "competing": [_DIED], "events": events}


def titles_of(store: EventStore, resolved: Mapping[str, tuple[Code, ...]]) -> dict[str, str]:
    """By code of a table, its title in the store's vocabulary, or the code itself if it has no title."""
    titles = store.titles([code for codes in resolved.values() for code in codes])
    titles = {BIRTH: (BIRTH, "Birth"), DEATH: (DEATH, "Death"), **titles}
    return {
        given: next((plain_title(titles[code][1]) for code in codes if code in titles), given)
        for given, codes in resolved.items()
    }


def plain_title(title: str) -> str:
    """Writes a vocabulary's title on one line; titles describe codes and hold no patient's value."""
    return re.sub(r"[^\S ]+|[\x00-\x1f]", " ", title).strip()[:MOST_LETTERS]


def _draft(name: str, index: Mapping[str, Any], outcome: Mapping[str, Any], candidates: Sequence[Guess]) -> Contract:
    """A first table, with which the candidates' values can be read."""
    columns = [{"name": _ID, "role": "id", "type": "categorical"}]
    columns += [{"name": guess.name, **guess.keys} for guess in (*candidates, *_label_guesses(outcome))]
    return Contract.model_validate(
        {"name": name, "version": "1", "title": name, "index": index, "columns": columns, "outcome": outcome}
    )


def _label_guesses(outcome: Mapping[str, Any]) -> list[Guess]:
    ended: dict[str, Any] = {"type": "binary"}
    if "competing" in outcome:
        ended = {"type": "categorical", "categories": ["no", "yes", _DIED]}
    return [
        Guess(_TIME, "", {"title": "Follow-up", "role": "label", "unit": "days", "range": [0, None]}),
        Guess(_EVENT, "", {"title": "How it ended", "role": "label", **ended}),
    ]


def _add_values(candidate: Guess, frame: pd.DataFrame) -> Guess:
    """Adds to a candidate what follows from its values: ranges, and how many are missing."""
    if candidate.name not in frame:
        why = {"role": "no record of it is before the index"}
        return replace(candidate, keys={"role": "ignored"}, why=why)
    header = "age_years" if candidate.name == "age" else candidate.keys["title"]
    guess = guess_column(candidate.name, header, frame[candidate.name], {})
    if guess.role == "ignored":
        return guess
    numeric = candidate.keys["type"] == "continuous"
    taken = ("range", "plausible", "severity", "transform", "missing") if numeric else ("missing",)
    keys = {key: value for key, value in candidate.keys.items() if key != "events"}
    keys |= {key: value for key, value in guess.keys.items() if key in taken} | {"events": candidate.keys["events"]}
    why = {**{key: reason for key, reason in guess.why.items() if key in taken}, **candidate.why}
    return replace(candidate, keys=keys, why=why)


def _sentence(frame: pd.DataFrame, draft: Contract) -> str:
    """The proposed outcome in words, without small counts, so that a person can correct it."""
    _, counts = source_outcome(frame, draft)
    shown = {name: f"{count:,}" if not 0 < count < FEWEST_VALUES else f"fewer than {FEWEST_VALUES}"
             for name, count in counts.items()}  # fmt: skip
    return (
        f"Outcome: {draft.outcome.title}; it happened to {shown['positive']} of {shown['known']} patients, and "
        f"{shown['horizon_not_reached']} left before that time."
    )


def propose_event_site(
    name: str, extract: Extract, contract: Contract, network: Network, *, home: Path, level: float | None = None
) -> str:
    """Returns the YAML of a site with a database of events.

    It lists the table's codes that the site does not record, and the site's own codes with similar titles.

    Args:
        name: Name of the new site.
        extract: Where its database is.
        contract: The table that it delivers.
        network: Where it will belong.
        home: What {home} in the sources' locations stands for.
        level: The risk from which the site acts, if a person gave it.
    """
    require_new_site(name, network)
    if contract.index is None:
        raise ContractError(f"table '{contract.name}' has no `index`, which a database needs; see OMOP_MEDS.md")
    sources = sources_of(contract, network)
    with open_events(extract, home=home, base=network.base) as store:
        lacking = _lacking(store, contract)
        titles = _table_titles(store, contract, lacking, sources, network, home)
        # The titles of the store's most frequent codes, by code as a table writes it.
        own_titles = dict(store.titles(list(store.ask(most_recorded(store.relations))["code"])).values())
    similar = {code: _similar_codes(titles[code], own_titles) for code in titles}
    replaced = {code: same for code, (same, _) in similar.items() if same}
    absent = [column.name for column in contract.features
              if column.events is not None and set(column.events.listed) <= lacking - set(replaced)]  # fmt: skip
    reader = {"kind": extract.reader.kind, **extract.reader.options, **({"codes": replaced} if replaced else {})}
    why = "    # guess (likely): codes with the same title, for codes that are not recorded here" if replaced else ""
    place = {} if extract.location is None else {"location": location_of(Path(extract.location), network)}
    lines = [
        *first_lines(name, contract, sources, level, looked_at="database", holds_outcome=False),
        *(f"{key}: {json.dumps(value)}" for key, value in place.items()),
        f"reader: {json.dumps(reader, ensure_ascii=False)}{why}",
    ]
    if sources:
        labels = json.dumps({**place, "reader": reader}, ensure_ascii=False)
        lines.append(f"# labels: {labels}    # to evaluate on the outcomes that are in this database by now")
    if absent and sources:
        lines.append(f"not_recorded: {json.dumps(absent)}    # guess (likely): none of its codes is recorded here")
    return "\n".join([*lines, *_notes(lacking, titles, similar, own_titles)]) + "\n"


def _selections(contract: Contract) -> Iterator[Selection]:
    """Yields all selections of codes in a table."""
    events = contract.outcome.events
    parts = [contract.index, *(column.events for column in contract.columns), events, events and events.competing]
    yield from (part for part in parts if part is not None)


def _lacking(store: EventStore, contract: Contract) -> set[str]:
    """The table's codes without a record in the store."""
    resolved = {given: codes for part in _selections(contract) for given, codes in resolve_codes(store, part).items()}
    codes_to_find = [code for codes in resolved.values() for code in codes]
    in_store = set(store.ask(recorded(store.relations, codes_to_find))["code"])
    return {given for given, codes in resolved.items() if not in_store & set(codes) and given not in (BIRTH, DEATH)}


def _table_titles(
    store: EventStore, contract: Contract, lacking: set[str], sources: Sequence[Site], network: Network, home: Path
) -> dict[str, str]:
    """Titles of the codes that are not recorded here: from this vocabulary, a source's, or the column's title."""
    titles = {
        column.events.listed[0]: column.title
        for column in contract.features
        if column.events is not None and len(column.events.listed) == 1 and column.title
    }
    for site in sources:
        # A source may be unavailable, or not be a database.
        with suppress(TdropError), open_events(site, home=home, base=network.base) as other:
            titles |= _known_titles(other, contract, lacking)
    titles |= _known_titles(store, contract, lacking)
    return {code: title for code, title in titles.items() if code in lacking}


def _known_titles(store: EventStore, contract: Contract, lacking: set[str]) -> dict[str, str]:
    titles: dict[str, str] = {}
    for part in _selections(contract):
        titles |= titles_of(store, resolve_codes(store, part))
    return {code: title for code, title in titles.items() if code in lacking and title != code}


def _similar_codes(title: str, own_titles: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The codes with the same title, and the codes with a similar title."""
    words = {code: " ".join(split_words(other)) for code, other in own_titles.items()}
    wanted = " ".join(split_words(title))
    # Sorted, so that of equally similar titles the same ones are taken each time.
    close = get_close_matches(wanted, sorted(set(words.values()) - {wanted}), n=3, cutoff=ALIKE)
    same = [code for code, other in words.items() if other == wanted]
    return same, [code for code, other in words.items() if other in close]


def _notes(
    lacking: set[str],
    titles: Mapping[str, str],
    similar: Mapping[str, tuple[list[str], list[str]]],
    own_titles: Mapping[str, str],
) -> Iterator[str]:
    """Yields a comment per code that is not recorded here, with its title and codes that may mean the same."""
    for code in sorted(lacking):
        same, nearly = similar.get(code, ([], []))
        title = f" ({plain_title(titles[code])})" if code in titles else ""
        others = ", ".join(f"{other} ({plain_title(own_titles[other])})" for other in (same or nearly)[:MOST_NAMED])
        words = f"; with the same title: {others}" if same else f"; perhaps {others}" if nearly else ""
        yield f"# note: {code}{title} is not recorded here{words}"
