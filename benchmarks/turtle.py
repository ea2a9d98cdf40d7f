"""TURTLE beside other clusterers on features of networks: [NMI (geometric), accuracy] of each seed, in %.

python benchmarks/turtle.py SEEDS FILE.npz [FILE.npz ...]      # several files are encoders of the same pictures
"""

import sys

import numpy as np

from clustering import SLK, KMeans
from clustering.deep import TURTLE, EntropyClustering
from clustering.metrics import accuracy, nmi

files = [np.load(path) for path in sys.argv[2:]]
images, labels = ("images", "labels") if "images" in files[0] else ("test_features", "test_labels")
parts = [np.float32(file[images]) / np.linalg.norm(np.float32(file[images]), axis=1, keepdims=True) for file in files]
X, y, K = np.hstack(parts), files[0][labels], len(np.unique(files[0][labels]))
for model in (TURTLE(K, blocks=[part.shape[1] for part in parts]), SLK(K), EntropyClustering(K), KMeans(K, n_init=10)):
    found = [model.set_params(random_state=seed).fit(X).labels_ for seed in range(int(sys.argv[1]))]
    print(type(model).__name__, *(np.round([100 * nmi(y, one), 100 * accuracy(y, one)], 1).tolist() for one in found))
