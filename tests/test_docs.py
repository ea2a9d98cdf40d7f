"""The documentation: its commands are known to the command line, its Python imports what exists, its notebooks run."""

import ast
import importlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer import BadParameter, Context, Exit
from typer.main import get_command

from clustering.foundation.errors import InputError
from runs.cli import app
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, TrainConfig, TuneConfig, parse

VERBS: Any = get_command(app)
PROJECT = Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"
PAGES = [PROJECT / "README.md", *sorted(path for path in DOCS.rglob("*.md"))]
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))
CONFIGS = {
    "evaluate": EvaluateConfig,
    "compare": EvaluateConfig,
    "tune": TuneConfig,
    "train": TrainConfig,
    "cluster": ClusterConfig,
    "fair": FairConfig,
}
PACKAGES = ("clustering", "fairness", "fsl", "runs")
OWN_CODE = ("mymodule", "myfile", "helpers")  # plug-ins that a reader would write
PLACEHOLDER = re.compile(r"(\.\.\.|\bVERB\b|\bFILE\.yaml\b|=FILE\.py\b)")


def named(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def commands() -> Iterator[tuple[str, str]]:
    """Page and command line of every indented line that begins with `transduce`."""
    for path in PAGES:
        for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            if line.startswith("    transduce "):
                yield named(path), line.strip()


def python_blocks() -> Iterator[tuple[str, str]]:
    """Page or notebook and the code of every Python block."""
    for path in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S):
            yield named(path), block
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                yield named(path), "".join(cell["source"])


@pytest.mark.parametrize("page", [named(path) for path in PAGES])
def test_the_command_line_knows_every_documented_command(page: str) -> None:
    """Verbs, flags, groups, keys and types; what files hold is not looked at."""
    for place, line in commands():
        if place != page or PLACEHOLDER.search(line) or any(name in line for name in OWN_CODE):
            continue
        _, verb, *arguments = [word for word in shlex.split(line, comments=True) if word not in ("|", ">")]
        if verb.startswith("--"):
            continue
        assert verb in VERBS.commands, line
        try:
            context = VERBS.commands[verb].make_context(verb, list(arguments), parent=Context(VERBS))
            if verb in CONFIGS and "--help" not in arguments:
                parse(CONFIGS[verb], context.params["settings"] or [])
        except Exit:
            continue  # of --help
        except (InputError, BadParameter) as error:
            pytest.fail(f"{line}\n{error}")


@pytest.mark.parametrize("page", sorted({page for page, _ in python_blocks()}))
def test_documented_python_parses_and_imports_what_exists(page: str) -> None:
    for place, code in python_blocks():
        if place != page:
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
                module = importlib.import_module(str(node.module))
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == [], code


@pytest.mark.parametrize("page", [*map(named, PAGES), "CONTRIBUTING.md"])
def test_files_that_the_documentation_names_exist(page: str) -> None:
    """Links beside the page, and paths of this project in its text."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if ":" not in link]
    beside = [link for link in links if link and not link.endswith(".rst")]  # those are written by the build
    assert [link for link in beside if not (PROJECT / page).parent.joinpath(link).exists()] == []
    if page != "CONTRIBUTING.md":  # which shows files that a contributor would write
        folders = "|".join((*PACKAGES, "tests", "docs", "benchmarks", "configs", "reproduction"))
        paths = re.findall(rf"\b(?:{folders})/[\w/-]+\.(?:py|yaml|md|sh|csv)\b", text)
        assert [path for path in paths if not (PROJECT / path).exists()] == []


def test_no_file_is_read_in_a_way_that_runs_what_it_holds() -> None:
    """As docs/security.md says. Who may unpickle: the reader that calls nothing, and processes among themselves."""
    unpickling = {"fsl/benchmarks/pickles.py"}
    for path in (path for package in PACKAGES for path in (PROJECT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called, keywords = ast.unparse(node.func), {one.arg: ast.unparse(one.value) for one in node.keywords}
            assert called not in ("eval", "os.system", "joblib.load", "yaml.unsafe_load"), named(path)
            assert called != "exec" or named(path) == "runs/config/source.py", named(path)  # the fields of a class
            assert called not in ("pickle.load", "pickle.loads") or named(path) in unpickling, named(path)
            assert called != "torch.load" or keywords.get("weights_only") == "True", named(path)
            assert keywords.get("allow_pickle", "False") == "False", named(path)
            assert keywords.get("shell", "False") == "False", named(path)


def test_every_page_is_in_a_table_of_contents() -> None:
    """Sphinx warns of a page that is in none; this says so without a build."""
    for folder in (DOCS, *(path for path in DOCS.iterdir() if path.is_dir() and (path / "index.md").exists())):
        index = (folder / "index.md").read_text(encoding="utf-8")
        listed = set(re.findall(r"^[\w/-]+$", "".join(re.findall(r"```{toctree}(.*?)```", index, re.S)), re.M))
        pages = {path.stem for path in (*folder.glob("*.md"), *folder.glob("*.ipynb"))} - {"index"}
        assert pages <= listed, folder


def test_notebooks_are_stored_without_results() -> None:
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")], path


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: Jupyter's packages warn of themselves."""
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("page", ["few_shot", "clustering", "fair_clustering", "deep"])
def test_python_of_a_tutorial_runs(page: str) -> None:
    blocks = [code for place, code in python_blocks() if place == f"docs/tutorials/{page}.md"]
    assert blocks
    for code in blocks:
        exec(compile(code, page, "exec"), {})
