"""The command `transduce` on a small mini-ImageNet: 20 pictures a class of 4 x 4 pixels, in all 100 classes.

    python benchmarks/few_pictures.py make FOLDER SMALL              # from the pictures in FOLDER, 0.7 MB in SMALL
    python benchmarks/few_pictures.py evaluate experiment=mini_resnet18 root=SMALL training.epochs=1 tasks=100

Every verb, experiment and table has its usual name, so that what runs for hours on a GPU can be tried here in minutes.
The accuracies mean nothing. Use a folder of results of its own.
"""

import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import runs.cli
from clustering.foundation.errors import InputError
from fsl.benchmarks.benchmark import SPLITS
from fsl.benchmarks.papers import MiniImageNet

EACH, PIXELS = 20, 4
FILES = {"base": "base-0", "validation": "val", "novel": "novel"}

# Outside the functions, because the worker processes of a table import this file as well.
MiniImageNet.size = PIXELS
MiniImageNet.each = 0


def make(source: str, target: Path) -> None:
    """Write the first pictures of each class as npz shards, see docs/how_to/benchmarks.md."""
    target.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        listing = MiniImageNet(source).listing(split)
        rows = np.concatenate([np.flatnonzero(listing.labels == k)[:EACH] for k in range(len(listing.class_names))])
        files = [png(listing.images[row : row + 1][0]) for row in rows]
        np.savez(
            target / f"{FILES[split]}.npz",
            blob=np.frombuffer(b"".join(files), np.uint8),
            offset=np.cumsum([0, *map(len, files)]),
            label=listing.labels[rows],
            classes=np.array(listing.class_names),
            image_id=np.arange(len(rows)),
        )


def png(pixels: np.ndarray) -> bytes:
    """A (3, H, W) picture as a file."""
    file = io.BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"] and len(sys.argv) == 4:
        try:
            make(sys.argv[2], Path(sys.argv[3]))
        except (InputError, OSError) as error:
            sys.exit(f"few_pictures.py: {error}")
    else:
        sys.exit(runs.cli.main())
