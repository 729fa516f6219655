"""What MLflow is told about a site and its methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tdrop.methods import label

#: Tags on a version: the lock on its models, and the stage that new patients are compared with.
MODELS_DIGEST, ENCODED = "models_digest", "tdrop.encoded"


def model_name(site: str) -> str:
    """The registered model of a site."""
    return f"tdrop-{site}"


@dataclass(frozen=True)
class MethodRecord:
    """What one child run holds.

    Attributes:
        method: Name of the method.
        params: Settings of the refit.
        metrics: By group and name: `target/` (mean over seeds, `_low`, `_high`), `choice/`, `matched/`, `source/`.
        history: Training curve of the first seed.
        files: Text files by name.
        seconds: How long its refits took, fitting and sampling; None where that is not known.
        served: Folder with model/ and served.json of the first seed, or None when no model may be used here.
    """

    method: str
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    history: Sequence[Mapping[str, float | None]]
    files: Mapping[str, str]
    seconds: float | None = None
    served: str | None = None


@dataclass(frozen=True)
class SiteRecord:
    """What a site's parent run holds, and its children.

    Attributes:
        site: Name of the site.
        tags: Site, contract version, data digests, simulated or not, verdict.
        params: Settings of the run.
        metrics: Counts and the verdict's figures.
        datasets: By role ("source", "target"): name and digest.
        methods: One record a child run.
        exported: Folder whose files become the parent's artifacts.
        candidate: Folder with model/ and served.json, or None when no candidate may be made.
        chosen: The chosen method.
        example: Two rows in contract columns that show the input's form.
    """

    site: str
    tags: Mapping[str, str]
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    datasets: Mapping[str, tuple[str, str]]
    methods: Sequence[MethodRecord]
    exported: str
    candidate: str | None
    chosen: str
    example: Sequence[Mapping[str, Any]]

    def about(self) -> str:
        """What the site's run is, in two sentences."""
        patients = "simulated patients" if self.tags["simulated"] == "true" else "patients"
        return (
            f"The model of {self.tags['source']} moved to the {patients} of {self.site}: verdict "
            f"{self.tags['verdict']}, {label(self.chosen)} chosen without a label of the site. "
            "Each method is a run below this one; the report is among the artifacts."
        )

    def about_model(self) -> str:
        """What a version of the site's model is, in two sentences."""
        return (
            f"{label(self.chosen)}, fitted on {self.tags['source']} and chosen for {self.site} without a label of it; "
            f"verdict {self.tags['verdict']}. Nobody is scored with it before a person promotes it."
        )

    def about_method(self, method: str) -> str:
        """What a method's run is, in two sentences."""
        chosen = "chosen" if method == self.chosen else "not chosen"
        return (
            f"{label(method)}, tuned and fitted on {self.tags['source']} for {self.site}; {chosen}. "
            "`target/` is measured at the site, `choice/`, `matched/` and `source/` on source patients left out of "
            "the fit."
        )
