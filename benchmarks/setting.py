"""What the few-shot benchmarks run on, and its floor: what no implementation can avoid, gathering the features of a
task and one 75 x 75 x 640 product of its queries."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from fsl.features.bank import FeatureBank
from fsl.tasks import Tasks

WAY, SHOT, QUERIES = 5, 1, 75
FLOOR_BATCHES = (4, 8, 16, 64)
"""Tasks at a time, of which the floor gets the best: it is a matter of what fits into the cache."""


def make_bank(classes: int = 20, each: int = 600, dimension: int = 640) -> FeatureBank:
    """Features of a novel split of mini-ImageNet's size, about as hard as a WRN's (SimpleShot near 65 %)."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(classes).repeat_interleave(each)
    centres = torch.randn(classes, dimension, generator=generator)
    noise = torch.randn(len(labels), 60, generator=generator) @ torch.randn(60, dimension, generator=generator) / 8
    features = (0.42 * centres[labels] + noise + 0.5 * torch.randn(len(labels), dimension, generator=generator)).relu()
    return FeatureBank(features, labels, tuple(f"class {i}" for i in range(classes)), features.mean(0))


def floor(features: Tensor, tasks: Tasks, batch: int) -> None:
    """Gather the features, and one product of the queries, `batch` tasks at a time."""
    rows = torch.cat([tasks.support, tasks.query], 1).to(features.device)
    gathered = features.new_empty(batch * rows.shape[1], features.shape[1])
    out = features.new_empty(batch, tasks.query.shape[1], tasks.query.shape[1])
    for part in rows.split(batch):
        torch.index_select(features, 0, part.flatten(), out=gathered[: part.numel()])
        query = gathered.view(batch, rows.shape[1], -1)[: len(part), tasks.support.shape[1] :]
        torch.bmm(query, query.mT, out=out[: len(part)])


def floor_by_core(features: Tensor, tasks: Tasks, batch: int) -> None:
    """The floor with a share of the tasks for each core."""
    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        size = -(-len(tasks) // cores)
        list(pool.map(lambda i: floor(features, tasks[i * size : (i + 1) * size], batch), range(cores)))
    torch.set_num_threads(cores)
