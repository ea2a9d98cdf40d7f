"""Whether ten rounds of balancing are enough: python benchmarks/xsdc_rounds.py [--seeds 3]

XSDC on scikit-learn's digits with 50 labels, ten rounds against two hundred: by how much at most the size of a point's
cluster misses its bounds after balancing, as a share of the mean size, at first and at last, and the accuracy on the
other digits, seed by seed.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits

from clustering.datasets.dataset import Dataset
from clustering.deep import XSDC
from clustering.evaluation.known_labels import drawn_labels

PENALTIES = {"chosen": None, "2^-20": 2.0**-20}
ROUNDS = (10, 200)
BATCH = 512
PAPER = {"assignment": "balancing", "schedule": "constant", "classifier": "nearest"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    data = Dataset((X / 16).astype(np.float32), y.astype(np.int64), tuple(map(str, range(10))))
    size = (50 + BATCH) / 10
    print(f"{'penalty':>8}{'rounds':>8}{'first residual':>16}{'last residual':>15}{'accuracy':>10}  by seed")
    for name, penalty in PENALTIES.items():
        found = {}
        for rounds in ROUNDS:
            reached, residuals = [], []
            for seed in range(1, options.seeds + 1):
                known = drawn_labels(data, 50, seed)
                model = XSDC(10, penalty=penalty, rounds=rounds, batch_size=BATCH, random_state=seed, **PAPER)
                model.fit(data.values, partial_labels=known.labels)
                reached.append(float((model.labels_ == y)[~known.known].mean()))
                residuals.append(model.residuals_[-model.steps :] / size)
            found[rounds] = np.array(reached)
            first, last = np.mean(residuals, axis=0)[[0, -1]]
            each = " ".join(f"{one:.3f}" for one in reached)
            print(f"{name:>8}{rounds:>8}{first:>16.2g}{last:>15.2g}{np.mean(reached):>10.3f}  {each}", flush=True)
        differences = found[ROUNDS[1]] - found[ROUNDS[0]]
        print(f"{'':8}{ROUNDS[1]} rounds are {100 * differences.mean():+.2f} points above {ROUNDS[0]}")


if __name__ == "__main__":
    main()
