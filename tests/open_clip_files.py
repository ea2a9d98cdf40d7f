"""A small network of open_clip of random weights, in a file. The hub is not needed."""

import json
from pathlib import Path

import torch

CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
NAME = "transduce_small"


def small_network(folder: Path, seed: int = 0) -> Path:
    """Make `open_clip:transduce_small` known, and return a file with weights of it."""
    import open_clip

    (folder / f"{NAME}.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config(folder / f"{NAME}.json")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = open_clip.CLIP(**CONFIG)
    path = folder / f"small{seed}.pt"
    torch.save(model.state_dict(), path)
    return path
