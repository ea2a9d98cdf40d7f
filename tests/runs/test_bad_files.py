"""Files that are no files, that are damaged, or that ask for more than they hold: exit code 2."""

import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from clustering.files.pictures import open_picture
from clustering.files.tables import read_table
from clustering.foundation.errors import InputError
from fsl.features.bank import FeatureBank
from fsl.features.foreign import import_features
from runs.cli import main
from runs.console.endings import MISTAKE, explain
from runs.stages.clustering.learned_methods import FORMAT, learned_method


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


PICKLES = {
    "far memo": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "far memo in text": b"N" + b"p2000000000\n.",
    "long text": b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b".",
    "long bytes": b"\x80\x03B" + struct.pack("<I", 2**32 - 1) + b".",
    "deep": b"\x80\x02" + b"(" * 200_000 + b"N" + b"t" * 200_000 + b".",
    "in itself": b"\x80\x02]q\x00h\x00a.",
    "empty": b"",
    "no end": b"\x80\x02N",
}


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_that_asks_for_more_than_it_holds_is_refused(name, tmp_path):
    (tmp_path / "bad.plk").write_bytes(PICKLES[name])
    with pytest.raises(InputError, match=r"bad\.plk"):
        import_features(tmp_path / "bad.plk")


def test_a_picture_that_claims_to_be_huge_is_not_decoded():
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    claims = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + claims + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    with pytest.raises(InputError, match=r"huge\.png"):
        open_picture(png, "huge.png", least=84, upright=True)


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
