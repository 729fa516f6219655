"""Every noun of the grammar in one place."""

from __future__ import annotations

from tdrop.contracts.record import Interval, Severity, digest_of
from tdrop.contracts.rule import Condition, Rule
from tdrop.contracts.site import Decision, Disclosure, Extract, LabelFile, Reader, Site
from tdrop.contracts.table import Column, Contract, Limits, Missing, Outcome, Subgroup

__all__ = [
    "Column",
    "Condition",
    "Contract",
    "Decision",
    "Disclosure",
    "Extract",
    "Interval",
    "LabelFile",
    "Limits",
    "Missing",
    "Outcome",
    "Reader",
    "Rule",
    "Severity",
    "Site",
    "Subgroup",
    "digest_of",
]
