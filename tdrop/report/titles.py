"""What to call encoded features: the encoder says what it makes of a contract's columns."""

from __future__ import annotations

from tdrop.base import Feature
from tdrop.contracts import Contract
from tdrop.data import features_of


def feature_titles(contract: Contract | None) -> dict[str, str]:
    """Returns, by encoded feature and by column, its name for people."""
    if contract is None:
        return {}
    columns = {column.name: column.title or column.name for column in contract.features}
    return columns | {feature.name: feature.label for feature in features_of(contract)}


def known_features(contract: Contract) -> dict[str, Feature]:
    """Returns, by name, what each encoded feature is."""
    return {feature.name: feature for feature in features_of(contract)}


def value_names(contract: Contract | None) -> dict[str, dict[float, str]]:
    """Returns, by ordinal feature, what its codes 1, 2, ... stand for."""
    return {
        column.name: {float(code): category for code, category in enumerate(column.categories, start=1)}
        for column in (contract.features if contract else ())
        if column.type == "ordinal"
    }


def in_sentence(title: str) -> str:
    """Writes a title as it stands inside a sentence: `Age` becomes `age`, `PSA` stays."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title
