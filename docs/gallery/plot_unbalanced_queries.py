"""
What helps when classes are unbalanced
======================================

PT-MAP expects equally many queries of every class. The sampler `Dirichlet` draws the proportions at random: the smaller
its concentration, the less balanced they are. PADDLE and Soft SLK estimate them.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from fsl.evaluation import evaluate
from fsl.extra.soft_slk import SoftSLK
from fsl.features import FeatureBank
from fsl.samplers.drawn import Dirichlet
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.paddle import PADDLE
from fsl.strategies.pt_map import PTMAP
from fsl.strategies.simpleshot import SimpleShot

X, y = load_digits(return_X_y=True)
features = torch.tensor(X, dtype=torch.float32)
bank = FeatureBank(features, torch.tensor(y), tuple("0123456789"), base_mean=features.mean(0))
strategies = {
    "SimpleShot": SimpleShot(),
    "LaplacianShot": LaplacianShot(),
    "PADDLE": PADDLE(),
    "Soft SLK": SoftSLK(),
    "PT-MAP (takes balance)": PTMAP(transform="UN"),
}

concentrations = [0.5, 1.0, 2.0, 5.0, 20.0]
tasks = {value: Dirichlet(shot=5, concentration=value).tasks(bank.labels) for value in concentrations}
found = {value: evaluate(strategies, bank, tasks[value], 300) for value in concentrations}

figure, axis = plt.subplots(figsize=(6, 3.6))
for name in strategies:
    axis.plot(concentrations, [100 * found[value][name].accuracy for value in concentrations], "o-", label=name)
axis.set_xscale("log")
axis.set_xlabel("concentration of the class proportions (left: unbalanced)")
axis.set_ylabel("accuracy in %")
axis.legend(fontsize=8)
figure.tight_layout()
