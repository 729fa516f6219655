"""What one transfer left: references to its stages, enough to evaluate and report again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from tasks.place import Place
from tasks.settings import TransferSettings
from tasks.store import Ref
from tdrop.errors import UsageError

RUN = "run.json"


@dataclass(frozen=True)
class Trained:
    """What training left, by method.

    Attributes:
        trials: Every trial.
        picked: The trial whose settings were refitted.
        fits: One fit a seed.
        folds: Out-of-fold scores, where the criterion needs them.
        failed: Methods that failed, with a sentence each.
    """

    trials: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    picked: dict[str, dict[str, Any]] = field(default_factory=dict)
    fits: dict[str, list[Ref]] = field(default_factory=dict)
    folds: dict[str, Ref] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One transfer of one site.

    Attributes:
        site: Name of the target site.
        settings: As the run was started.
        trained: What training left.
        stages: source, target, encoded, shift, matching, choice, models, evaluation.
    """

    site: str
    settings: TransferSettings
    trained: Trained
    stages: dict[str, Ref]

    @property
    def chosen(self) -> str:
        """The chosen method."""
        return str(self.stages["choice"].json("choice.json")["method"])

    def with_evaluation(self, evaluation: Ref) -> Run:
        """The same models, evaluated anew."""
        return Run(self.site, self.settings, self.trained, {**self.stages, "evaluation": evaluation})

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON types."""
        return {
            "site": self.site,
            "settings": self.settings.model_dump(mode="json"),
            "trained": asdict(self.trained),
            "stages": {name: asdict(ref) for name, ref in self.stages.items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reads what `to_dict` wrote."""
        trained = data["trained"]
        return cls(
            site=data["site"],
            settings=TransferSettings.model_validate(data["settings"]),
            trained=Trained(
                trials=trained["trials"],
                picked=trained["picked"],
                fits={method: [Ref(**ref) for ref in refs] for method, refs in trained["fits"].items()},
                folds={method: Ref(**ref) for method, ref in trained["folds"].items()},
                failed=trained["failed"],
            ),
            stages={name: Ref(**ref) for name, ref in data["stages"].items()},
        )


def last_run(place: Place, site: str) -> Run:
    """The run behind a site's last report; a UsageError says what to do when there is none."""
    place.network().site(site)
    try:
        data = json.loads((place.latest(site) / RUN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"site '{site}' has no report yet; run `tdrop transfer {site}` first") from None
    run = Run.from_dict(data)
    refs = [*run.stages.values(), *(ref for refs in run.trained.fits.values() for ref in refs)]
    if not all(ref.path.is_dir() for ref in refs):
        raise UsageError(f"the models behind site '{site}' were pruned; run `tdrop transfer {site} --again`")
    return run
