from .curves import (
    Compared as Compared,
    draw_calibration as draw_calibration,
    draw_decision_curve as draw_decision_curve,
    draw_interval_sweep as draw_interval_sweep,
    draw_ladder as draw_ladder,
    draw_ranking as draw_ranking,
    draw_risk_coverage as draw_risk_coverage,
)
from .forests import (
    SiteLine as SiteLine,
    draw_metric as draw_metric,
    draw_site_number as draw_site_number,
    draw_site_reviews as draw_site_reviews,
    metric_span as metric_span,
)
from .patients import (
    draw_attrition as draw_attrition,
    draw_balance as draw_balance,
    draw_densities as draw_densities,
    draw_follow_up as draw_follow_up,
    draw_propensity as draw_propensity,
    draw_risk_histogram as draw_risk_histogram,
    risk_bars as risk_bars,
)
from .style import (
    INK as INK,
    LOOKS as LOOKS,
    SOURCE_COLOUR as SOURCE_COLOUR,
    TARGET_COLOUR as TARGET_COLOUR,
    Canvas as Canvas,
    Drawing as Drawing,
    look as look,
    styled as styled,
)
from .watch import (
    draw_evidence as draw_evidence,
    draw_running_means as draw_running_means,
    draw_watched_batches as draw_watched_batches,
)
