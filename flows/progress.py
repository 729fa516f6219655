"""One progress line per finished stage: for the terminal, and without numbers of patients for Prefect's log."""

from __future__ import annotations

from tdrop.choose import Choice
from tdrop.data import Encoder
from tdrop.evaluate import Evaluation
from tdrop.forecast import Forecast
from tdrop.home import Ref, ResolvedSite, emit_progress, files
from tdrop.methods import label
from tdrop.shift import Matching, Shift


def log_progress(site: ResolvedSite, ref: Ref, chosen: str = "") -> Ref:
    """Logs the result of a finished stage and returns the stage; Prefect's log gets no number of patients.

    Args:
        site: The target site.
        ref: The stage.
        chosen: The chosen method, for stages about all methods.
    """
    match ref.stage:
        case "encoded":
            features = _features(ref.record(Encoder, files.ENCODER))
            emit_progress(site.name, "encode", detail=features, public=features)
        case "shift":
            verdict = ref.record(Shift, "shift.json").verdict
            emit_progress(site.name, "estimate shift", detail=verdict, public=verdict)
        case "matching":
            retained = ref.record(Matching, "matching.json").retained
            emit_progress(site.name, "match", detail=f"{retained} source patients that resemble the site's set aside")
        case "choice":
            method = label(ref.record(Choice, "choice.json").method)
            emit_progress(site.name, "choose", detail=method, public=method)
        case "forecast":
            emit_progress(site.name, "forecast", detail=_expected(ref.record(Forecast, files.FORECAST), chosen))
        case "evaluation":
            emit_progress(site.name, "evaluate", detail=_evaluated(ref))
    return ref


def _features(encoder: Encoder) -> str:
    without = f"; not recorded here and left out: {', '.join(encoder.left_out)}" if encoder.left_out else ""
    if encoder.without_indicator:
        without += f"; whether a value is missing is left out for: {', '.join(encoder.without_indicator)}"
    return f"{len(encoder.features)} features{without}"


def _expected(forecast: Forecast, chosen: str) -> str:
    answer = forecast.find(chosen) or forecast.find(chosen, "mae")
    if answer is None or answer.value is None or answer.low is None or answer.high is None:
        return ""
    if answer.quantity == "mae":
        return f"mean absolute error {answer.value:.3g} ({answer.low:.3g} to {answer.high:.3g}) expected"
    return f"AUROC {answer.value:.2f} ({answer.low:.2f} to {answer.high:.2f}) expected"


def _evaluated(ref: Ref) -> str:
    evaluation = ref.record(Evaluation, "evaluation.json")
    known = f"{evaluation.patients:,} patients, {evaluation.labelled:,} with known outcome"
    refused = (ref.path / files.REFUSED).is_file()
    return f"{known}; the label file was refused, its report says why" if refused else known
