"""What users may lose: commands killed at random moments, damaged files, a full disk.

    python benchmarks/kills.py kill 100          # kill commands, repeat them, compare with an undisturbed run
    python benchmarks/kills.py damage            # damage every file of the cache and the record in six ways
    python benchmarks/kills.py disk 80           # a disk of a few MB that is full at 80 moments; needs root

A kill (SIGKILL or SIGTERM, in turn) hits a fresh results folder at a random moment; the same command then has to end
well with the same numbers, and no process of the command and no temporary file may be left. After a damage, the same
command has to end with code 0 and the same numbers, or with code 2 and a message.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SMALL = ["epochs=2", "warmup=1", "tasks=100", "device=cpu", "backbone=conv4"]
COMMANDS = {
    "train": ["train", "epochs=2", "warmup=1", "device=cpu", "backbone=conv4"],
    "evaluate": ["evaluate", *SMALL, "strategy=simpleshot,laplacianshot", "--json"],
    "tune": ["tune", "epochs=2", "warmup=1", "device=cpu", "backbone=conv4", "strategy=laplacianshot", "--json"],
    "cluster": ["cluster", "dataset=digits", "method=kmeans,kmodes", "starts=3", "selection=null", "--json"],
    "fair": ["fair", "dataset=synthetic", "method=fair_kmeans", "--json"],
    "table": ["table", "quickstart", *SMALL[:4], "--run-missing", "-y", "--json", "parallel.n_jobs=2"],
}
# Between runs of the same command.
DIFFERS = ("seconds", "ms", "run", "results", "picture", "identity", "key", "reused", "machine", "commit", "created")
LEFT = (".tmp", ".part", ".new", ".old")  # endings of unfinished files
LIMIT = 300  # seconds until a command counts as hanging


def start(words: list[str], results: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "ignore", "-m", "runs.cli", *words, f"results={results}"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def undisturbed(words: list[str], results: Path) -> object:
    """What the command prints, without what differs between runs."""
    child = start(words, results)
    output, said = child.communicate()
    if child.returncode:
        raise SystemExit(f"{words[0]}: {said}")
    return numbers(output)


def numbers(output: str) -> object:
    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items() if not name.startswith(DIFFERS)}
        return [plain(one) for one in value] if isinstance(value, list) else value

    return plain(json.loads(output)) if output.lstrip().startswith(("{", "[")) else ""


def problem(words: list[str], results: Path, expected: object) -> str:
    """Repeat a command after a disturbance; what is wrong with its end, or ""."""
    child = start(words, results)
    try:
        output, said = child.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return "hangs"
    if child.returncode == 0:
        return "" if numbers(output) == expected else "other numbers, silently"
    return "" if child.returncode == 2 and said.strip() else f"code {child.returncode}: {said.strip()[-200:]}"


def children(group: int) -> list[int]:
    """Processes of a session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        found += [int(entry.name)] if int(session) == group and state != "Z" else []
    return found


def kill(folder: Path, times: int, verbs: list[str]) -> int:
    draw, wrong = random.Random(0), 0
    whole: dict[str, tuple[object, float]] = {}
    for number in range(times):
        verb = verbs[number % len(verbs)]
        if verb not in whole:
            began = time.monotonic()
            whole[verb] = undisturbed(COMMANDS[verb], folder / f"{verb}-whole"), time.monotonic() - began
        expected, seconds = whole[verb]
        results, sent = folder / str(number), (signal.SIGKILL, signal.SIGTERM)[number // len(verbs) % 2]
        child, moment = start(COMMANDS[verb], results), draw.uniform(0.0, seconds)
        time.sleep(moment)
        os.kill(child.pid, sent)
        child.communicate()
        for _ in range(150):
            if not children(child.pid):
                break
            time.sleep(0.1)
        problems = [f"processes {left} are left"] if (left := children(child.pid)) else []
        again = start(COMMANDS[verb], results)
        output, said = again.communicate()
        if again.returncode:  # a command that was killed must end well, not with a message
            problems.append(f"code {again.returncode}: {said.strip()[-200:]}")
        elif numbers(output) != expected:
            problems.append("other numbers than undisturbed")
        files = [path for path in results.rglob("*") if path.name.endswith(LEFT) or ".partial" in path.name]
        problems += [f"left: {path.relative_to(results)}" for path in files]
        print(f"{number + 1} {verb} {sent.name} after {moment:.1f} s: {'; '.join(problems) or 'well'}", flush=True)
        wrong += len(problems)
        shutil.rmtree(results)
    return wrong


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


def damage(folder: Path, words: list[str]) -> int:
    whole, wrong = folder / "whole", 0
    expected = undisturbed(words, whole)
    for file in sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file()):
        for name, way in WAYS.items():
            copy = folder / "copy"
            shutil.copytree(whole, copy)
            way(copy / file)
            found = problem(words, copy, expected)
            wrong += bool(found)
            print(f"{file}, {name}: {found or 'well'}", flush=True)
            shutil.rmtree(copy)
    return wrong


def disk(folder: Path, moments: int, words: list[str]) -> int:
    """Disks that have from nothing up to what the command needs, then room to repeat it."""
    whole, place, wrong = folder / "whole", folder / "disk", 0
    expected = undisturbed(words, whole)
    size = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file())
    place.mkdir()
    for moment in range(moments):
        room = (moment + 1) * size // (moments + 1) + (1 << 16)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(place)], check=True)
        try:
            child = start(words, place / "results")
            _, said = child.communicate(timeout=LIMIT)
            found = "" if child.returncode in (0, 2) else f"code {child.returncode}: {said.strip()[-200:]}"
            subprocess.run(["mount", "-o", f"remount,size={4 * size}", str(place)], check=True)
            found = found or problem(words, place / "results", expected)
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
        wrong += bool(found)
        print(f"full at {room:,} bytes: {found or 'well'}", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["kill", "damage", "disk"])
    parser.add_argument("times", type=int, nargs="?", default=100, help="kills, or moments of a full disk")
    parser.add_argument("--verbs", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    options = parser.parse_args()
    words = COMMANDS[options.verbs[0] if len(options.verbs) == 1 else "evaluate"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.kind == "kill":
            wrong = kill(folder, options.times, options.verbs)
        else:
            wrong = damage(folder, words) if options.kind == "damage" else disk(folder, options.times, words)
    print(f"{wrong} problems")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
