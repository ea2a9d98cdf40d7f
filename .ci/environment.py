"""Make the virtual environment `.venv` of this checkout, once. Needs nothing but the standard library.

The stamp inside `.venv` holds a hash of what the environment was made from and is written last: a set-up that
was interrupted or whose inputs have changed is redone from the start, and a second set-up at the same time waits
for the first.
"""

import fcntl
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".stamp"
PYTHON = VENV / "bin" / "python"
HOOK = ROOT / "clustering" / "foundation" / "torchvision_without_cuda.py"
INPUTS = [ROOT / "pyproject.toml", ROOT / "constraints.txt", pathlib.Path(__file__), HOOK]


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT)


def run_for_text(*command: object) -> str:
    words = [str(part) for part in command]
    return subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()


def install() -> None:
    constraints = ROOT / "constraints.txt"
    # torch first and by pip: any other order, or uv, would bring in the CUDA build on a machine without a GPU.
    torch = ["install", "--quiet", "-c", constraints, *shlex.split(os.environ.get("TORCH_ARGS", "")), "torch"]
    run(PYTHON, "-m", "pip", *torch)
    run(PYTHON, "-m", "pip", "install", "--quiet", "-c", constraints, "uv")
    uv = [PYTHON, "-m", "uv", "pip", "install", "--quiet", "--python", PYTHON]
    run(*uv, "-c", constraints, "--compile-bytecode", "-e", ".[dev]")
    run(PYTHON, "-c", "import torch; print('torch', torch.__version__, 'CUDA', torch.version.cuda)")
    if run_for_text(PYTHON, "-c", "import torch; print(torch.version.cuda)") == "None":
        packages = run_for_text(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        make_torchvision_importable(pathlib.Path(packages))


def make_torchvision_importable(packages: pathlib.Path) -> None:
    """Let `import timm` work in an environment; see the copied file. A `.pth` file is read at each start of Python."""
    shutil.copy(HOOK, packages / f"_{HOOK.name}")
    (packages / f"{HOOK.stem}.pth").write_text(f"import _{HOOK.stem}\n")


def main() -> int:
    if sys.version_info < (3, 11):
        print(f"transduce needs Python 3.11 or newer, this is {sys.version.split()[0]}: make PYTHON=python3.11 ...")
        return 2
    with open(ROOT / ".venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = hashlib.sha256(b"\0".join(path.read_bytes() for path in INPUTS)).hexdigest()
        if STAMP.exists() and STAMP.read_text() == wanted:
            return 0
        print("setting up .venv (a few minutes, once)", flush=True)
        STAMP.unlink(missing_ok=True)  # else one that is half cleared could pass for whole
        venv.create(VENV, clear=True, with_pip=True)
        try:
            install()
        except subprocess.CalledProcessError as failure:
            print(f"the set-up failed at: {shlex.join(failure.cmd)}\nRun make again to redo it.", file=sys.stderr)
            return 1
        STAMP.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
