"""The paper's printed tables (Chan et al., ICML 2020), to stand beside ours. Their data are not public.

The concrete-dropout row of the appendix repeats the prostate row under breast cancer, which looks like a slip of the
paper; it is copied as printed and nothing is judged by it.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Table 1, SEER to Prostate Cancer UK: test, error, interval width, misclassified sd, INPT.
PROSTATE: Mapping[str, str] = {
    "mlp": "0.720, n/a, n/a, n/a, n/a",
    "mc_dropout": "0.729, 0.730, 0.093, 0.025, 8",
    "concrete_dropout": "0.791, 0.794, 0.151, 0.066, 76",
    "ensemble": "0.761, 0.782, 0.037, 0.018, 8",
    "mixmatch": "0.728, 0.726, 0.082, 0.021, 0",
    "last_layer": "0.723, 0.696, 0.073, 0.028, 22",
    "tdnr": "0.836, 0.808, 0.197, 0.068, 18",
    "transductive_dropout": "0.861, 0.857, 0.130, 0.110, 189",
}

#: The appendix: (test, error) with the printed plus-minus, by data set and method.
UCI: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "breast cancer": {
        "mc_dropout": ("0.979 ± 0.012", "0.662 ± 0.033"),
        "concrete_dropout": ("0.791 ± 0.006", "0.794 ± 0.006"),
        "ensemble": ("0.978 ± 0.011", "0.675 ± 0.007"),
        "mixmatch": ("0.986 ± 0.010", "0.529 ± 0.046"),
        "last_layer": ("0.950 ± 0.033", "0.329 ± 0.032"),
        "tdnr": ("0.979 ± 0.013", "0.945 ± 0.026"),
        "transductive_dropout": ("0.968 ± 0.017", "0.975 ± 0.015"),
    },
    "iris": {
        "mc_dropout": ("0.937 ± 0.044", "0.063 ± 0.046"),
        "concrete_dropout": ("0.952 ± 0.038", "0.847 ± 0.055"),
        "ensemble": ("0.960 ± 0.041", "0.571 ± 0.115"),
        "mixmatch": ("0.242 ± 0.069", "0.758 ± 0.069"),
        "last_layer": ("0.929 ± 0.064", "0.071 ± 0.064"),
        "tdnr": ("0.940 ± 0.045", "0.657 ± 0.105"),
        "transductive_dropout": ("0.956 ± 0.045", "0.877 ± 0.082"),
    },
    "wine": {
        "mc_dropout": ("0.972 ± 0.026", "0.775 ± 0.155"),
        "concrete_dropout": ("1.000 ± 0.000", "0.915 ± 0.050"),
        "ensemble": ("0.993 ± 0.007", "0.939 ± 0.037"),
        "mixmatch": ("0.889 ± 0.050", "0.611 ± 0.105"),
        "last_layer": ("0.986 ± 0.013", "0.575 ± 0.230"),
        "tdnr": ("1.000 ± 0.000", "0.890 ± 0.055"),
        "transductive_dropout": ("1.000 ± 0.000", "0.951 ± 0.034"),
    },
}
