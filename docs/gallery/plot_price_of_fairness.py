"""
The price of fairness
=====================

The larger the weight of fairness, the nearer the share of each group of people in every cluster is to its share in all
data, and the higher the objective of K-means. `path` fits a list of weights, each from where the one before ended.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from fairness import FairKMeans

patients = load_diabetes(as_frame=True, scaled=False).data
X = ((patients - patients.mean()) / patients.std()).drop(columns="sex")
weights = [0, 300, 1000, 3000, 10_000, 30_000]
path = FairKMeans(3, random_state=0).path(X, weights, sensitive_features=patients["sex"])

figure, axis = plt.subplots(figsize=(6, 3.6))
axis.plot([model.fairness_error_ for model in path], [model.objective_ / path[0].objective_ for model in path], "o-")
for model in path:
    place = model.fairness_error_, model.objective_ / path[0].objective_
    axis.annotate(f"{model.fairness_weight:g}", place, xytext=(5, 4), textcoords="offset points", fontsize=8)
axis.set_xlabel("fairness error")
axis.set_ylabel("objective, relative to K-means")
figure.tight_layout()
