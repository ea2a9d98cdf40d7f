"""`transduce data`, and what a new user meets first: files as plug-ins, pictures of telephones, seeds of tasks."""

import json
import re
import shutil
import sys

import numpy as np
import pytest
from PIL import Image

from clustering.datasets.folder import Folder as Points
from clustering.files import pictures as picture_files
from clustering.files.pictures import open_picture
from clustering.foundation.errors import InputError
from clustering.foundation.plugins import dotted
from fsl.backbones import create_backbone
from fsl.backbones.names import PACKAGE
from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.papers import Cub
from fsl.benchmarks.survey import survey
from fsl.weights.checkpoints import save_backbone
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.stages.checkpoints import CHECKPOINT
from runs.stages.lineage import Lineage, evaluate_name
from tests.fsl.small_benchmarks import few

NAMES = Cub.classes


def picture(split, name, number):
    """Each of its own: noise drawn from where it stands."""
    random = np.random.default_rng([SPLITS.index(split), NAMES[split].index(name), number])
    return Image.fromarray(random.integers(0, 256, (5, 5, 3), np.uint8))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cub")
    for split, names in NAMES.items():
        for name in names:
            (folder / name).mkdir()
            for number in (1, 2):
                picture(split, name, number).save(folder / name / f"{name[4:]}_{number}.png")
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "cub")


@pytest.fixture(autouse=True)
def two(monkeypatch):
    few(monkeypatch, Cub, 2)


def test_a_fingerprint_is_of_the_pictures_not_of_their_places(whole, folder):
    moved = folder / "images"
    moved.mkdir()
    name = NAMES["base"][0]
    (folder / name).rename(moved / name)
    (moved / name / f"{name[4:]}_1.png").rename(moved / name / "another.png")
    first = survey(Cub(str(whole))).fingerprint
    assert survey(Cub(str(folder))).fingerprint == first
    picture("base", name, 7).save(moved / name / "another.png")
    assert survey(Cub(str(folder))).fingerprint != first


def test_everything_that_is_wrong_is_named(folder):
    base, novel, validation = NAMES["base"], NAMES["novel"], NAMES["validation"]
    shutil.rmtree(folder / novel[3])
    (folder / base[5] / f"{base[5][4:]}_2.png").unlink()
    picture("base", base[6], 3).save(folder / base[6] / "third.png")
    (folder / validation[0] / f"{validation[0][4:]}_1.png").write_bytes(b"")
    data = (folder / validation[1] / f"{validation[1][4:]}_1.png").read_bytes()
    (folder / validation[1] / f"{validation[1][4:]}_1.png").write_bytes(data[: len(data) // 2])
    shutil.copy(folder / base[0] / f"{base[0][4:]}_1.png", folder / novel[0] / f"{novel[0][4:]}_1.png")
    found = survey(Cub(str(folder)))
    assert not found.sound
    assert f"49 of the 50 novel classes (not {novel[3]})" in found.problems["novel"]
    for name, count in {base[5]: 1, base[6]: 3}.items():
        line = f"{count} pictures of the base class {name} (2 classes differ), not 2"
        assert line in found.problems["base"]
    broken = found.pictures["problem"][found.pictures["problem"] != ""].tolist()
    assert len(broken) == 2
    assert validation[0] in broken[0]
    assert validation[1] in broken[1]
    (group,) = found.twins()
    assert list(zip(group["split"], group["class_name"], strict=True)) == [("base", base[0]), ("novel", novel[0])]


class TestVerb:
    def test_check_shows_what_is_wrong_and_ends_with_2(self, folder, capsys):
        arguments = ["data", "check", "benchmark=cub", f"root={folder}"]
        base, novel = NAMES["base"][0], NAMES["novel"][0]
        shutil.copy(folder / base / f"{base[4:]}_1.png", folder / novel / f"{novel[4:]}_1.png")
        assert main(arguments) == 0
        said = capsys.readouterr().out
        assert "100 of 100" in said
        assert "the same picture in two splits (1)" in said
        assert said.splitlines()[-1] == "duplicate pictures are no error"
        assert main([*arguments, "--json", "-q"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [found["sound"], *(part["pictures"] for part in found["splits"])] == [True, 200, 100, 100]
        shutil.rmtree(folder / novel)
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert f"novel: problems (1)\n  49 of the 50 novel classes (not {novel})" in said.out
        assert "not complete and correct" in said.err

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            *(
                (name, f"transduce data check benchmark={name} root=FOLDER")
                for name in ("mini", "tiered", "cub", "inat", "cifar_fs", "fc100", "omniglot")
            ),
            ("labelme", "then: transduce cluster dataset=labelme root=FOLDER"),
            ("census", "USCensus1990raw.data.txt"),
            ("table", "then: transduce cluster dataset=table path=FILE"),
            ("glyphs", "it is made here, and needs no files"),
        ],
    )
    def test_where_names_the_files_and_the_command_that_reads_them(self, capsys, name, words):
        assert main(["data", "where", name]) == 0
        assert words in capsys.readouterr().out


OWN = """
import dataclasses
import torch
from fsl.episodes import Predictions

@dataclasses.dataclass(frozen=True)
class SoftMeans:
    '''Soft means.'''
    transductive = False
    assumes_balance = False
    transform: str = "UN"

    def predict(self, episodes):
        logits = -torch.cdist(episodes.query, torch.bmm(episodes.class_means, episodes.features))
        return Predictions(logits.softmax(-1), torch.zeros(len(logits), dtype=torch.int64))
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A strategy in a file of a folder that is not the working one."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mystrat.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "./code/mystrat.py:SoftMeans"
    sys.modules.pop("mystrat", None)


def test_a_file_is_a_plugin_of_one_name(own, tmp_path, monkeypatch):
    (config,) = parse(EvaluateConfig, [f"strategy={own}"])
    assert evaluate_name(config).startswith("SoftMeans 5w1s")
    assert config.strategy.build().transform == "UN"
    monkeypatch.syspath_prepend(tmp_path / "code")
    (other,) = parse(EvaluateConfig, ["strategy=mystrat:SoftMeans"])
    assert config.result_keys() == other.result_keys()
    assert Lineage.of(config).evaluation(config) == Lineage.of(other).evaluation(other)
    assert dotted("/a/b.c/mine.py:Own") == "mine:Own"


@pytest.mark.parametrize(
    ("code", "typed", "message"),
    [
        (None, "strategy=./nowhere.py:Thing", r"nowhere\.py"),
        (None, "benchmark=./nowhere.py:Thing", r"nowhere\.py"),
        (None, "sampler=code/mystrat.py", r"mystrat\.py:CLASS"),
        ("class X\n", "strategy=./fails_a.py:X", r"fails_a\.py, line 1: SyntaxError"),
        ("\nx = nothing\n", "strategy=./fails_b.py:X", r"fails_b\.py, line 2: NameError"),
        ("\n\nraise OSError(5, 'x')\n", "strategy=./fails_c.py:X", r"fails_c\.py, line 3: OSError"),
        (OWN, "strategy=./json.py:SoftMeans", "json"),
    ],
)
@pytest.mark.usefixtures("own")
def test_a_file_that_is_none_or_whose_code_fails(tmp_path, code, typed, message):
    if code is not None:
        (tmp_path / typed.split("/")[1].split(":")[0]).write_text(code)
    with pytest.raises(InputError, match=message):
        parse(EvaluateConfig, [typed])


@pytest.fixture
def no_heif(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    picture_files.read_heif.cache_clear()
    yield
    picture_files.read_heif.cache_clear()


def test_pictures_of_telephones_are_named(no_heif, tmp_path):
    for name in ("a.heic", "b.HEIF", "c.heic"):
        (tmp_path / name).write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    with pytest.raises(InputError, match=r"a\.heic.*transduce\[heif\]"):
        Points(root=str(tmp_path)).read()
    with pytest.raises(InputError, match=r"x\.heic.*transduce\[heif\]"):
        open_picture(b"\0\0\0\x18ftypheic", "x.heic", least=8, upright=True)


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """Two labelled classes, four pictures, and a network of the results folder."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(1)
    for place in ("support/red/0", "support/red/1", "support/blue/0", "query/0", "query/1", "query/2"):
        path = tmp_path / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 255, (32, 32, 3), np.uint8)).save(path)
    return ["classify", f"results={tmp_path / 'results'}", "--support", "support", "--query", "query"]


def add_network(store):
    about = {"benchmark": "mini", "mean": [0.5] * 3, "std": [0.25] * 3}
    backbone = create_backbone("conv4", channels=3, size=32)

    def save(folder):
        save_backbone(folder / CHECKPOINT, backbone, "conv4", channels=3, size=32, about=about)

    return store.publish("checkpoint", "0123456789abcdef", save).path / CHECKPOINT


def test_without_a_network_the_message_names_one(pictures, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    assert main(pictures) == 2
    assert "transduce train" in capsys.readouterr().err


def test_pictures_of_telephones_are_skipped_on_request_only(pictures, store, no_heif, tmp_path, capsys):
    words = [*pictures, "--backbone", str(add_network(store)), "--strategy", "simpleshot"]
    for i in range(2):
        (tmp_path / "query" / f"{i}.heic").write_bytes(b"\0\0\0\x18ftypheic")
    assert main(words) == 2
    assert re.search(r"0\.heic.*transduce\[heif\]", capsys.readouterr().err)
    assert main([*words, "broken=skip"]) == 0
    assert capsys.readouterr().err.count("skipped: ") == 2
