"""Every verb, killed at random moments: nothing finished is lost, and the same command ends with the same result.

TRANSDUCE_KILLS says how many kills, TRANSDUCE_KILLS_SEED at which moments.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clustering.files.arrays import read_arrays
from runs.cache import Store
from runs.record.query import read_runs
from runs.track import Tracker
from tests.runs import nursery
from tests.runs.children import started
from tests.runs.records import STATUSES

KILLS = int(os.environ.get("TRANSDUCE_KILLS", "0"))
PROJECT, PLUGINS = Path(__file__).resolve().parents[2], Path(__file__).resolve().parent / "plugins"
SEED = int(os.environ.get("TRANSDUCE_KILLS_SEED", "0"))
PROTOCOL = "tasks: 30\nlaplacianshot:\n- {split: validation, grid: {weight: [0.1, 0.7]}}\n"
# An unfinished file (.1234abcd.partial.name) is left: the next that writes there a day later removes it.
STRAY = re.compile(r"^(?!\.[0-9a-f]{8}\.partial\.).*\.partial|\.old-|\.new$|\.token-|\.tmp$|-journal$|damaged")
RESULT = ("per_task.npz", "trials.npz", "path.npz")
NOT_EQUAL = re.compile(r"seconds|per_second|learning_rate")  # what a clock says, and what only the last step has


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with what the commands are about."""
    folder = tmp_path_factory.mktemp("kills")
    (folder / "short.yaml").write_text(PROTOCOL)
    for part, name in (("support", "red"), ("support", "blue"), ("query", ".")):
        (folder / part / name).mkdir(parents=True)
        pixels = np.full((32, 32, 3), (200, 40, 40) if name == "red" else (40, 40, 190), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / part / name / f"{part}.png")
    return folder


@pytest.fixture(scope="module")
def base(place, trained_results):
    """A results folder with a finished training, its features and an evaluation."""
    shutil.copy(next(trained_results.glob("cache/checkpoint/*/best.safetensors")), place / "net.safetensors")
    return trained_results


@pytest.fixture(scope="module")
def commands(place, tiny_arguments):
    """What to type for each verb; all but the training stand on the finished one."""
    rest = [item for item in tiny_arguments if not item.startswith("tasks=")]
    training = [item for item in rest if not item.startswith("query=")]
    lines = [item.replace("=", ": ", 1) for item in [*tiny_arguments, "strategy=laplacianshot,protolp", "shot=1,3"]]
    (place / "tiny.yaml").write_text("\n".join(lines) + "\n")
    small = ["dataset=spirals", "arms=3", "points=30"]
    deep = ["method=entropy", "dataset=digits", "network=mlp", "network.epochs=3"]
    pictures = [f"support={place}/support", f"query={place}/query", f"backbone={place}/net.safetensors"]
    return {
        "train": ["train", *training, "seed=1"],
        "evaluate": ["evaluate", *tiny_arguments, "strategy=simpleshot,laplacianshot,protolp"],
        "tune": ["tune", *rest, f"tuning={place}/short.yaml", "strategy=laplacianshot"],
        "table": ["table", str(place / "tiny.yaml"), "--run-missing", "-y"],
        "cluster": ["cluster", "method=slk_mean_shift,kmeans", *small, "starts=3"],
        "deep": ["cluster", *deep],
        "fair": ["fair", "dataset=synthetic", "fairness_weight=0,60,500", "n_init=1"],
        "classify": ["classify", *pictures],
        "report": ["report"],
    }


FORCIBLE = ("train", "evaluate", "tune", "cluster", "deep", "fair")


class Nursery:
    """Runs command lines, and kills those that are to be killed."""

    def __init__(self, child):
        self._child = child
        assert child.stdout.readline() == "ready\n"

    def __call__(self, typed, seconds=None):
        self._child.stdin.write(json.dumps({"typed": typed, "seconds": seconds}) + "\n")
        self._child.stdin.flush()
        return json.loads(self._child.stdout.readline())


@pytest.fixture(scope="module")
def run(child_environment, place):
    arguments = [nursery.__file__, str(PROJECT), str(PLUGINS)]
    with started(arguments, child_environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=place) as child:
        yield Nursery(child)


def finished_runs(root):
    """Finished runs of a folder, by id, with what they say and the content of their result's file."""
    tracker = Tracker(Store(root))
    found = {}
    for row in read_runs(tracker, ""):
        folder = Path(row.artifact_uri.removeprefix("file://"))
        arrays = {}
        for name in RESULT:
            if (folder / name).exists():
                arrays = {key: value for key, value in read_arrays(folder / name).items() if key != "seconds"}
        found[row.run_id] = (row, arrays)
    return found


def said(root):
    """What the record says at the end, less ids and clocks: by experiment and name of the newest finished run."""
    newest = {}
    for row, arrays in sorted(finished_runs(root).values(), key=lambda found: found[0].start):
        numbers = {key: value for key, value in row.metrics.items() if not NOT_EQUAL.search(key)}
        newest[row.experiment, row.name] = numbers, arrays
    return newest


def shown(root):
    """The tables and figures that were written, by name."""
    return {path.name for part in ("tables", "figures") for path in (root / part).glob("[!.]*")}


def equal(one, other):
    assert one.keys() == other.keys()
    for key, (numbers, arrays) in one.items():
        assert numbers == other[key][0], key
        assert arrays.keys() == other[key][1].keys(), key
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, other[key][1][name], err_msg=f"{key} {name}")


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="TRANSDUCE_KILLS does not say how many kills")
def test_kills(run, base, commands, tmp_path):
    draw = random.Random(SEED)
    whole, wanted, kinds = {}, {}, []
    for verb, typed in commands.items():  # without a kill: what is wanted, and how long it takes
        shutil.copytree(base, tmp_path / verb)
        answer = run([*typed, f"results={tmp_path / verb}"])
        assert answer["code"] == 0, (verb, answer)
        whole[verb], wanted[verb] = answer["seconds"], said(tmp_path / verb)
        kinds += [(verb, False)] + ([(verb, True)] if verb in FORCIBLE else [])
    counts = {"killed": 0, "ended before": 0}
    for number in range(KILLS):
        verb, force = kinds[number % len(kinds)]
        # By force over the finished result; else in a folder where it is yet to be made.
        root = shutil.copytree(tmp_path / verb if force else base, tmp_path / f"kill-{number}")
        typed = [*commands[verb], f"results={root}"]
        before = finished_runs(root)
        moment = draw.uniform(0, 1.1 * whole[verb])
        first = run([*typed, *(["--force"] if force else [])], moment)
        about = f"kill {number} of seed {SEED}: {' '.join(typed[:2])}{' --force' if force else ''} after {moment:.3f} s"
        assert first["code"] in (0, -9), (about, first)
        counts["killed" if first["code"] == -9 else "ended before"] += 1

        kept = finished_runs(root)
        for run_id, (row, arrays) in before.items():
            assert run_id in kept, f"{about}: {row.name} is lost"
            assert kept[run_id][0].metrics == row.metrics, about
            assert kept[run_id][1].keys() == arrays.keys(), about
        for row, arrays in kept.values():
            if row.experiment.startswith(("evaluate/", "cluster/", "fair/")):
                assert arrays, f"{about}: {row.name} is finished and has no result"
        if force:  # the old result is what a command finds until the new one is whole
            looked = run([*commands[verb], "--dry-run", "--json", f"results={root}"])
            assert looked["code"] == 0, (about, looked)

        again = run(typed)
        assert again["code"] == 0, (about, again)
        equal(said(root), wanted[verb])
        assert shown(root) == shown(tmp_path / verb), about
        rows = read_runs(Tracker(Store(root)), "", statuses=STATUSES)
        assert "RUNNING" not in {row.status for row in rows}, about
        if force:  # a forced training that was killed goes on
            forced = run([*typed, "--force"])
            assert forced["code"] == 0, (about, forced)
            equal(said(root), wanted[verb])
        stray = [str(path.relative_to(root)) for path in root.rglob("*") if STRAY.search(path.name)]
        assert not stray, (about, stray)
        shutil.rmtree(root)
    sys.stderr.write(f"\n{KILLS} kills, seed {SEED}: {counts}\n")
