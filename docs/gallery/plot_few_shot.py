"""
How many labels are worth how much
==================================

A transductive strategy looks at all queries together. With one labelled example of each class this is worth several
labels; with ten, little. The features are the pixels of scikit-learn's digits.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from fsl.evaluation import evaluate
from fsl.features import FeatureBank
from fsl.samplers.drawn import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.slk import SLKMS

X, y = load_digits(return_X_y=True)
features = torch.tensor(X, dtype=torch.float32)
bank = FeatureBank(features, torch.tensor(y), tuple("0123456789"), base_mean=features.mean(0))
strategies = {"SimpleShot (inductive)": SimpleShot(), "LaplacianShot": LaplacianShot(), "SLK-MS": SLKMS()}

shots = [1, 2, 3, 5, 10]
found = {shot: evaluate(strategies, bank, Balanced(shot=shot).tasks(bank.labels), 500) for shot in shots}

figure, axis = plt.subplots(figsize=(6, 3.6))
for name in strategies:
    accuracy = [100 * found[shot][name].accuracy for shot in shots]
    axis.errorbar(shots, accuracy, [100 * found[shot][name].ci95 for shot in shots], marker="o", label=name)
axis.set_xlabel("labelled examples of each class")
axis.set_ylabel("accuracy in %, 95 % interval")
axis.legend()
figure.tight_layout()
