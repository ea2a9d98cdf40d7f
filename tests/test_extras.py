"""What `pip install transduce` brings is enough for clustering, fair clustering and strategies on features."""

import subprocess
import sys

EXTRAS = (
    *("PIL", "distributed", "fastapi", "filelock", "jinja2", "lightning_fabric", "markupsafe", "matplotlib", "mlflow"),
    *("omegaconf", "open_clip", "pillow_heif", "pyarrow", "pytorch_lightning", "requests", "rich", "sqlalchemy"),
    *("starlette", "submitit", "timm", "torchvision", "typer", "uvicorn", "yaml"),
)
BLOCKED = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
"""
METHODS = """
import numpy as np
from clustering import SLK, Ncut
from clustering.deep import EntropyClustering, XSDC
from fairness import FairKMeans
from fsl.evaluation import evaluate
from fsl.features import FeatureBank
from fsl.few_shot_classifier import FewShotClassifier

X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
SLK(2, n_init=2).fit(X)
Ncut(2).fit(X)
EntropyClustering(2, n_init=1).fit(X)
XSDC(2, steps=1).fit(X)
FairKMeans(2, fairness_weight=1.0).fit(X, sensitive_features=y)
print(FewShotClassifier("laplacianshot").fit(X[:10], y[:10]).predict(X[10:]).shape)
"""


def without_extras(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", BLOCKED + script]
    return subprocess.run(command, capture_output=True, text=True)


def test_methods_need_no_package_of_the_extras() -> None:
    done = without_extras(METHODS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(50,)\n"


def test_the_command_names_the_extra_that_it_needs() -> None:
    done = without_extras("import runs.cli")
    assert done.returncode == 1
    assert done.stderr.startswith("transduce: ")
    assert "pip install 'transduce[all]'" in done.stderr
