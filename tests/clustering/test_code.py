"""The fingerprint of code: what is computed counts, however deep; how it is written does not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clustering.foundation.code import code_fingerprint
from clustering.foundation.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "some_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text('"""One."""\nfrom .two import double\n\ndef one(x):\n    return double(x)\n')
    (folder / "two.py").write_text("import os\n\ndef double(x):\n    return 2 * x\n")
    (folder / "three.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("some_package")]:
        del sys.modules[name]


def fingerprint(name="some_package.one"):
    code_fingerprint.cache_clear()
    return code_fingerprint(name)


def test_layout_and_comments_do_not_count(package):
    before = fingerprint()
    (package / "one.py").write_text(
        '"""Another docstring."""\nfrom .two import double  # a comment\n'
        'def one(x):\n    """Doc."""\n    return (double(x))\n'
    )
    assert fingerprint() == before


@pytest.mark.parametrize("file", ["one.py", "two.py"])
def test_what_is_computed_counts_also_where_it_is_imported(package, file):
    before = fingerprint()
    (package / file).write_text((package / file).read_text().replace("return ", "return 1 + "))
    assert fingerprint() != before


def test_what_is_not_imported_does_not_count(package):
    before = fingerprint()
    (package / "three.py").write_text("x = 2\n")
    assert fingerprint() == before
    (package / "one.py").write_text("from some_package import three\n" + (package / "one.py").read_text())
    with_three = fingerprint()
    (package / "three.py").write_text("x = 3\n")
    assert fingerprint() != with_three != before


def test_strategies_of_the_project_stand_on_the_optimiser(monkeypatch):
    from clustering.foundation import code

    seen = []
    real = code._read
    monkeypatch.setattr(code, "_read", lambda name, *source: seen.append(name) or real(name, *source))
    fingerprint("fsl.strategies.laplacianshot")
    assert "clustering.optimiser.descent" in seen
    assert "fsl.strategies.simpleshot" not in seen or "fsl.strategies.laplacianshot" in seen
    assert not any(name.startswith("runs") for name in seen)


def test_a_module_without_source_is_named():
    with pytest.raises(InputError, match="no_such_module"):
        fingerprint("no_such_module")


def test_single_files_beside_it_count_and_type_checking_does_not(package):
    """A strategy of one's own is often one file that imports another."""
    (package.parent / "some_package_helper.py").write_text("y = 1\n")
    lines = "from typing import TYPE_CHECKING\nimport some_package_helper\n"
    lines += "if TYPE_CHECKING:\n    import some_package.three\n"
    (package / "one.py").write_text(lines + "def one(x):\n    return x\n")
    before = fingerprint()
    (package / "three.py").write_text("x = 5\n")
    assert fingerprint() == before
    (package.parent / "some_package_helper.py").write_text("y = 2\n")
    assert fingerprint() != before


def test_without_following_only_the_module_counts(package):
    before = code_fingerprint("some_package.one", follow=False)
    (package / "two.py").write_text("def double(x):\n    return 3 * x\n")
    code_fingerprint.cache_clear()
    assert code_fingerprint("some_package.one", follow=False) == before


def other_package(folder, name):
    """A package in a folder of its own on the path, as a user install or a `.pth` file has it."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / name / "part.py").write_text("x = 1\n")
    return folder / name


def test_packages_from_anywhere_else_on_the_path_are_installed_and_never_imported(package, tmp_path, monkeypatch):
    other = other_package(tmp_path / "user_base", "some_dependency")
    monkeypatch.syspath_prepend(tmp_path / "user_base")
    (package / "one.py").write_text("import some_dependency.part\nfrom some_dependency import part\nx = 1\n")
    before = fingerprint()
    (other / "part.py").write_text("x = 2\n")
    assert fingerprint() == before
    assert "some_dependency" not in sys.modules


def test_where_packages_were_installed_a_plug_in_is_its_own_package_only(package):
    beside = other_package(package.parent, "some_neighbour")
    (package.parent / "some_package-1.0.dist-info").mkdir()
    (package / "one.py").write_text("import some_neighbour.part\n" + (package / "one.py").read_text())
    before = fingerprint()
    (beside / "part.py").write_text("x = 2\n")
    assert fingerprint() == before
    (package / "two.py").write_text("def double(x):\n    return 3 * x\n")
    assert fingerprint() != before


def test_the_project_installed_as_a_wheel_is_followed_like_a_checkout(tmp_path):
    """The same code gives the same fingerprint, wherever it lies and whatever lies beside it."""
    site = tmp_path / "site-packages"
    for room in ("clustering", "fairness", "fsl", "runs"):
        shutil.copytree(ROOT / room, site / room, ignore=shutil.ignore_patterns("__pycache__"))
    other_package(site, "torch")
    (site / "transduce-0.1.0.dist-info").mkdir()
    command = (
        "from clustering.foundation.code import code_fingerprint; print(code_fingerprint('fsl.strategies.slk_ms'))"
    )
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"]}
    result = subprocess.run(
        [sys.executable, "-S", "-c", command], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == fingerprint("fsl.strategies.slk_ms")
