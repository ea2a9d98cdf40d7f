"""Tables in LaTeX: the document compiles, within its page."""

import re
import shutil
import subprocess

import pytest

from runs.tables.formats import PACKAGES, latex
from runs.tables.papers.published import published_names
from tests.runs.made_up import SHARES, filled, hostile

needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
OVERFULL = 1.0  # points that a line of LaTeX may stick out


def compiled(tmp_path, tables):
    """The log of a document of these tables."""
    packages = "".join(f"\\usepackage{{{package}}}\n" for package in PACKAGES)
    body = "\\clearpage\n".join(tables)
    text = f"\\documentclass{{article}}\n{packages}\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "all.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    log = (tmp_path / "all.log").read_text(errors="replace")
    assert found.returncode == 0, log[-2000:]
    assert (tmp_path / "all.pdf").read_bytes().startswith(b"%PDF")
    assert "Missing character" not in log
    return log


@needs_latex
def test_every_table_compiles_within_its_page(tmp_path):
    log = compiled(tmp_path, [latex(filled(name, share)) for name in published_names() for share in SHARES])
    assert max(map(float, re.findall(r"Overfull \\hbox \((\d+\.\d+)pt", log)), default=0) <= OVERFULL


def test_verdicts_and_claims_are_not_inside():
    for name in published_names():
        text = latex(filled(name, 1.0))
        assert "\\bottomrule" in text or "noindent" in text
        assert not re.search(r"reproduced|papers claim|better than SimpleShot|textsuperscript", text)


@needs_latex
def test_any_name_compiles(tmp_path):
    text = "".join(map(chr, [*range(32, 127), *range(0xC0, 0x100)]))
    names = [text[i : i + 8] for i in range(0, len(text), 8)]
    compiled(tmp_path, [latex(hostile(names, names[:2]))])
