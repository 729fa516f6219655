"""What to call encoded features: a contract decides how they are named, so it also says what they mean."""

from __future__ import annotations

from tdrop.contracts.schema import Column, Contract


def feature_titles(contract: Contract | None) -> dict[str, str]:
    """Returns, by encoded feature, its name for people."""
    titles = {}
    for column in contract.features if contract else ():
        titles[f"{column.name}_missing"] = f"{column.label} missing"
        titles[column.name] = f"{column.label} ({column.unit})" if column.unit else column.label
        titles[f"log_{column.name}"] = f"{column.label} (log)"
        for category in column.categories:
            titles[f"{column.name}={category}"] = f"{column.label}: {column.category_titles.get(category, category)}"
    return titles


def feature_columns(contract: Contract) -> dict[str, Column]:
    """Returns, by encoded feature, the contract's column."""
    columns: dict[str, Column] = {}
    for column in contract.features:
        names = (column.name, f"log_{column.name}", f"{column.name}_missing")
        columns |= dict.fromkeys((*names, *(f"{column.name}={category}" for category in column.categories)), column)
    return columns


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
