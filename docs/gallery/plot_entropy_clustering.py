"""
Boundaries between clusters: entropy clustering and K-means
===========================================================

K-means puts the boundary between two means, whatever the spread of the groups. `EntropyClustering` trains a linear
classifier whose predictions are confident and whose clusters are equally large, and looks for a gap with a margin.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from clustering import KMeans
from clustering.deep import EntropyClustering
from clustering.metrics import accuracy

blobs, y = make_blobs(600, centers=3, random_state=170)
X = blobs @ np.array([[0.6, -0.6], [-0.4, 0.8]])

figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
for axis, model in zip(axes, (KMeans(3, random_state=0), EntropyClustering(3, random_state=0)), strict=True):
    labels = model.fit(X).labels_
    axis.scatter(*X.T, c=labels, s=4, cmap="viridis")
    axis.set_title(f"{type(model).__name__}: {100 * accuracy(y, labels):.0f} %")
figure.tight_layout()
