"""Few labelled pictures and a pile whose classes are mixed in some way: accuracy by strategy; memory of large piles.

python benchmarks/own_pictures.py validation.safetensors   # a feature bank of mini-ImageNet's validation classes
python benchmarks/own_pictures.py 20000                    # so many queries of 512 features at random
"""

import argparse
import resource
import warnings
from pathlib import Path

import numpy as np

from fsl.features.bank import FeatureBank
from fsl.few_shot_classifier import FewShotClassifier
from fsl.strategies import STRATEGIES

NAMES = ("simpleshot", "laplacianshot", "slk_means", "slk_ms", "soft_slk", "tim_adm", "alpha_tim")
DRAWS, WAY, SHOT = 10, 10, 5
MIXES = {"alike": [30] * WAY, "three prevail": [30] * 3 + [4] * 7, "one class": [30] + [0] * 9}


def accuracies(bank: FeatureBank) -> None:
    """Mean accuracy over draws of ten classes, with its 95 % interval."""
    features, truth = bank.features.numpy(), bank.labels.numpy()
    generator = np.random.default_rng(0)
    seen: dict[tuple[str, str], list[float]] = {}
    for _ in range(DRAWS):
        classes = generator.permutation(len(bank.class_names))[:WAY]
        rows = [generator.permutation(np.flatnonzero(truth == label)) for label in classes]
        support = np.concatenate([part[:SHOT] for part in rows])
        later = np.concatenate([part[300:330] for part in rows])
        for name, shift in [(name, shift) for name in NAMES for shift in (False, True)]:
            kind = STRATEGIES.load(name)
            if shift and not hasattr(kind, "shift"):
                continue
            strategy = kind(shift=True) if shift else name
            classifier = FewShotClassifier(strategy, device="cpu").fit(features[support], truth[support])
            label = f"{name} shift=true" if shift else name
            for mix, counts in MIXES.items():
                query = np.concatenate([part[SHOT : SHOT + n] for part, n in zip(rows, counts, strict=True)])
                seen.setdefault((label, mix), []).append(classifier.score(features[query], truth[query]))
                if mix == "alike":
                    classifier.refine(features[query])
            alone = classifier.predict(features[later], alone=True) == truth[later]
            seen.setdefault((label, "later, alone"), []).append(float(alone.mean()))
            together = classifier.score(features[later], truth[later])
            seen.setdefault((label, "later, together"), []).append(together)
    columns = (*MIXES, "later, alone", "later, together")
    print(f"{'':24}" + "".join(f"{mix:>18}" for mix in columns))
    for label in dict.fromkeys(label for label, _ in seen):
        cells = [np.array(seen[label, mix]) for mix in columns]
        print(f"{label:24}" + "".join(f"{100 * c.mean():11.1f} ± {196 * c.std() / DRAWS**0.5:4.1f}" for c in cells))


def memory(queries: int) -> None:
    """Peak of the process beyond the peak before."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(WAY, 512)).astype(np.float32)
    labels, truth = np.repeat(np.arange(WAY), SHOT), generator.integers(0, WAY, queries)
    support, query = (
        abs(centres[which] + generator.normal(size=(len(which), 512)).astype(np.float32)) for which in (labels, truth)
    )
    print(f"{queries:,} x {queries:,} float32: {4 * queries**2 / 2**30:.2f} GiB")
    for name in NAMES:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        FewShotClassifier(name, device="cpu").fit(support, labels).predict(query)
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"{name:16} {more / 2**20:.2f} GiB more than the largest before it")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", metavar="BANK|QUERIES", help="a feature bank, or a number of queries")
    what = parser.parse_args().what
    warnings.simplefilter("ignore", UserWarning)
    if what.isdigit():
        memory(int(what))
    else:
        accuracies(FeatureBank.load(Path(what)))
