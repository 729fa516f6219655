"""A site whose last run was stopped or failed: its page and its line say so, and never the verdict before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tdrop.home import Status

#: How a run can end that leaves no current report, its word, and what that means.
HALTS: Mapping[str, tuple[str, str]] = {
    "stopped": (
        "Stopped",
        "The check of the extract stopped this run before any patient was scored. Nothing was learned about the new "
        "extract: do not read an earlier verdict into it.",
    ),
    "failed": (
        "Failed",
        "The run ended before it had a report. Nothing was learned about the data as they are now: do not read an "
        "earlier verdict into them.",
    ),
}


NO_REASON = "No reason was written down."


@dataclass(frozen=True)
class Halt:
    """How a site's last run ended without a report.

    Attributes:
        title: The site's name for people.
        word: Stopped or Failed.
        sentence: Why.
        meaning: What follows from it.
        ended: When (ISO 8601), or None.
        earlier: Address of the report before, or empty.
        made: When that was made, or None.
        simulated: No patient is real.
        letter: What the site is asked, as it may be mailed; empty without a reason of its own.
    """

    title: str
    word: str
    sentence: str
    meaning: str
    ended: str | None = None
    earlier: str = ""
    made: str | None = None
    simulated: bool = False
    letter: str = ""


def halt_of(
    status: Status | None,
    title: str,
    earlier: str = "",
    made: str | None = None,
    *,
    simulated: bool = False,
    letter: str = "",
) -> Halt | None:
    """Reads a site's status; None where its last run did not stop or fail.

    Args:
        status: The site's status.
        title: The site's name for people.
        earlier: Address of the report before.
        made: When that was made.
        simulated: No patient is real.
        letter: What the site is asked, where its extract was refused.
    """
    if status is None or status.outcome not in HALTS:
        return None
    word, meaning = HALTS[status.outcome]
    reason = status.reason
    sentence = f"{reason[:1].upper()}{reason[1:]}." if reason else status.sentence or NO_REASON
    return Halt(title, word, sentence, meaning, status.ended, earlier, made, simulated, letter if reason else "")
