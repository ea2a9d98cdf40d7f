"""Damage every file of a results folder in six ways, and fill a small disk; the command must notice or not need it.

    python benchmarks/damage.py                  # files of the cache and the record
    python benchmarks/damage.py --disk 80        # a disk of a few MB that is full at 80 moments; needs root

After each damage the same command has to end with code 0 and the same numbers, or with code 2 and a message.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from kills import COMMANDS, numbers, start

WORDS = COMMANDS["evaluate"]
LIMIT = 300  # seconds until a command counts as hanging


def one_byte(path: Path) -> None:
    content = bytearray(path.read_bytes() or b"\0")
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


WAYS: dict[str, Callable[[Path], object]] = {
    "one byte": one_byte,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "another kind": lambda path: path.write_text("a: [1\n" * 100),
    "missing": Path.unlink,
    "pipe": pipe,
}


def problem(results: Path, expected: object) -> str:
    """Repeat the command; what is wrong with its end, or ""."""
    child = start(WORDS, results)
    try:
        output, said = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return "hangs"
    if child.returncode == 0:
        return "" if numbers(output) == expected else "other numbers, silently"
    return "" if child.returncode == 2 and said.strip() else f"code {child.returncode}: {said.strip()[-200:]}"


def damaged(whole: Path, folder: Path, expected: object) -> int:
    """Damage each file in each way, in a copy of the results."""
    wrong = 0
    for file in sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file()):
        for name, damage in WAYS.items():
            copy = folder / "copy"
            shutil.copytree(whole, copy)
            damage(copy / file)
            found = problem(copy, expected)
            wrong += bool(found)
            print(f"{file}, {name}: {found or 'well'}", flush=True)
            shutil.rmtree(copy)
    return wrong


def full(folder: Path, moments: int, expected: object, size: int) -> int:
    """Run the command on disks that have from nothing up to what it needs, then with room."""
    place, wrong = folder / "disk", 0
    place.mkdir()
    for moment in range(moments):
        room = (moment + 1) * size // (moments + 1) + (1 << 16)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(place)], check=True)
        try:
            child = start(WORDS, place / "results")
            _, said = child.communicate(timeout=LIMIT)
            found = "" if child.returncode in (0, 2) else f"code {child.returncode}: {said.strip()[-200:]}"
            subprocess.run(["mount", "-o", f"remount,size={4 * size}", str(place)], check=True)
            found = found or problem(place / "results", expected)
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
        wrong += bool(found)
        print(f"full at {room:,} bytes: {found or 'well'}", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--disk", type=int, metavar="MOMENTS", help="fill a disk at this number of moments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        child = start(WORDS, whole)
        output, said = child.communicate()
        if child.returncode:
            raise SystemExit(said)
        if options.disk is None:
            wrong = damaged(whole, Path(folder), numbers(output))
        else:
            size = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file())
            wrong = full(Path(folder), options.disk, numbers(output), size)
    print(f"{wrong} problems")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
