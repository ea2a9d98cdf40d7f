"""What holds for the project as a whole: the direction of imports, and the torchvision hook."""

import ast
import importlib.util
import os
import runpy
import subprocess
import sys
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "clustering": {"clustering"},
    "fairness": {"clustering", "fairness"},
    "fsl": {"clustering", "fsl"},
    "runs": {"clustering", "fairness", "fsl", "runs"},
}
ONLY_IN_RUNS = {"mlflow", "omegaconf", "rich", "argparse"}


def imported(path: Path) -> set[str]:
    """Top-level names that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


def modules_of(room: str) -> dict[str, Path]:
    """Dotted names of the modules of a room, and their files."""
    files = {file.relative_to(PROJECT): file for file in (PROJECT / room).rglob("*.py")}
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): file for path, file in files.items()}


def imported_modules(name: str, path: Path, modules: Collection[str]) -> set[str]:
    """The modules among these that one imports: at its top, in its functions, or for type checkers alone."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                found.add(inner if inner in modules else source)
    return (found & set(modules)) - {name}


def circle(imports: Mapping[str, Collection[str]]) -> list[str]:
    """Modules that import each other in a circle, the first one named again at the end; empty if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_circle_of_imports(room: str) -> None:
    modules = modules_of(room)
    assert modules
    assert not circle({name: imported_modules(name, path, modules) for name, path in modules.items()})


def folder_imports(room: str) -> dict[str, set[str]]:
    """The folders that each folder of a package imports; imports for type checkers do not count."""
    modules, found = modules_of(room), dict[str, set[str]]()
    for name, path in modules.items():
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []
        names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        own = ".".join(name.split(".")[:2])
        found.setdefault(own, set()).update(".".join(other.split(".")[:2]) for other in names & set(modules))
    return {own: others - {own, room} for own, others in found.items() if own != room}


def test_folders_import_each_other_one_way() -> None:
    """In `fsl` data, features, tasks, strategies, evaluation, training; the foundation of `clustering` imports none."""
    clustering = folder_imports("clustering")
    assert not circle(clustering)
    assert not clustering["clustering.foundation"]
    assert not circle(folder_imports("fsl"))


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_run_one_way(room: str) -> None:
    files = list((PROJECT / room).rglob("*.py"))
    assert files
    for path in files:
        names = imported(path)
        assert not (names & set(MAY_IMPORT)) - MAY_IMPORT[room], path
        if room != "runs":
            assert not names & ONLY_IN_RUNS, path


def test_packages_are_light_to_import() -> None:
    heavy = "torch mlflow pandas scipy sklearn timm pytorch_lightning matplotlib faiss"
    code = (
        "import sys, clustering, clustering.deep, fairness, fsl, "
        "fsl.strategies, fsl.benchmarks, fsl.samplers, runs.config.configs, runs.cli\n"
        f"sys.exit(' '.join(set('{heavy}'.split()) & set(sys.modules)) or None)"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("packages", ["torchmetrics, timm, pytorch_lightning", "timm", "pytorch_lightning"])
def test_what_needs_torchvision_imports_after_a_package_of_ours(packages: str) -> None:
    code = f"import fsl, {packages}; import torchvision.transforms, torchvision.models"
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd="/", capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-800:]


@pytest.mark.slow
def test_in_the_environment_of_the_set_up_other_packages_import_first(tmp_path: Path) -> None:
    set_up = runpy.run_path(str(PROJECT / ".ci" / "environment.py"))
    set_up["make_torchvision_importable"](tmp_path)
    installed = [path for path in sys.path if path.endswith("site-packages")]  # -S: without their own .pth files
    code = f"import site, sys; sys.path += {installed}; before = set(sys.modules); site.addsitedir({str(tmp_path)!r})\n"
    code += "assert not (set(sys.modules) - before) & {'torch', 're', 'pathlib', 'importlib.util'}\n"
    code += "import timm, mlflow.pytorch\nassert not {'clustering', 'fsl', 'runs'} & set(sys.modules)"
    command = [sys.executable, "-S", "-W", "ignore", "-c", code]
    found = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-800:]


def test_no_path_of_one_machine_and_no_unfinished_mark() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    marks = ["TO" + "DO", "FIX" + "ME", "/ro" + "ot/", "/wo" + "rk/"]
    for name in listed.stdout.splitlines():
        path = PROJECT / name
        if path.suffix in (".py", ".md", ".yaml", ".toml", "") and path.is_file() and not os.path.islink(path):
            text = path.read_text(errors="ignore")
            assert not [mark for mark in marks if mark in text], name
