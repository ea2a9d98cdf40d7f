"""
The objective falls at every step
=================================

LaplacianShot minimises an objective for each task. Its steps solve a bound of the objective, which therefore never
rises. `trace` has its values, and many tasks are solved at once.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from fsl.episodes import Episodes
from fsl.samplers.drawn import Balanced
from fsl.strategies.laplacianshot import LaplacianShot

X, y = load_digits(return_X_y=True)
features = torch.tensor(X, dtype=torch.float32)

tasks = Balanced(shot=1).tasks(torch.tensor(y)).first(256)
episodes = Episodes(features[tasks.support], tasks.support_labels, features[tasks.query], way=5)
trace = LaplacianShot(transform="L2N").predict(episodes).trace  # (steps, tasks)

figure, axis = plt.subplots(figsize=(6, 3.6))
axis.plot(trace - trace[0], color="tab:blue", alpha=0.1)
axis.set_xlabel("step")
axis.set_ylabel("objective, less its start")
figure.tight_layout()
