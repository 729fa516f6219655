"""Who took a model into use, and what that leaves on its version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tdrop.base import UsageError

#: Alias of the version that a person took into use.
CHAMPION = "champion"
#: Tags on a promoted version: the digest of its every byte, who promoted it, why, when, and what was champion before.
SEAL, BY, NOTE = "tdrop.seal", "tdrop.promoted_by", "tdrop.promotion_note"
WHEN, BEFORE = "tdrop.promoted_at", "tdrop.champion_before"


@dataclass(frozen=True)
class Promotion:
    """Who made which version of a site's model the champion, when and with which note."""

    site: str
    version: str
    method: str
    by: str
    note: str
    when: str


def promoted_seal(which: str, tags: Mapping[str, str]) -> str:
    """The seal that a person's promotion left on a version; a sentence refuses a version that nobody promoted.

    Args:
        which: The version, for people.
        tags: What the registry has on it.
    """
    if not all(tags.get(key, "").strip() for key in (BY, NOTE)):
        how = "a person promotes one with `tdrop promote SITE --by NAME --note TEXT`"
        raise UsageError(f"{which} was not promoted, or without a name and a note; {how}")
    if not tags.get(SEAL):
        raise UsageError(f"{which} was promoted without a seal; promote it again with `tdrop promote`")
    return tags[SEAL]
