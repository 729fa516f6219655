from .left_out import LeftOut as LeftOut, measure_left_out as measure_left_out
from .recalibration import (
    Adjustment as Adjustment,
    Recalibration as Recalibration,
    suggest_recalibration as suggest_recalibration,
)
from .records import ALL as ALL, Evaluation as Evaluation, Row as Row, Why as Why
from .run import evaluate_methods as evaluate_methods, patients_table as patients_table
from .unlabelled import Moved as Moved, MovedGroup as MovedGroup, compare_risks as compare_risks
