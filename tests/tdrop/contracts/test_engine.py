"""Great Expectations is loaded without what no contract asks for, and finds it where somebody does."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, sys
from tdrop.contracts.engine import SELDOM_USED, great_expectations
gx = great_expectations()
assert not set(SELDOM_USED) & set(sys.modules), "loaded all the same, or a stand-in was left behind"
assert gc.isenabled()
from great_expectations.expectations.core import expect_column_kl_divergence_to_be_less_than as seldom
import scipy.stats
assert scipy.stats.norm.ppf(0.5) == 0.0
assert seldom.stats.entropy is scipy.stats.entropy
import altair
assert seldom.alt.Chart is altair.Chart
assert great_expectations() is gx
"""


def test_what_is_seldom_used_is_loaded_when_it_is_used():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=600)
