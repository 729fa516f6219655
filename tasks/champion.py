"""A site's champion on this machine, and the patients that it learned from and was made for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.evidence import fitted_propensity, load_propensity
from tasks.models import copy_of
from tasks.registry import require_promoted
from tdrop.base import Cohort, Mask, read_record
from tdrop.home import SOURCE, TARGET, Place, Ref, load_pair
from tdrop.served import SERVED, WHEN, Description
from tdrop.shift import Kind, unlike_newcomers

#: The pages of a version: its model card and its change plan.
CARD_PAGE, PLAN_PAGE = "model_card.html", "change_plan.html"


def champion_folder(place: Place, site: str, version: str) -> Path:
    """Where the model card and the change plan of one version are."""
    return place.site(site) / "champions" / f"version-{version}"


@dataclass(frozen=True)
class Champion:
    """A promoted model on disk, with what it was made from.

    Attributes:
        folder: Its sealed copy.
        version: Its number in MLflow.
        described: What stands beside it.
        promoted: When a person promoted it (ISO 8601, UTC).
    """

    folder: Path
    version: str
    described: Description
    promoted: str = ""


def find_champion(place: Place, site: str) -> Champion:
    """The site's promoted model; a UsageError says how to get one."""
    version = require_promoted(place, site)
    folder = copy_of(place, version).model
    return Champion(folder, str(version.version), read_record(Description, folder / SERVED), version.tags.get(WHEN, ""))


@dataclass(frozen=True)
class MadeFor:
    """The patients that a champion was made for and those it learned from, kept on this machine.

    Attributes:
        encoded: Their stage.
        source: Whom it learned from.
        target: Whom it was made for.
    """

    encoded: Ref
    source: Cohort
    target: Cohort

    def kind(self, place: Place) -> Kind:
        """What tells the two apart best."""
        fitted = load_propensity(fitted_propensity(place, self.encoded))
        return "logistic" if fitted is None else fitted.kind

    def unlike(self, place: Place, batch: Cohort) -> Mask | None:
        """Who of a batch is unlike anyone the model learned from (rows,), or None where nobody can say."""
        fitted = load_propensity(fitted_propensity(place, self.encoded))
        return None if fitted is None else unlike_newcomers(batch, self.source, self.target, fitted)


def made_for(place: Place, champion: Champion) -> MadeFor | None:
    """Whom a champion was made for; None where they are not on this machine."""
    described = champion.described
    encoded = Ref("encoded", described.encoded, described.digests.encoded, str(place.store))
    if not all((encoded.path / name).is_file() for name in (SOURCE, TARGET)):
        return None
    return MadeFor(encoded, *load_pair(encoded.path))
