"""scikit-learn models as bytes: skops' format without what differs between two identical fits.

skops writes memory addresses and the time of day; both are taken out, so that the bytes depend on the
models alone. Nothing is loaded but plain values, what skops knows of scikit-learn's inner parts and the types in
`TRUSTED`.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

import sklearn.utils

from tdrop.errors import FitError

# skops asks for every estimator that scikit-learn has, to trust them all, and so loads all of it and PyTorch: seconds
# in every process. It is told of none here, and ours are named below.
_every_estimator, sklearn.utils.all_estimators = sklearn.utils.all_estimators, list
try:
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException
finally:
    sklearn.utils.all_estimators = _every_estimator

#: Types beyond skops' own list that a saved model may hold; each only stores arrays and numbers.
TRUSTED = (
    "sklearn.linear_model._logistic.LogisticRegression",
    "sklearn.linear_model._ridge.Ridge",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingRegressor",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.preprocessing._label.LabelEncoder",
)
_SCHEMA = "schema.json"


def dump_estimators(estimators: list[Any]) -> bytes:
    """Returns fitted scikit-learn models as bytes; identical models give identical bytes."""
    with ZipFile(io.BytesIO(skops.io.dumps(estimators))) as raw:
        names = {name: _content_name(raw.read(name)) for name in raw.namelist() if name != _SCHEMA}
        schema = _strip_addresses(json.loads(raw.read(_SCHEMA)), names)
        contents = {names[name]: raw.read(name) for name in names}
    contents[_SCHEMA] = json.dumps(schema, sort_keys=True).encode()
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as normal:
        for name in sorted(contents):
            # A ZipInfo made by hand carries no time of day. Level 1: higher ones cost seconds and save little.
            entry = ZipInfo(name)
            entry.compress_type = ZIP_DEFLATED
            normal.writestr(entry, contents[name], compresslevel=1)
    return buffer.getvalue()


def load_estimators(content: bytes, method: str) -> list[Any]:
    """Loads models from bytes, refusing every type that is not trusted."""
    try:
        estimators = skops.io.loads(content, trusted=list(TRUSTED))
    except UntrustedTypesFoundException as error:
        raise FitError(f"method '{method}': the saved model holds types that are not trusted ({error})") from None
    except (BadZipFile, KeyError, ValueError, TypeError, AttributeError, ImportError) as error:
        raise FitError(
            f"method '{method}': the saved model cannot be read ({type(error).__name__}); fit again"
        ) from None
    return list(estimators)


def _content_name(content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()[:24]}.npy"


def _strip_addresses(node: Any, names: dict[str, str]) -> Any:
    """The schema without object addresses, with arrays named by their content."""
    if isinstance(node, dict):
        return {key: _strip_addresses(value, names) for key, value in node.items() if key != "__id__"}
    if isinstance(node, list):
        return [_strip_addresses(each, names) for each in node]
    return names.get(node, node) if isinstance(node, str) else node
