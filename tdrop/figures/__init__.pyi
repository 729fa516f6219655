from .attrition import draw_attrition as draw_attrition
from .batches import draw_batches as draw_batches
from .curves import (
    draw_precision_recall as draw_precision_recall,
    draw_roc as draw_roc,
    draw_smooth_calibration as draw_smooth_calibration,
)
from .methods import (
    DropoutRates as DropoutRates,
    draw_calibration as draw_calibration,
    draw_dropout_rates as draw_dropout_rates,
    draw_interval_sweep as draw_interval_sweep,
    draw_metric as draw_metric,
    metric_span as metric_span,
)
from .referral import (
    draw_decision_curve as draw_decision_curve,
    draw_recalibration as draw_recalibration,
    draw_risk_coverage as draw_risk_coverage,
    draw_risk_histogram as draw_risk_histogram,
)
from .sites import draw_balance as draw_balance, draw_densities as draw_densities, draw_propensity as draw_propensity
from .style import (
    INK as INK,
    SOURCE_COLOUR as SOURCE_COLOUR,
    TARGET_COLOUR as TARGET_COLOUR,
    Canvas as Canvas,
    look as look,
    styled as styled,
)
from .unlabelled import draw_moved as draw_moved
