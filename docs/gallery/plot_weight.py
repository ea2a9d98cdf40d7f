"""
The weight of the neighbour graph
=================================

SLK adds `weight` times a Laplacian term to K-modes: at 0, neighbours do not matter. The agreement with the true digits
is best around the default, 0.65, and falls where the graph outweighs the modes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from clustering import SLK, KMeans
from clustering.metrics import nmi

X, y = load_digits(return_X_y=True)
weights = [0, 0.1, 0.3, 1, 3, 10]
found = [nmi(y, SLK(10, weight=weight, normalize="l2", random_state=0).fit(X).labels_) for weight in weights]

figure, axis = plt.subplots(figsize=(6, 3.6))
axis.plot(range(len(weights)), found, "o-", label="SLK")
axis.axhline(nmi(y, KMeans(10, random_state=0).fit(X).labels_), color="gray", linestyle="--", label="K-means")
axis.set_xticks(range(len(weights)), [str(weight) for weight in weights])
axis.set_xlabel("weight of the graph")
axis.set_ylabel("normalised mutual information")
axis.legend()
figure.tight_layout()
