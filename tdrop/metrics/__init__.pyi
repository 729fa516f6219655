from .calibration import (
    CalibrationError as CalibrationError,
    CalibrationTable as CalibrationTable,
    MeasuredError as MeasuredError,
    ResampledCalibration as ResampledCalibration,
    calibration_intercept as calibration_intercept,
    calibration_line as calibration_line,
    expected_calibration_error as expected_calibration_error,
    fit_line as fit_line,
    recalibrated as recalibrated,
    sigmoid as sigmoid,
)
from .catalogue import (
    METRICS as METRICS,
    difference_name as difference_name,
    metrics_in_view as metrics_in_view,
    subgroup_metrics as subgroup_metrics,
)
from .curves import (
    Curve as Curve,
    benefit_curve as benefit_curve,
    precision_recall_curve as precision_recall_curve,
    roc_curve as roc_curve,
    smooth_calibration as smooth_calibration,
)
from .lines import apply_lines as apply_lines, weighted_lines as weighted_lines
from .metric import (
    FEWEST_EVENTS as FEWEST_EVENTS,
    Mean as Mean,
    Part as Part,
    Patients as Patients,
    Ranking as Ranking,
    Ratio as Ratio,
    Total as Total,
)
from .ranking import (
    FEW_EVENTS as FEW_EVENTS,
    RankedPairs as RankedPairs,
    auroc as auroc,
    auroc_interval as auroc_interval,
    delong as delong,
)
from .referral import (
    Decision as Decision,
    Mask as Mask,
    Referrals as Referrals,
    RiskCoverage as RiskCoverage,
    capacity_count as capacity_count,
    expected_error as expected_error,
    expected_loss as expected_loss,
    fewest as fewest,
    has_spread as has_spread,
    inpt as inpt,
    most as most,
    net_benefit as net_benefit,
    per_row_benefit as per_row_benefit,
    refer as refer,
    referred_at_level as referred_at_level,
    referred_by_level as referred_by_level,
    retained_error as retained_error,
    risk_coverage as risk_coverage,
    stretch_to_level as stretch_to_level,
    take as take,
)
from .resampling import (
    Quotient as Quotient,
    Statistic as Statistic,
    Sums as Sums,
    count_blocks as count_blocks,
    over_fits as over_fits,
    percentile_interval as percentile_interval,
)
from .scores import (
    CLASS_THRESHOLD as CLASS_THRESHOLD,
    brier as brier,
    clip_risk as clip_risk,
    divide as divide,
    log_loss as log_loss,
    logit as logit,
    misclassified as misclassified,
    per_row_log_loss as per_row_log_loss,
)
