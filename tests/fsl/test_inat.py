"""meta-iNat: novel pictures divided into support and queries, and base classes that validate."""

from pathlib import Path

import pytest
import torch

from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.images import open_images
from fsl.benchmarks.papers import INat
from fsl.benchmarks.survey import survey
from fsl.samplers.whole import WholeSplit
from tests.fsl.small_benchmarks import write_picture


def write_divided(folder, monkeypatch, form, support):
    """11 pictures of a novel class a..k and 7 of another, of which these are support; ten base classes."""
    monkeypatch.setattr(INat, "classes", {**INat.classes, "novel": ("112", "113")})
    monkeypatch.setattr(INat, "unlisted", {"base": 10, "validation": 1})
    monkeypatch.setattr(INat, "images", {"novel": 18})
    rows = {"train": [f"train/{number}/a.png,{number}" for number in range(500, 510)], "test": []}
    for name, letters in {"112": "abcdefghijk", "113": "abcdefg"}.items():
        for letter in letters:
            place = "repr" if letter in support[name] else "query"
            rows["test"].append(f"test/{name}/{letter}.png,{name}")
            rows.setdefault(place, []).append(f"{place}/{name}/{letter}.png,{name}")
    for word, lines in rows.items():
        for number, line in enumerate(lines):
            file, _, name = line.partition(",")
            write_picture(folder / file, (int(name), ord(file[-5]), 9))
            if form == "lists" and word in ("repr", "query"):  # there the lists alone divide
                lines[number] = f"test/{file.partition('/')[2]},{name}"
        if form == "lists":
            (folder / f"{word}.csv").write_text("\n".join(lines))


class TestINat:
    @pytest.mark.parametrize("form", ["folders", "lists"])
    def test_support_comes_first_as_the_authors_divide(self, tmp_path, monkeypatch, form):
        """Their test/ has all novel pictures, to which repr/ and query/ are links."""
        write_divided(tmp_path, monkeypatch, form, {"112": "bf", "113": "c"})
        found = INat(str(tmp_path)).read("novel")
        assert found.class_names == ("112", "113")
        assert [name.removesuffix(".png")[-1] for name in found.images.names] == list("bfacdeghijkcabdefg")
        if form == "folders":
            assert [Path(name).parts[-3] for name in found.images.names[:3]] == ["repr", "repr", "query"]
        (labels, support) = torch.from_numpy(found.labels), WholeSplit(support="first")
        task = support.tasks(labels, seed=3).first(1)
        assert sorted(task.support[0].tolist()) == [0, 1, 11]
        assert sorted(task.query[0].tolist()) == [*range(2, 11), *range(12, 18)]

    @pytest.mark.parametrize("form", ["folders", "lists"])
    def test_every_tenth_base_class_validates_and_its_pictures_are_not_there_twice(self, tmp_path, monkeypatch, form):
        write_divided(tmp_path, monkeypatch, form, {"112": "bf", "113": "c"})
        benchmark = INat(str(tmp_path))
        assert len(benchmark.source()) == 16
        assert not survey(benchmark).twins()
        read = [open_images(benchmark, split, tmp_path / "cache").class_names for split in SPLITS]
        assert [len(names) for names in read] == [10, 1, 2]
        assert read[1] == ("base 509",)
        assert set(read[1]) < set(read[0])
        assert benchmark.read("validation").images.names[0].endswith("train/509/a.png")
