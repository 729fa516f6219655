"""Which model a site uses: a run registers a candidate, a person makes it the champion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.models import CANDIDATE, RECALIBRATED_FROM, require_sealed, seal_version
from tasks.tracking import connect, every_page, find_version, numbered_version
from tdrop.base import Damaged, Unavailable, UsageError
from tdrop.home import Place, Version, now
from tdrop.runs import ENCODED, MODELS_DIGEST, last_run, model_name
from tdrop.served import BEFORE, BY, CHAMPION, NOTE, SEAL, WHEN, Promotion

#: Finds the sites' registered models.
MODELS = "name LIKE 'tdrop-%'"


def version_at(place: Place, site: str, alias: str) -> Version | None:
    """The version of a site's model behind an alias, or None."""
    return find_version(place, model_name(site), alias)


def promote(place: Place, site: str, *, by: str, note: str) -> Promotion:
    """Makes the candidate the champion, in the name of a person."""
    place.network().target(site)
    candidate = version_at(place, site, CANDIDATE)
    if candidate is None:
        raise UsageError(
            f"site '{site}' has no candidate to promote; run `tdrop transfer {site}` first "
            "(a verdict of stop makes no candidate, nor does a source with too few outcomes)"
        )
    if not by.strip() or not note.strip():
        raise UsageError("a promotion needs the name of a person (--by) and a note (--note)")
    if not f"{by}{note}".replace("\n", " ").isprintable():
        raise UsageError("the name and the note of a promotion must be plain text; leave out control characters")
    champion = version_at(place, site, CHAMPION)
    recalibrated = champion is not None and candidate.tags.get(RECALIBRATED_FROM) == champion.version
    # A report whose record failed stands beside an older candidate, which nobody has read about.
    if not recalibrated and candidate.tags.get(MODELS_DIGEST) != last_run(place, site).stages.models.digest:
        raise UsageError(
            f"the candidate of site '{site}' is not the model of its last report; run `tdrop transfer {site}` again, "
            "so that MLflow has that one"
        )
    client, name = connect(place), model_name(site)
    if champion is not None and champion.version != candidate.version:
        client.set_model_version_tag(name, candidate.version, BEFORE, champion.version)
    seal = seal_version(place, candidate)
    for key, value in ((SEAL, seal), (BY, by), (NOTE, note), (WHEN, now())):
        client.set_model_version_tag(name, candidate.version, key, value)
    client.set_registered_model_alias(name, CHAMPION, candidate.version)
    promoted = champion_record(place, site)
    assert promoted is not None
    return promoted


def rollback(place: Place, site: str) -> Promotion:
    """Makes the champion before this one the champion again."""
    place.network().target(site)
    champion = version_at(place, site, CHAMPION)
    before = None if champion is None else champion.tags.get(BEFORE)
    if before is None:
        raise UsageError(f"site '{site}' has no earlier champion to go back to")
    require_sealed(place, numbered_version(place, model_name(site), before))
    connect(place).set_registered_model_alias(model_name(site), CHAMPION, before)
    record = champion_record(place, site)
    assert record is not None
    return record


def require_promoted(place: Place, site: str) -> Version:
    """The site's champion, every byte of it as a person promoted it; a sentence refuses any other."""
    place.network().target(site)
    version = version_at(place, site, CHAMPION)
    if version is None:
        how = f"a person promotes one with `tdrop promote {site} --by NAME --note TEXT`"
        raise UsageError(f"site '{site}' has no champion; {how}")
    require_sealed(place, version)
    return version


def refuse_altered_champion(place: Place, site: str) -> None:
    """Lets nothing more be said about a site whose champion is not as promoted; one without a champion goes on."""
    try:
        if version_at(place, site, CHAMPION) is not None:
            require_promoted(place, site)
    except Unavailable as error:
        # A record out of reach costs the record, never the report.
        if isinstance(error, Damaged):
            raise


def champion_record(place: Place, site: str) -> Promotion | None:
    """The site's promotion in force, or None."""
    version = version_at(place, site, CHAMPION)
    if version is None:
        return None
    tags = version.tags
    return Promotion(
        site=site,
        version=version.version,
        method=tags.get("method", ""),
        by=tags.get(BY, ""),
        note=tags.get(NOTE, ""),
        when=tags.get(WHEN, ""),
    )


def kept_versions(place: Place) -> list[Any]:
    """The versions that may still be used: every site's candidate, its champion, and the champions before that one."""
    client = connect(place)
    kept: list[Any] = []
    for model in every_page(client.search_registered_models, MODELS):
        wanted = {str(version) for alias, version in model.aliases.items() if alias in (CANDIDATE, CHAMPION)}
        found = every_page(client.search_model_versions, f"name = '{model.name}'")
        versions = {str(each.version): each for each in found}
        while wanted:
            version = versions.pop(wanted.pop(), None)
            if version is not None:
                kept.append(version)
                wanted |= {version.tags[BEFORE]} if BEFORE in version.tags else set()
    return kept


def kept_stages(place: Place, *, besides: str | None = None) -> set[Path]:
    """The encoded patients that those versions were made for: new patients are compared with them.

    Args:
        place: Where to read.
        besides: A site whose own versions do not count.
    """
    others = [version for version in kept_versions(place) if besides is None or version.name != model_name(besides)]
    return {place.store / version.tags[ENCODED] for version in others if ENCODED in version.tags}
