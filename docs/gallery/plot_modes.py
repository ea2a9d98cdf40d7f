"""
Means and modes
===============

The prototype of a cluster in K-means is a mean, a blurred picture. In SLK it is a mode: a place where points are dense.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from clustering import SLK, KMeans

X, _ = load_digits(return_X_y=True)
means = KMeans(10, random_state=0).fit(X).cluster_centers_
modes = SLK(10, random_state=0).fit(X).cluster_centers_

figure, axes = plt.subplots(2, 10, figsize=(9, 2.2))
for line, name, prototypes in zip(axes, ("means", "modes"), (means, modes), strict=True):
    line[0].set_ylabel(name)
    for axis, prototype in zip(line, prototypes, strict=True):
        axis.imshow(prototype.reshape(8, 8), cmap="gray_r")
        axis.set(xticks=[], yticks=[])
figure.tight_layout()
