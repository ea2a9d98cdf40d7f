"""The fingerprint of code: what is computed counts, however deep; how it is written does not."""

import sys

import pytest

from clustering.errors import InputError
from runs.fingerprints import code_fingerprint


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
    from runs import fingerprints

    seen = []
    real = fingerprints._source
    monkeypatch.setattr(fingerprints, "_source", lambda name: seen.append(name) or real(name))
    fingerprint("fsl.strategies.laplacianshot")
    assert "clustering.descent" in seen
    assert "fsl.strategies.simpleshot" not in seen or "fsl.strategies.laplacianshot" in seen
    assert not any(name.startswith(("torch", "runs")) for name in seen)


def test_a_module_without_source_is_named():
    with pytest.raises(InputError, match="no_such_module"):
        fingerprint("no_such_module")
