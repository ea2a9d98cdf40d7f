"""Kill commands at random moments, repeat them, and compare with an undisturbed run.

    python benchmarks/kills.py 100

Each verb is first run without disturbance. A kill (SIGKILL or SIGTERM, in turn) hits a fresh results folder at a random
moment of that time; the same command then has to end well with the same numbers. No process of the command and no
temporary file may be left. Only the command line and the results folder are used.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
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
TIMES = (
    "seconds",
    "ms",
    "run",
    "results",
    "picture",
    "identity",
    "key",
    "reused",
    "machine",
    "commit",
    "created",
)  # differ between runs
LEFT = (".tmp", ".part", ".new", ".old")  # endings of unfinished files


def start(words: list[str], results: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "ignore", "-m", "runs.cli", *words, f"results={results}"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def numbers(output: str) -> object:
    """What a command printed, without what differs between runs."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items() if not name.startswith(TIMES)}
        return [plain(one) for one in value] if isinstance(value, list) else value

    return plain(json.loads(output)) if output.lstrip().startswith(("{", "[")) else ""


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=100)
    parser.add_argument("--verbs", nargs="*", default=list(COMMANDS), choices=list(COMMANDS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw, wrong = random.Random(options.seed), []
    undisturbed: dict[str, tuple[object, float]] = {}
    for number in range(options.kills):
        verb = options.verbs[number % len(options.verbs)]
        words = COMMANDS[verb]
        with tempfile.TemporaryDirectory() as folder:
            if verb not in undisturbed:
                since = time.monotonic()
                child = start(words, Path(folder) / "whole")
                output, said = child.communicate()
                if child.returncode:
                    raise SystemExit(f"{verb}: {said}")
                undisturbed[verb] = numbers(output), time.monotonic() - since
            expected, seconds = undisturbed[verb]
            results, sent = Path(folder) / "killed", (signal.SIGKILL, signal.SIGTERM)[number // len(options.verbs) % 2]
            child, moment = start(words, results), draw.uniform(0.0, seconds)
            time.sleep(moment)
            os.kill(child.pid, sent)
            child.communicate()
            for _ in range(150):
                if not children(child.pid):
                    break
                time.sleep(0.1)
            problems = [f"processes {children(child.pid)} are left"] if children(child.pid) else []
            again = start(words, results)
            output, said = again.communicate()
            if again.returncode:
                problems.append(f"exit code {again.returncode}: {said.strip().splitlines()[-1:]}")
            elif numbers(output) != expected:
                problems.append("other numbers than undisturbed")
            left = [path for path in results.rglob("*") if path.name.endswith(LEFT) or ".partial" in path.name]
            problems += [f"left: {path.relative_to(results)}" for path in left]
            print(f"{number + 1} {verb} {sent.name} after {moment:.1f} s: {'; '.join(problems) or 'well'}", flush=True)
            wrong += problems
    print(f"{options.kills} kills, {len(wrong)} problems")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
