"""Files whose headers and values were made up: none has a say in what is imported, and none is half believed."""

import json
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from clustering.datasets.features import Features
from clustering.files.tensors import write_tensors
from clustering.foundation.errors import InputError
from clustering.foundation.plugins import Plugins
from fsl.backbones import create_backbone
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.features.image_encoder import ImageEncoder
from fsl.samplers.drawn import Balanced
from runs.config.configs import EvaluateConfig, parse
from runs.console.endings import MISTAKE, explain
from runs.stages.clustering.deep_network import DeepNetwork
from runs.stages.clustering.results import Trials
from runs.stages.fair.results import TradeOff
from runs.tables.compared import classes_as_csv

CODE = "from pathlib import Path\nPath('ran').touch()\nclass Thing:\n    mean = std = (0.5,)\n"


@pytest.mark.parametrize("about", [{"benchmark": "./harm.py:Thing"}, {"benchmark": "harm:Thing"}, [], "text", {}])
def test_a_checkpoint_imports_nothing(tmp_path, monkeypatch, about):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("harm.py").write_text(CODE)
    header = {"format": "transduce backbone 1", "backbone": "conv4", "channels": "1", "size": "16"}
    weights = create_backbone("conv4", channels=1, size=16).state_dict()
    write_tensors(Path("own.safetensors"), weights, {**header, "about": json.dumps(about)})
    with pytest.raises(InputError, match=r"own\.safetensors: its header is damaged \(mean and std"):
        ImageEncoder.of("own.safetensors", device="cpu")
    assert not Path("ran").exists()
    assert "harm" not in sys.modules


def bank(path: Path, provenance: str = "{}", **changed: torch.Tensor) -> Path:
    tensors = {"features": torch.randn(6, 2), "labels": torch.arange(6) % 2} | changed
    header = {"format": "transduce features 1", "class_names": json.dumps(["a", "b"]), "provenance": provenance}
    write_tensors(path, tensors, header)
    return path


@pytest.mark.parametrize("provenance", ["5", "null", "[1]", "[[1]]", "{"])
def test_a_provenance_that_is_none(tmp_path, provenance):
    with pytest.raises(InputError, match=r"own\.safetensors"):
        FeatureBank.load(bank(tmp_path / "own.safetensors", provenance))


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": torch.arange(6) % 2 - 1},
        {"labels": torch.zeros(5, dtype=torch.int64)},
        {"labels": torch.zeros(6)},
        {"told": torch.ones(3, dtype=torch.bool)},
        {"features": torch.randn(6, 2) + 0j},
        {"features": torch.randn(6)},
    ],
)
def test_parts_of_a_bank_that_do_not_fit(tmp_path, changed):
    with pytest.raises(InputError, match=r"own\.safetensors"):
        Features(str(bank(tmp_path / "own.safetensors", **changed))).read()


@pytest.mark.parametrize("kind", [Trials, TradeOff])
def test_results_of_another_shape_are_damaged(tmp_path, kind):
    arrays = {name: np.zeros((1, 3), dtype=np.int64) for name in kind.__dataclass_fields__}
    np.savez(tmp_path / "own.npz", **arrays | {"settings": np.array("[{}]"), "seconds": np.array(3)})
    with pytest.raises((ValueError, TypeError, IndexError)):
        kind.load(tmp_path / "own.npz")


def test_a_damaged_database_is_a_mistake_to_mend(tmp_path):
    (tmp_path / "own.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    with pytest.raises(sqlite3.DatabaseError) as caught:
        sqlite3.connect(tmp_path / "own.db").execute("select * from runs")
    wrapped = RuntimeError("of a library")
    wrapped.__cause__ = caught.value
    text, code = explain(wrapped)
    assert code == MISTAKE
    assert "results=FOLDER" in text


def test_a_name_with_a_nul_character(tmp_path):
    (tmp_path / "own.yaml").write_text('features: ["a\\0b"]\n')
    with pytest.raises(InputError, match=r"own\.yaml: .*NUL"):
        parse(EvaluateConfig, [f"experiment={tmp_path / 'own.yaml'}"])


def test_code_that_ends_the_process_is_a_mistake(tmp_path):
    (tmp_path / "ends_at_once.py").write_text("raise SystemExit(0)\n")
    with pytest.raises(InputError, match="SystemExit"):
        Plugins("strategy", {}, "").load(f"{tmp_path}/ends_at_once.py:Thing")
    with pytest.raises(InputError, match="sys:exit"):
        DeepNetwork(architecture="sys:exit").backbone(1, 8)()


def test_a_class_is_no_formula_to_a_spreadsheet():
    frame = pd.DataFrame({"class": ["=1+1"], "difference": [-0.5]})
    assert classes_as_csv([frame]).splitlines() == ["class,difference", "'=1+1,-0.5"]


def test_equations_without_a_solution_are_a_mistake(tmp_path):
    class Unsolvable:
        transform = "UN"
        transductive = assumes_balance = False

        def predict(self, episodes):
            torch.linalg.cholesky(torch.zeros(2, 2))

    bank = FeatureBank(torch.ones(40, 2), torch.arange(40) % 2, ("a", "b"))
    tasks = Balanced(way=2, query=1).tasks(bank.labels)
    with pytest.raises(InputError, match="strategy mine: its equations"):
        evaluate({"mine": Unsolvable()}, bank, tasks, 1)
