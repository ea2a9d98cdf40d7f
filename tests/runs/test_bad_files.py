"""Files and settings that are none, damaged, forged, or ask for more than there is: exit code 2, nothing is run."""

import io
import json
import os
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from clustering.datasets.features import Features
from clustering.files.tables import read_table
from clustering.files.tensors import write_tensors
from clustering.foundation.errors import InputError
from clustering.foundation.plugins import Plugins
from fsl.backbones import create_backbone
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.features.image_encoder import ImageEncoder
from fsl.picture_folders import unlabelled_pictures
from fsl.samplers.drawn import Balanced
from runs.cli import main
from runs.config import groups
from runs.config.configs import ClusterConfig, EvaluateConfig, TuneConfig, parse
from runs.config.groups import Choice
from runs.config.tuning_protocol import steps_of
from runs.config.yaml_files import parse_yaml
from runs.console.endings import MISTAKE, explain
from runs.own_data.pictures import thumbnail
from runs.stages.clustering.deep_network import DeepNetwork
from runs.stages.clustering.learned_methods import FORMAT, learned_method
from runs.stages.clustering.results import Trials
from runs.stages.clustering.selections import selection_of
from runs.stages.fair.results import TradeOff
from runs.tables.compared import classes_as_csv


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([*map(str, words)]) == 2
    return capsys.readouterr().err


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    generator = torch.Generator().manual_seed(0)
    features, labels = torch.randn(120, 4, generator=generator), torch.arange(120) % 5
    bank = FeatureBank(features, labels, tuple("abcde"), torch.zeros(4), {"split": "novel"})
    bank.save(tmp_path / "bank.safetensors")
    return tmp_path / "bank.safetensors"


def test_a_changed_bank_is_refused_by_evaluate_and_by_cluster(bank, tmp_path, capsys):
    data = bytearray(bank.read_bytes())
    data[-1] ^= 1
    bank.write_bytes(data)
    said = refused(capsys, "evaluate", "strategy=simpleshot", f"features={bank}", "tasks=1", f"results={tmp_path}/r")
    assert str(bank) in said
    said = refused(capsys, "cluster", "dataset=features", f"path={bank}", "method=kmeans", f"results={tmp_path}/r")
    assert str(bank) in said


@pytest.mark.parametrize("key", ["checkpoint", "features"])
def test_what_is_no_file_is_refused(key, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.pth")
    (tmp_path / "loop.pth").symlink_to(tmp_path / "loop.pth")
    for path in ("/dev/zero", tmp_path / "pipe.pth", tmp_path / "loop.pth", tmp_path):
        said = refused(capsys, "evaluate", "strategy=simpleshot", f"{key}={path}", f"results={tmp_path}/r")
        assert str(path) in said


def test_an_output_over_a_pipe_is_refused(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    os.mkfifo(tmp_path / "out.html")
    words = ("cluster", "dataset=table", f"path={tmp_path}/t.csv", "method=kmeans", "n_clusters=2")
    assert "out.html" in refused(capsys, *words, f"output={tmp_path}/out.csv", f"results={tmp_path}/r")


def test_only_what_was_imported_is_replaced_by_an_import(bank, tmp_path, capsys):
    np.savez(tmp_path / "f.npz", features=np.eye(4), labels=np.arange(4))
    before = bank.read_bytes()
    assert str(bank) in refused(capsys, "import", "features", tmp_path / "f.npz", f"output={bank}")
    assert bank.read_bytes() == before
    for _ in range(2):
        assert main(["import", "features", str(tmp_path / "f.npz"), f"output={tmp_path}/f.safetensors"]) == 0


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "Permission denied", "a.csv"),
        OSError(40, "Too many levels", "a"),
        RuntimeError("Symlink loop from 'a'"),
    ],
)
def test_errors_about_a_path_are_mistakes_that_can_be_mended(error):
    text, code = explain(error)
    assert code == MISTAKE
    assert "a" in text


def test_a_file_does_not_choose_which_module_is_imported(tmp_path):
    from clustering.files.tensors import write_tensors

    (tmp_path / "made_here.py").write_text("raise SystemExit('imported')")
    header = {"format": FORMAT, "method": "made_here:Class", "settings": "{}"}
    write_tensors(tmp_path / "network.safetensors", {"a": torch.zeros(1)}, header)
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(InputError, match="made_here"):
            learned_method(tmp_path / "network.safetensors")
    finally:
        sys.path.remove(str(tmp_path))


def test_rows_do_not_replace_another_file(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    rows = read_table(tmp_path / "t.csv")
    for text in ("a,c\n1,2\n", "a,b\n1,2\n", "", "\x00", "a,b,other\n"):
        (tmp_path / "o.csv").write_text(text)
        with pytest.raises(InputError, match=r"o\.csv"):
            rows.check_output(tmp_path / "o.csv", ["cluster"])
    rows.save(tmp_path / "o.csv", {"cluster": np.array([0, 1])})
    assert rows.check_output(tmp_path / "o.csv", ["cluster", "confidence"])
    rows.rows.to_parquet(tmp_path / "t.parquet")
    other, output = read_table(tmp_path / "t.parquet"), tmp_path / "o.parquet"
    rows.rows.to_parquet(output)
    with pytest.raises(InputError, match=r"o\.parquet"):
        other.check_output(output, ["cluster"])
    other.save(output, {"cluster": np.array([0, 1])})
    assert other.check_output(output, ["cluster"]) == output


def test_a_network_is_not_replaced_by_a_classifier(tmp_path):
    from clustering.files.tensors import write_tensors
    from runs.config.configs import parse
    from runs.own_data.classify import check_outputs
    from runs.own_data.own_config import ClassifyConfig
    from runs.stages.clustering.learning import FORMAT as NETWORK

    path = tmp_path / "kept.safetensors"
    (config,) = parse(
        ClassifyConfig, [f"support={tmp_path}", f"query={tmp_path}", f"save={path}", "backbone=timm:resnet18"]
    )
    for kind in (NETWORK, "transduce classifier 1"):  # as networks were called once
        write_tensors(path, {"a": torch.zeros(1)}, {"format": kind, "architecture": "small_cnn"})
        with pytest.raises(InputError, match="save"):
            check_outputs(config)
    write_tensors(path, {"a": torch.zeros(1)}, {"format": "transduce classifier 1", "classifier": "{}"})
    check_outputs(config)


def test_a_package_of_an_extra_that_is_not_installed_is_named_with_the_remedy() -> None:
    text, code = explain(ModuleNotFoundError("No module named 'mlflow'", name="mlflow"))
    assert code == 2
    assert text == "this command requires mlflow, which is not installed; pip install 'transduce[all]'"


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


def bank_forged(path: Path, provenance: str = "{}", **changed: torch.Tensor) -> Path:
    tensors = {"features": torch.randn(6, 2), "labels": torch.arange(6) % 2} | changed
    header = {"format": "transduce features 1", "class_names": json.dumps(["a", "b"]), "provenance": provenance}
    write_tensors(path, tensors, header)
    return path


@pytest.mark.parametrize(
    "changed",
    [
        *({"provenance": text} for text in ("5", "null", "[1]", "[[1]]", "{")),
        {"told": torch.ones(3, dtype=torch.bool)},
        {"features": torch.randn(6, 2) + 0j},
    ],
)
def test_parts_of_a_bank_that_do_not_fit(tmp_path, changed):
    with pytest.raises(InputError, match=r"own\.safetensors"):
        Features(str(bank_forged(tmp_path / "own.safetensors", **changed))).read()


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

    bank_forged = FeatureBank(torch.ones(40, 2), torch.arange(40) % 2, ("a", "b"))
    tasks = Balanced(way=2, query=1).tasks(bank_forged.labels)
    with pytest.raises(InputError, match="strategy mine: its equations"):
        evaluate({"mine": Unsolvable()}, bank_forged, tasks, 1)


FILLED_IN = ("${oc.env:SECRET}", "${${seed}:SECRET}", "${seed}", "a ${oc.decode:x} b", "${", r"\${a} ${b}")


def build(config: EvaluateConfig) -> None:
    for choice in config.choices().values():
        choice.build()


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")


@pytest.mark.parametrize("text", FILLED_IN)
@pytest.mark.parametrize("form", ["tuning: {}\n", "each:\n- {{tuning: {}}}\n", "shot: [1, {}]\n"])
def test_an_experiment_fills_nothing_in(tmp_path, text, form):
    path = tmp_path / "mine.yaml"
    path.write_text(form.format(f"'{text}'"))
    with pytest.raises(InputError) as caught:
        parse(EvaluateConfig, [f"experiment={path}"])
    assert str(path) in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_no_other_file_of_settings_does(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("laplacianshot:\n- {split: base, grid: {transform: ['${oc.env:SECRET}', UN]}}\n")
    with pytest.raises(InputError, match=r"mine\.yaml: laplacianshot"):
        parse(TuneConfig, ["strategy=laplacianshot", f"tuning={path}"])
    with pytest.raises(InputError, match=r"mine\.yaml: laplacianshot"):
        steps_of(str(path), groups.option("strategy", "laplacianshot"))
    path.write_text("kmeans: {init: ['${oc.env:SECRET}']}\n")
    (config,) = parse(ClusterConfig, ["method=kmeans", f"selection={path}"])
    with pytest.raises(InputError, match=r"mine\.yaml: kmeans\.init"):
        selection_of(config)


@pytest.mark.parametrize(("opened", "closed"), ["[]", "{}"])
def test_brackets_without_end_are_a_mistake(tmp_path, opened, closed):
    path = tmp_path / "deep.yaml"
    path.write_text(f"shot: {opened * 5000}{closed * 5000}\n")
    with pytest.raises(InputError, match=r"deep\.yaml"):
        parse(EvaluateConfig, [f"experiment={path}"])
    with pytest.raises(InputError, match="shot"):
        parse(EvaluateConfig, [f"shot={opened * 5000}{closed * 5000}"])


@pytest.mark.parametrize(
    "setting",
    [
        *(f"weight={value}" for value in ("1e300", "-1e300", "1e-300", "5e-324", "1e16", "9" * 5000)),
        *(f"{key}={value}" for key in ("n_neighbors", "seed", "tasks") for value in ("9" * 20, "9" * 5000)),
    ],
)
def test_a_number_of_an_impossible_size(setting):
    with pytest.raises(InputError, match=setting[:4]):
        build(*parse(EvaluateConfig, ["strategy=laplacianshot", setting]))


@pytest.mark.parametrize(
    ("group", "name", "options"),
    [
        pytest.param("benchmark", "glyphs", {"samples": 10**9}, marks=pytest.mark.slow),  # draws every letter once
        ("dataset", "spirals", {"points": 10**12}),
        ("dataset", "bars", {"points": 10**12}),
        ("dataset", "predictions", {"entries": 10**13}),
    ],
)
def test_more_than_the_memory_holds(group, name, options):
    data = Choice(group, name, {**groups.option(group, name).options, **options}).build()
    with pytest.raises((InputError, MemoryError)) as caught:
        data.read(*(["base"] if group == "benchmark" else []))
    text, code = explain(caught.value)
    assert code == 2
    assert "memory" in text.lower() or "allocate" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!python/object/apply:os.system [echo]", "python/object"),
        ("a: !mine {x: 1}", "!mine"),
        ("a: 1\nb: 2\na: 3", "duplicate key a"),
        ("k0: &k0 [1]\n" + "".join(f"k{i}: &k{i} [*k{i - 1}]\n" for i in range(1, 1300)), "limit|nested"),
        ("a: &a [*a]", "recursive"),
        ("a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 25)), "limit"),
        ("a: [1", "line 1"),
    ],
)
def test_yaml_that_is_hostile_or_no_plain_data(text, words):
    with pytest.raises(ValueError, match=words):
        parse_yaml(text)


FORMS = {".jfif": "JPEG", ".jpe": "JPEG", ".JPG": "JPEG", ".avif": "AVIF", ".jp2": "JPEG2000", ".J2K": "JPEG2000"}


def levels(path):
    """Grey levels of the thumbnail of a picture."""
    return np.asarray(Image.open(io.BytesIO(thumbnail(str(path), 64))).convert("L"), dtype=float)


@pytest.mark.parametrize("ending", FORMS)
def test_endings_that_are_less_known(tmp_path, ending):
    Image.new("RGB", (32, 24), (0, 200, 0)).save(tmp_path / f"leaf{ending}", FORMS[ending])
    (file,) = unlabelled_pictures(tmp_path)
    assert np.ptp(levels(file)) < 20 < levels(file).mean()


@pytest.mark.parametrize("bits", [8, 10, 12, 16])
@pytest.mark.parametrize("form", ["png", "tif"])
def test_grey_pictures_of_16_bits_are_not_black(tmp_path, bits, form):
    ramp = np.tile(np.linspace(0, 2**bits - 1, 64).astype(np.uint16), (64, 1))
    Image.fromarray(ramp).save(tmp_path / f"scan.{form}")
    found = levels(tmp_path / f"scan.{form}").mean(axis=0)
    np.testing.assert_allclose(found, np.linspace(0, 255, 64), atol=6)


def test_a_picture_above_the_limit_says_so(tmp_path, monkeypatch):
    Image.new("L", (40, 40)).save(tmp_path / "map.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 700)
    with pytest.raises(InputError, match=r"map\.png: has more pixels than Pillow decodes .*1600 pixels"):
        thumbnail(str(tmp_path / "map.png"), 64)
