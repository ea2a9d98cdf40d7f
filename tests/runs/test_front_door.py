"""What is answered before anything heavy is imported: many command lines in one fresh process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = [
    *("torch", "torchvision", "timm", "pytorch_lightning", "mlflow", "numpy", "pandas", "scipy", "sklearn"),
    *("matplotlib", "faiss", "sqlalchemy"),
]
LINES = {
    "": (0, ""),
    "--help": (0, ""),
    "--version": (0, ""),
    "data": (2, "transduce data --help"),
    "data where": (2, "NAME"),
    "data where minni": (2, "mini"),
    "data check benchmark=mini epochs=3": (2, "epochs"),
    "classify": (2, "--support FOLDER"),
    "classify --support": (2, "--support VALUE"),
    "classify --support /no/such --query /no/such2": (2, "/no/such: no such folder"),
    "import": (2, "transduce import --help"),
    "import features": (2, "FILE"),
    "import features x.plk backbone=conv4": (2, "backbone= applies to a folder of pictures"),
    "import checkpoint x.pth backbone=convv4": (2, "conv4"),
    "evaluate features=x.plk benchmark=mini": (2, "benchmark=mini and its keys have no effect with features="),
    "evaluate features=x.plk epochs=3": (2, "training=glyphs and its keys"),
    "evaluate features=x.plk checkpoint=y.pth": (2, "omit one"),
    "evaluate features=x.plk crop_pct=0.875": (2, "crop_pct= applies to images"),
    "train features=x.plk": (2, "transduce evaluate or transduce tune"),
    "report result=x": (2, "results"),
    "report --counts --open": (2, "--open"),
    "list backbones trainings networks objectives experiments tables": (0, ""),
    "evalute": (2, "evaluate"),
    "shot=1": (2, "transduce VERB"),
    "--json": (2, "--json"),
    "evaluate --forse": (2, "--force"),
    "cluster n_clusters=x": (2, "n_clusters"),
    "list --force": (2, "--force"),
    "list benchmark=glyphs": (2, "names only"),
    "ui prt=1": (2, "'port'"),
    "evaluate benchmark=glyfs": (2, "glyphs"),
    "evaluate benchmark=glyphs backbone=convv4": (2, "conv4"),
    "evaluate benchmark=glyphs backbone=open_clip:ViT-B-32": (2, "import features FOLDER backbone=open_clip:ViT-B-32"),
    "evaluate tuning=paper": (2, "papers"),
    "tune strategy=simpleshot": (2, "temperature=5,15,30"),
    "tune tasks=5": (2, "transduce evaluate"),
    "ui port=high": (2, "'--port': Input should be a valid integer"),
    "ui port=1,2": (2, "'--port': Input should be a valid integer"),
    "evaluate results=a,b": (2, "results= takes one folder"),
    "evaluate beta=-1 strategy=simpleshot": (2, "beta must be a number above 0"),
    "evaluate transform=zscore": (2, "transform must be one of UN, L2N, CL2N"),
    "evaluate strategy=laplacianshot graph=complete": (2, "graph must be one of average, union, mutual, directed"),
    "evaluate shot=0": (2, "shot must be an integer at least 1"),
    "evaluate shot=null": (2, "shot must be an integer at least 1"),
    "evaluate way=1": (2, "way must be an integer at least 2"),
    "train samples=0": (2, "samples must be an integer at least 1"),
    "config nothing": (2, "unknown verb 'nothing'; did you mean 'train'"),
    "figure thesis/99": (2, "'thesis/99'; did you mean 'thesis/"),
    "figure xsdc/2": (2, "shows no data"),
    "figure": (2, "thesis/4.1"),
}
SCRIPT = """
import contextlib, io, json, sys
from runs.cli import main
answers = {}
for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line.split())
    heavy = [name for name in HEAVY if name in sys.modules]
    answers[line] = [code, out.getvalue(), err.getvalue(), heavy]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("front_door")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"HEAVY = {HEAVY!r}\n{SCRIPT}"],
        input=json.dumps(list(LINES)),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TRANSDUCE_RESULTS": str(folder / "results")},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return json.loads(done.stdout)


@pytest.mark.parametrize("line", LINES)
def test_answers_without_importing_anything_heavy(line, answers):
    code, out, err, heavy = answers[line]
    expected, word = LINES[line]
    assert heavy == []
    assert code == expected
    assert bool(out) == (code == 0)
    assert word in err
    assert len(err.splitlines()) == (1 if code else 0)
    assert err.startswith("transduce: ") or not code
