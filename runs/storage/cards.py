"""Model cards: descriptions of checkpoints and feature banks, with a machine-readable YAML header.

The header follows Hugging Face's model cards (`library_name`, `license`, `tags`, `datasets`, `model-index`); facts
without a key in that format are stored under `transduce`. A card is stored beside its file. It has
no effect on results, and may be edited or deleted.
"""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustering.files.regular import head_of

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark
    from fsl.benchmarks.images import ImageSet
    from fsl.features.bank import FeatureBank
    from fsl.weights.pretrained import Look

LIBRARY = "transduce"
Facts = Mapping[str, Any]

# Licence of the pictures: Hugging Face's identifier, and the terms in words.
TERMS = {
    "glyphs": ("unknown", "drawn from the fonts of matplotlib, which may be used freely"),
    "omniglot": ("mit", "the drawings are under the MIT licence"),
    "mini": ("unknown", "the terms of ImageNet apply: non-commercial research and education only"),
    "tiered": ("unknown", "the terms of ImageNet apply: non-commercial research and education only"),
    "cub": ("unknown", "non-commercial research and education only; the pictures belong to their photographers"),
    "inat": ("unknown", "each picture has the licence that its author chose; most do not allow commercial use"),
    "cifar_fs": ("unknown", "those of CIFAR-100, which states no licence"),
    "fc100": ("unknown", "those of CIFAR-100, which states no licence"),
}
NOT_KNOWN = ("unknown", "not known to this program")
WEIGHTS = "the weights, under the names that the network's modules have in PyTorch"
COPY = (
    "Copies of a benchmark differ: pictures that were compressed as JPEG again, or resized by another program, give "
    "other features and accuracies. The fingerprint of the pictures identifies the copy."
)
IMAGENET = (
    "If it was trained on ImageNet, it has seen the novel classes of mini- and tiered-ImageNet: accuracies on them are "
    "not those of few-shot learning."
)
# The provenance of a bank in words.
PROVENANCE = {
    "checkpoint": "fingerprint of the weights",
    "images": "fingerprint of the pictures",
    "source": "fingerprint of the benchmark's files",
    "size": "size of the pictures",
    "transform": "preprocessing of the pictures",
    "imported": "imported from",
    "content": "fingerprint of that file",
    "form": "its form",
}
HEAD = f"---\nlibrary_name: {LIBRARY}\n"


def is_card(path: Path) -> bool:
    """Whether a file is a card written by this program."""
    try:
        return head_of(path).startswith(HEAD.encode())
    except OSError:
        return False


@dataclass(frozen=True)
class Card:
    """A card without the fingerprint of the file that it describes.

    Attributes:
        title: the heading.
        summary: description in one or two sentences.
        facts: content of `transduce` in the header.
        limits: unsuitable uses, one paragraph each.
        use: commands or code.
        tensors: content of the file, for users who read it without this program.
        license: licence of the pictures, as Hugging Face names it.
        datasets, tags: search keys on Hugging Face.
        results: entries of `model-index`.
        table: the results in words, `(name, value)`.
    """

    title: str
    summary: str
    facts: Facts
    limits: Sequence[str]
    use: str
    tensors: str
    license: str = "unknown"
    datasets: Sequence[str] = ()
    tags: Sequence[str] = ()
    results: Sequence[Facts] = ()
    table: Sequence[tuple[str, str]] = ()

    def text(self, fingerprint: str) -> str:
        """The card as Markdown."""
        import yaml

        from runs.record.code_version import code_version, version

        header: dict[str, Any] = {"library_name": LIBRARY, "license": self.license}
        header["pipeline_tag"] = "image-feature-extraction"
        header["tags"] = ["few-shot-learning", *dict.fromkeys(filter(None, self.tags))]
        if self.datasets:
            header["datasets"] = list(self.datasets)
        if self.results:
            header["metrics"] = list(dict.fromkeys(metric["type"] for row in self.results for metric in row["metrics"]))
            header["model-index"] = [{"name": self.title, "results": list(self.results)}]
        header[LIBRARY] = {**self.facts, "version": version(), "code": code_version(), "fingerprint": fingerprint}
        rows = [*self.table, ("fingerprint", f"`{fingerprint}`")]
        lines = ["---", yaml.safe_dump(header, sort_keys=False, allow_unicode=True, width=1000).rstrip(), "---", ""]
        lines += [f"# {self.title}", "", self.summary, "", "| | |", "| --- | --- |"]
        lines += [f"| {name} | {_cell(value)} |" for name, value in rows]
        lines += ["", "## Use", "", self.use, "", self._library(version()), "", "## Limits", ""]
        lines += [f"- {limit}" for limit in self.limits]
        return "\n".join(lines) + "\n"

    def _library(self, version: str) -> str:
        """The closing section: the program that wrote the file, and how to read it without this program."""
        return (
            f"This file was written by {LIBRARY} {version}, a Python program for transductive few-shot learning and "
            f"clustering. The tensors can also be read with `safetensors.torch.load_file`: "
            f"{self.tensors}."
        )


def trained(
    name: str, file: str, config: Facts, benchmark: "Benchmark", facts: Facts, splits: Mapping[str, "ImageSet"]
) -> Card:
    """The card of the weights of a base training.

    Args:
        name: name of the training in messages.
    file: name of the file that the card describes.
        config: the keys that determine the result.
        facts: results of the training: `validation_accuracy`, `validation_ci95`, `best_epoch`, `epochs`, `images`.
        splits: the pictures of the classes `base` and `validation`.
    """
    backbone, accuracy, ci95 = config["backbone"], facts["validation_accuracy"], facts["validation_ci95"]
    tasks = config["training.validation_tasks"]
    classes = {split: list(images.class_names) for split, images in splits.items()}
    validations = math.ceil(facts["epochs"] / config["training.validate_every"])
    task = f"{min(5, len(classes['validation']))}-way 1-shot"
    licence, terms = TERMS.get(benchmark.name, NOT_KNOWN)
    arguments = {"task": task, "tasks": tasks, "ci95": ci95, "epoch": facts["best_epoch"]}
    metric = {"type": "accuracy", "value": accuracy, "name": "nearest prototype, features of length 1"}
    return Card(
        title=name,
        summary=f"Weights of {backbone} without its classifier, trained on the base classes of {benchmark.name} by "
        "cross-entropy, for few-shot learning on other classes.",
        facts={
            "stage": "checkpoint",
            "benchmark": benchmark.name,
            "backbone": backbone,
            "input": _input(benchmark),
            "images": {split: len(images) for split, images in splits.items()},
            "image_fingerprints": {split: images.fingerprint for split, images in splits.items()},
            "classes": classes,
            "config": _settings(config),
        },
        limits=[
            f"The weights were trained on the {len(classes['base'])} base classes in the header, and the epoch was "
            f"chosen on the {len(classes['validation'])} validation classes. Accuracies on these classes are too high"
            + (f": the accuracy above is the best of {validations:,}, and optimistic." if validations > 1 else "."),
            "The network has no classifier. To label pictures it needs some labelled pictures of each class. It "
            "predicts one of these classes for every picture, even if the picture belongs to none.",
            f"The weights are for pictures of {benchmark.size} x {benchmark.size} like those of {benchmark.name}; on "
            "other domains the accuracy is lower.",
            f"Licence of the pictures: {terms}. No licence of the weights is stated.",
            COPY,
        ],
        use=_command(benchmark, backbone, f"checkpoint={file}"),
        tensors=WEIGHTS,
        license=licence,
        datasets=[benchmark.name],
        tags=[benchmark.name, backbone],
        results=[_result(benchmark.name, "validation", task, [{**metric, "args": arguments}])],
        table=[
            ("benchmark", f"{benchmark.name}, {len(splits['base']):,} images of {len(classes['base'])} base classes"),
            ("backbone", backbone),
            ("input", _input_in_words(benchmark)),
            ("validation accuracy", f"{_percent(accuracy, ci95)} over {tasks:,} {task} tasks of validation classes"),
            ("kept", f"epoch {facts['best_epoch']} of {facts['epochs']}, {facts['images']:,} images seen"),
        ],
    )


def given(
    backbone: str,
    benchmark: "Benchmark | type[Benchmark]",
    source: str,
    content: str,
    file: str,
    folded: Sequence[str] = (),
    look: "Look | None" = None,
) -> Card:
    """The card of weights that another program trained.

    Args:
        source: name of the original file.
        content: fingerprint of the original file's content.
    file: name of the file that the card describes.
        folded: biases that were merged into running means.
        look: the format of the images that the network takes, if it differs from the benchmark's.
    """
    shown, key = look or benchmark, "checkpoint" if look is None else "pretrained"
    _, terms = TERMS.get(benchmark.name, NOT_KNOWN)
    return Card(
        title=f"{backbone} from {source}",
        summary=f"Weights of {backbone} without its classifier, converted from {source}, a file of another program, to "
        "this project's names.",
        facts={
            "stage": "checkpoint",
            "benchmark": benchmark.name,
            "backbone": backbone,
            "input": _input(shown),
            "imported": source,
            "content": content,
        },
        limits=[
            "How the network was trained, on which classes and how well is unknown here. Do not evaluate on classes "
            "that it was trained on; ask its authors for them. " + IMAGENET,
            "Pictures are normalised as above, which is assumed to match the training; otherwise features are worse.",
            f"Licence of the pictures: {terms}. Ask the authors for the licence of the weights.",
        ],
        use=_command(benchmark, backbone, f"{key}={file}"),
        tensors=WEIGHTS,
        license="unknown",  # no datasets: the training data are unknown
        tags=[benchmark.name, backbone, "imported"],
        table=[
            ("backbone", backbone),
            ("input", _input_in_words(shown)),
            ("file", f"{source}, `{content}`"),
            *([("changed", folded_in_words(folded))] if folded else []),
        ],
    )


def folded_in_words(folded: Sequence[str]) -> str:
    """A sentence on biases that were merged into running means."""
    return (
        f"{len(folded)} biases of convolutions were merged into the running means of the normalisation that follows; "
        "the output of the network is the same"
    )


def bank(features: "FeatureBank", name: str, file: str, config: Facts | None = None) -> Card:
    """The card of a feature bank, with its provenance as far as it is known. The fingerprint is that of the bank.

    Args:
        name: name of the features in messages.
    file: name of the file that the card describes.
        config: the keys that determine the training of the network, if they are known.
    """
    provenance = dict(features.provenance)
    benchmark, split = provenance.get("benchmark", ""), provenance.get("split", "")
    licence, terms = TERMS.get(benchmark, NOT_KNOWN)
    known = features.base_mean is not None
    counts = features.labels.bincount(minlength=len(features.class_names))
    fewest, highest = int(counts.min()), int(counts.max())
    per_class = f"{fewest:,}" if fewest == highest else f"{fewest:,} to {highest:,}"
    of_split = f"the {split} classes of {benchmark}" if benchmark else f"{split} classes" if split else "images"
    return Card(
        title=name,
        summary=f"Features of {of_split}: {len(features.labels):,} images of {len(features.class_names)} classes, "
        f"{features.dimension} numbers each.",
        facts={
            "stage": "features",
            **provenance,
            "count": len(features.labels),
            "dimension": features.dimension,
            "base_mean_known": known,
            "classes": [str(name) for name in features.class_names],
            **({"config": _settings(config)} if config else {}),
        },
        limits=[
            "These are the features of these images only, without augmentation; features of other images require the "
            "network.",
            "Tasks can have these classes only, and a strategy always predicts one of the classes of its task."
            + (" The network was trained on them, so accuracies on them are too high." if split == "base" else ""),
            f"Licence of the pictures: {terms}.",
            *([COPY] if "images" in provenance else []),
        ],
        use="```python\nfrom pathlib import Path\n\nfrom fsl.features.bank import FeatureBank\n\n"
        f"bank = FeatureBank.load(Path({json.dumps(file, ensure_ascii=False)}))\n```",
        tensors="`features`, `labels` and, if known, `base_mean`; the class names are in the header",
        license=licence,
        datasets=[benchmark] if benchmark else [],
        tags=[benchmark, provenance.get("backbone", ""), "features"],
        table=[
            ("images", f"{len(features.labels):,}, {per_class} per class in {len(features.class_names)} classes"),
            ("features", f"{features.dimension}, float32"),
            ("mean of the base classes", "known" if known else "not known: CL2N needs it, UN and L2N do not"),
            *((PROVENANCE.get(key, key.replace("_", " ")), value) for key, value in provenance.items()),
        ],
    )


def _input(benchmark: "Benchmark | type[Benchmark] | Look") -> dict[str, Any]:
    form = {"channels": benchmark.channels, "size": benchmark.size}
    return form | {"mean": list(benchmark.mean), "std": list(benchmark.std)}


def _input_in_words(benchmark: "Benchmark | type[Benchmark] | Look") -> str:
    size = f"{benchmark.channels} x {benchmark.size} x {benchmark.size}"
    return f"{size}, scaled to 0..1, mean {list(benchmark.mean)}, deviation {list(benchmark.std)}"


def _result(benchmark: str, split: str, task: str, metrics: Sequence[Facts]) -> dict[str, Any]:
    return {
        "task": {"type": "image-classification", "name": f"{task} classification"},
        "dataset": {"name": benchmark, "type": benchmark, "split": split},
        "metrics": [dict(metric) for metric in metrics],
    }


def _percent(accuracy: float, ci95: float | None) -> str:
    return f"{100 * accuracy:.2f}" + (" %" if ci95 is None else f" ± {100 * ci95:.2f} % (95 % interval)")


def _settings(config: Facts) -> dict[str, Any]:
    """The settings of a training, without the name of the option `training`."""
    return {key: value for key, value in config.items() if key != "training"}


def _command(benchmark: "Benchmark | type[Benchmark]", backbone: str, weights: str) -> str:
    root = " root=FOLDER" if "root" in getattr(benchmark, "__dataclass_fields__", ()) else ""
    return f"    transduce evaluate benchmark={benchmark.name}{root} backbone={backbone} {shlex.quote(weights)}"


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
