"""
SLK beside K-means, K-modes and normalised cut
==============================================

K-means separates groups by straight lines. The neighbour graph of SLK lets a group have any shape, as normalised cut
does, and each cluster still has a prototype.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs, make_circles, make_moons

from clustering import SLK, GaussianKModes, KMeans, Ncut
from clustering.metrics import accuracy

blobs, of_blob = make_blobs(400, centers=3, random_state=170)
shapes = {
    "moons": (*make_moons(400, noise=0.06, random_state=0), 2),
    "circles": (*make_circles(400, noise=0.05, factor=0.4, random_state=0), 2),
    "stretched": (blobs @ np.array([[0.6, -0.6], [-0.4, 0.8]]), of_blob, 3),
    "unequal": (*make_blobs(400, centers=3, cluster_std=[1.0, 2.5, 0.5], random_state=170), 3),
}
methods = {"K-means": KMeans, "Gaussian K-modes": GaussianKModes, "Ncut": Ncut, "SLK": SLK}

figure, axes = plt.subplots(4, 4, figsize=(8, 8), sharex="row", sharey="row")
for line, (shape, (X, y, n_clusters)) in zip(axes, shapes.items(), strict=True):
    line[0].set_ylabel(shape)
    for axis, (name, method) in zip(line, methods.items(), strict=True):
        labels = method(n_clusters, random_state=0).fit(X).labels_
        axis.scatter(*X.T, c=labels, s=4, cmap="viridis")
        axis.set_title(f"{name}: {100 * accuracy(y, labels):.0f} %", fontsize=9)
        axis.set(xticks=[], yticks=[])
figure.tight_layout()
