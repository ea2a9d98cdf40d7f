"""`transduce data`: what a look at every picture finds, and where pictures come from."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.papers import Cub
from fsl.benchmarks.survey import survey
from runs.cli import main
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
