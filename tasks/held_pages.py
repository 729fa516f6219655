"""Pages with numbers of a site's patients: they leave when its report does, by the same rule, or not at all.

A page that left while its report did not would tell, beside the next one, of the few patients who differ.
"""

from __future__ import annotations

from pathlib import Path

from tasks.artifacts import leave
from tasks.step import in_a_flow_run
from tdrop.disclosure import limit
from tdrop.home import Place, ResolvedSite, write_private

WAITING = "Done. Its numbers leave with the site's report, where at least as many patients as its threshold differ."


def leave_numbers(site: ResolvedSite, stage: str, page: str, meanwhile: str = "") -> None:
    """Leaves a page that has passed disclosure: at once where nothing is hidden, else when the report leaves.

    Args:
        site: Whose patients it is about.
        stage: What it is about.
        page: Markdown with rounded numbers.
        meanwhile: What may be read before, without a number of patients.
    """
    if not limit(site.policy):
        leave(site.name, stage, page)
    elif in_a_flow_run():
        write_private(_folder(site.place, site.name) / f"{stage}.md", page)
        leave(site.name, stage, meanwhile or f"# {site.name}: {stage}\n\n{WAITING}")


def release_pages(place: Place, site: str, withheld: str | None) -> None:
    """Leaves the pages of a site that waited for its report, or why they do not leave.

    Args:
        place: Where they are kept.
        site: Whose they are.
        withheld: Why the report did not leave; None where it did.
    """
    for file in sorted(_folder(place, site).glob("*.md")):
        page = file.read_text(encoding="utf-8")
        leave(site, file.stem, page if withheld is None else f"# {site}: {file.stem}\n\nNo numbers: {withheld}.")
        file.unlink(missing_ok=True)


def _folder(place: Place, site: str) -> Path:
    return place.site(site) / "pages"
