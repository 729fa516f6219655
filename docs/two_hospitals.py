"""Two hospitals (simulated), twenty lines: who is sent to a clinician, and does that help? Writes two_hospitals.png."""

import matplotlib
import numpy as np

from tdrop import TransferClassifier
from tdrop.data import simulated_cohort

matplotlib.use("Agg")
import matplotlib.pyplot as plt

here, there = simulated_cohort("source", 1_000, seed=0), simulated_cohort("severe", 500, seed=1)
model = TransferClassifier("transductive_dropout", settings={"steps": 200}).fit(here.X, here.y, X_target=there.X)
order = np.argsort(-model.predict_uncertainty(there.X))
wrong = (model.predict(there.X) != there.y)[order]
kept = [wrong[referred:].mean() for referred in range(0, 400, 10)]
plt.plot(np.arange(0, 400, 10) / len(there), kept)
plt.xlabel("share of the new hospital's patients referred, most uncertain first")
plt.ylabel("wrong among the others")
plt.savefig("two_hospitals.png", dpi=100)
