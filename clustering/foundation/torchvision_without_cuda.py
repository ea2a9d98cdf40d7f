"""Let torchvision be imported beside a CPU build of torch; timm and pytorch_lightning import it.

The torchvision wheel of the package index is linked against CUDA. Beside a CPU build of torch its compiled operators
cannot load, and its import fails because it registers fakes for operators that do not exist. Importing this module
installs a hook that waits for the first `import torchvision`. Where the compiled operators load, the hook does nothing
more; elsewhere it declares the missing operators, which raise an error when they are called.

`clustering` and `fsl` import this module first. It has no effect once torchvision is imported, and no cost before.
"""

import importlib.util
import pathlib
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_LIBRARIES: list[Any] = []  # torch forgets the declarations when the Library object goes


def _declare_missing_operators(package: pathlib.Path) -> None:
    import torch

    for compiled in package.glob("_C*.so"):
        try:
            torch.ops.load_library(str(compiled))  # type: ignore[no-untyped-call]
            return
        except (OSError, ImportError):
            pass
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    _LIBRARIES.append(library)
    source = (package / "_meta_registrations.py").read_text()
    for name in sorted(set(re.findall(r'register_fake\("torchvision::(\w+)"\)', source))):
        signature = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library.define(signature)  # type: ignore[no-untyped-call]


class _BeforeTorchvision:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torchvision":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torchvision")
        if spec and spec.submodule_search_locations:
            _declare_missing_operators(pathlib.Path(spec.submodule_search_locations[0]))
        return spec


if "torchvision" not in sys.modules:
    sys.meta_path.insert(0, _BeforeTorchvision())
