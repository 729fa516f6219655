"""Who took a model into use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Promotion:
    """Who made which version of a site's model the champion, when and with which note."""

    site: str
    version: str
    method: str
    by: str
    note: str
    when: str
