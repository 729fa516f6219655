"""Examples of several classes and of a continuous outcome: `python docs/other_outcomes.py wine|diabetes`.

Splits a table of scikit-learn into two sites by one column, which then is no feature. In a new folder of the working
directory it runs `tdrop start` on the two files, then `tdrop audit` on the outcomes of the second.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import sklearn.datasets

#: By table: the column that splits it, and the outcome.
TABLES = {"wine": ("ash", "cultivar"), "diabetes": ("sex", "progression")}


def main(name: str) -> None:
    """Writes both files and runs both commands."""
    column, outcome = TABLES[name]
    frame = getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame.rename(columns={"target": outcome})
    if name == "wine":
        frame[outcome] = frame[outcome].map({0: "first", 1: "second", 2: "third"})
    frame.insert(0, "id", [f"row{place}" for place in range(len(frame))])
    here = frame[column] <= frame[column].median()
    folder = Path(f"{name}-two-sites").absolute()
    folder.mkdir()
    for site, rows in (("ours", here), ("theirs", ~here)):
        frame[rows].drop(columns=column).to_csv(folder / f"{site}.csv", index=False)
    # The command of this environment, even if it is not on the path.
    tdrop = str(Path(sys.executable).with_name("tdrop"))
    start = [tdrop, "start", "ours.csv", "theirs.csv", "--outcome", outcome, "--id", "id", "--folder", "two", "--yes"]
    subprocess.run(start, cwd=folder, check=True)
    subprocess.run([tdrop, "audit", "theirs", str(folder / "theirs.csv")], cwd=folder / "two", check=True)


if __name__ == "__main__":
    main(sys.argv[1])
