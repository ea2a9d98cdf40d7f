"""
Clustering with a few labels
============================

`XSDC` learns features in which a linear classifier separates the clusters. It accepts any number of known labels; the
accuracy is that of the points without one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from clustering.deep import XSDC

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
counts = [40, 100, 300]
found = {"XSDC": [], "logistic regression, labelled points alone": []}
for count in counts:
    known, rest = order[:count], order[count:]
    labels = np.full(len(X), -1)
    labels[known] = y[known]
    clusters = XSDC(10, representation="kernel", random_state=0).fit(X, partial_labels=labels).labels_
    classifier = LogisticRegression(max_iter=1000).fit(X[known], y[known])
    found["XSDC"].append(np.mean(clusters[rest] == y[rest]))
    found["logistic regression, labelled points alone"].append(classifier.score(X[rest], y[rest]))

figure, axis = plt.subplots(figsize=(6, 3.6))
for name, values in found.items():
    axis.plot(counts, values, "o-", label=name)
axis.set_xscale("log")
axis.set_xticks(counts, [str(count) for count in counts])
axis.minorticks_off()
axis.set_xlabel("labelled points of 1,797")
axis.set_ylabel("accuracy on the others")
axis.legend()
figure.tight_layout()
