"""Networks of open_clip, which map pictures and texts to one space, with weights of open_clip or from a file."""

import json
import logging
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from pydantic import BaseModel, Field
from torch import Tensor, nn

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.progress import Progress, quiet
from fsl.backbones import registry
from fsl.backbones.names import OPEN_CLIP
from fsl.weights.checkpoints import check_finite
from fsl.weights.foreign import read_weights
from fsl.weights.pretrained import Interpolation, Look, Mode, absent, check_square

MODES: Mapping[str, Mode] = {"shortest": "center", "squash": "squash", "longest": "border"}
BESIDE = "open_clip_config.json"
"""A file that repositories of the hub have beside the weights, with the preprocessing of pictures."""
_TEXTS = 32  # texts encoded at once


class TwoTowers(nn.Module):
    """A network of open_clip with its image tower and its text tower, in evaluation mode.

    Shapes: (N, 3, size, size) -> (N, D) unit features.

    Args:
        name: name of the network in open_clip.
        model: the network.

    Attributes:
        feature_size: D.
    """

    def __init__(self, name: str, model: nn.Module) -> None:
        super().__init__()
        self.name = name
        self.model = model.eval()
        self.feature_size = int(_open_clip().get_model_config(name)["embed_dim"])

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.model.encode_image(images, normalize=True))  # type: ignore[operator]

    @property
    def logit_scale(self) -> float:
        """Factor of the cosines between pictures and texts."""
        return float(self.model.logit_scale.detach().exp().mean())  # type: ignore[operator]

    def encode_texts(self, texts: Sequence[str], progress: Progress = quiet) -> Tensor:
        """(n, D) float32 unit features on the CPU, of n texts. Every text costs as much as the longest that is allowed,
        so a CPU core may need a tenth of a second for each.

        Raises:
            InputError: the network's tokenizer requires another package or files that are not on this machine.
        """
        place, parts = self.model.logit_scale.device, []
        with torch.inference_mode(), progress.track("encoding class names", len(texts)) as advance:
            for start in range(0, len(texts), _TEXTS):
                batch = list(texts[start : start + _TEXTS])
                tokens = self._tokenizer(batch).to(place)
                parts.append(self.model.encode_text(tokens, normalize=True).float().cpu())  # type: ignore[operator]
                advance(len(batch))
        return torch.cat(parts)

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            with _silent():
                return _open_clip().get_tokenizer(self.name)
        except (ImportError, OSError, ValueError, RuntimeError) as error:
            problem = "is not on this machine; set HF_HUB_OFFLINE=0 to allow downloads"
            if isinstance(error, ImportError):
                problem = f"requires {error.name}; install it"
            raise InputError(
                f"{OPEN_CLIP}{self.name}: its tokenizer {problem}, or choose a network with the tokenizer of CLIP, "
                "such as ViT-B-32"
            ) from error


def open_clip_network(name: str, weights: str | Path | None) -> tuple[TwoTowers, Look]:
    """Create a network of open_clip, and the preprocessing of its pictures.

    A file of weights may be what open_clip or its training saves (.safetensors, .bin, .pt and similar). Its pictures
    are preprocessed as `open_clip_config.json` in its folder says, otherwise as for most weights that open_clip has for
    this network.

    Args:
        name: name of the network in open_clip, such as "ViT-B-32".
        weights: a tag of open_clip for this network, such as "laion2b_s34b_b79k", or a file. Weights of a tag are read
            from the cache of the Hugging Face hub. Set HF_HUB_OFFLINE=0 to allow downloads.

    Raises:
        InputError: open_clip is not installed; the name or the tag is unknown (the message suggests the closest); the
            weights are not available, or belong to another network.
    """
    library, name = _open_clip(), name.replace("/", "-")
    if name not in library.list_models():
        raise unknown("network of open_clip", name, library.list_models(), "open_clip.list_models()")
    of, tags = f"{OPEN_CLIP}{name}", library.pretrained.list_pretrained_tags_by_model(name)
    if weights is None:
        listed = f"TAG ({textwrap.shorten(', '.join(tags), 200, placeholder='...')}) or pretrained=" if tags else ""
        raise InputError(f"{of}: no weights given; add pretrained={listed}FILE")
    config: Mapping[str, Any] = library.pretrained.get_pretrained_cfg(name, str(weights))
    of_tag, source = bool(config), str(weights)
    if not of_tag:
        path = Path(weights).expanduser()
        if not path.is_file() and len(path.parts) == 1 and not path.suffix and tags:
            raise InputError(f"{unknown(f'weights of {of}', str(weights), tags)}; nor is there such a file")
        read_weights(path)  # rejects files that are damaged or contain code
        config, source = _preprocessing(path, name, tags), str(path.absolute())
    with torch.random.fork_rng(devices=[]), _silent():  # the weights drawn first are replaced
        try:
            model: nn.Module = library.create_model(name, pretrained=source, pretrained_text=False)
        except Exception as error:  # of open_clip, timm, or transformers
            if of_tag and isinstance(error, (OSError, RuntimeError)):
                place = f"huggingface.co/{config['hf_hub'].rpartition('/')[0]}"
                raise absent(f"{of} pretrained={weights}", place) from error
            lines = str(error).strip().splitlines() or [type(error).__name__]
            reason = textwrap.shorten(" ".join(lines[1:2] or lines), 160, placeholder="...")
            problem = f"cannot be used as weights of {of}: {reason}; give the network of these weights"
            raise InputError(f"{source}: {problem}") from error
    check_finite(dict(model.named_parameters()), source)
    sizes = model.visual.image_size  # type: ignore[union-attr]
    height, width = sizes if isinstance(sizes, tuple) else (sizes, sizes)
    check_square(of, height, width)
    values = vars(library.transform.PreprocessCfg()) | config
    mean, std, mode = list(values["mean"]), list(values["std"]), MODES[values["resize_mode"]]
    return TwoTowers(name, model), Look(3, int(height), mean, std, values["interpolation"], 1.0, mode)


def _open_clip() -> Any:
    registry()  # sets HF_HUB_OFFLINE, which the client of the hub reads when it is imported
    try:
        import open_clip
    except ImportError as error:
        raise InputError(
            f"backbone={OPEN_CLIP}NAME requires the package open_clip_torch: pip install 'transduce[clip]'"
        ) from error
    return open_clip


class _Preprocessing(BaseModel):
    """What `open_clip_config.json` says of the preprocessing of pictures."""

    mean: Annotated[list[float], Field(min_length=3, max_length=3)] | None = None
    std: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=3, max_length=3)] | None = None
    interpolation: Interpolation | None = None
    resize_mode: Literal["shortest", "squash", "longest"] | None = None


def _preprocessing(path: Path, name: str, tags: Sequence[str]) -> dict[str, Any]:
    """The preprocessing for a file of weights: that of most weights which open_clip has for the network, replaced by
    that of a file beside it."""
    keys, beside = tuple(_Preprocessing.model_fields), path.parent / BESIDE
    configs = (_open_clip().pretrained.get_pretrained_cfg(name, tag) for tag in tags)
    usual = Counter(tuple(config[key] for key in keys) for config in configs).most_common(1)
    values = dict(zip(keys, usual[0][0], strict=True)) if usual else {}
    try:
        own = json.loads(beside.read_text(encoding="utf-8"))["preprocess_cfg"] if beside.is_file() else {}
        return values | _Preprocessing.model_validate(own).model_dump(exclude_none=True)
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{beside}: no preprocessing of open_clip; remove the file, or download it again") from error


@contextmanager
def _silent() -> Iterator[None]:
    """open_clip logs by the root logger, which would then print the messages of all libraries from there on."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
