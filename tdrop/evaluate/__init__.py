"""Evaluation of a site: numbers with and without outcomes, the list of patients, recalibration."""

from tdrop.evaluate.moved import Moved, MovedGroup, Reliability, compare_risks
from tdrop.evaluate.patients import patients_table
from tdrop.evaluate.recalibration import Recalibration, suggest_recalibration
from tdrop.evaluate.records import ALL, Evaluation, Row
from tdrop.evaluate.run import evaluate

__all__ = [
    "ALL",
    "Evaluation",
    "Moved",
    "MovedGroup",
    "Recalibration",
    "Reliability",
    "Row",
    "compare_risks",
    "evaluate",
    "patients_table",
    "suggest_recalibration",
]
