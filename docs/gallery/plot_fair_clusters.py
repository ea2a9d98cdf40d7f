"""
Who is in each cluster
======================

442 patients in three clusters by their blood values, without fairness and with a goal: the smaller group of each
cluster is at least 0.8 times as large, relative to the other, as among all patients.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from fairness import FairKMeans

patients = load_diabetes(as_frame=True, scaled=False).data
X = ((patients - patients.mean()) / patients.std()).drop(columns="sex")
sex = patients["sex"].map({1.0: "group 1", 2.0: "group 2"})
models = {
    "K-means": FairKMeans(3, fairness_weight=0, random_state=0),
    "fair": FairKMeans(3, fairness_weight={"min_balance": 0.8}, random_state=0),
}

figure, axes = plt.subplots(1, 2, figsize=(7, 3), sharey=True)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    labels = model.fit(X, sensitive_features=sex).labels_
    shares = [np.mean(sex[labels == cluster] == "group 1") for cluster in range(3)]
    axis.bar(range(3), shares)
    axis.axhline(np.mean(sex == "group 1"), color="black", linestyle="--", label="all patients")
    axis.set(title=f"{name}: objective {model.objective_:.0f}", xticks=range(3), xlabel="cluster")
axes[0].set_ylabel("share of group 1")
axes[1].legend()
figure.tight_layout()
