"""Let torchvision be imported beside a CPU build of torch; timm and pytorch_lightning import it.

The torchvision wheel of the package index is linked against CUDA. Beside a CPU build of torch its compiled operators
cannot load, and its import fails because it registers fakes for operators that do not exist. Importing this module
installs a hook that waits for the first `import torchvision`. Where the compiled operators load, the hook does nothing
more; elsewhere it declares the missing operators, which raise an error when they are called.

The set-up of this project (`.ci/environment.py`) copies this file into an environment with a CPU build of torch, where
Python imports it at each start. `clustering` imports it for environments that were installed by hand. It has no effect
once torchvision is imported, and no cost before: everything else is imported when it is needed.
"""

import sys

TYPE_CHECKING = False  # as that of typing, whose import takes ten milliseconds
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_LIBRARIES: list[object] = []  # torch forgets the declarations when the Library object goes


def _declare_missing_operators(folder: str) -> None:
    import re
    from pathlib import Path

    import torch

    for compiled in Path(folder).glob("_C*.so"):
        try:
            torch.ops.load_library(str(compiled))  # type: ignore[no-untyped-call]
            return
        except (OSError, ImportError):
            pass
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    _LIBRARIES.append(library)
    source = (Path(folder) / "_meta_registrations.py").read_text()
    for name in sorted(set(re.findall(r'register_fake\("torchvision::(\w+)"\)', source))):
        signature = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library.define(signature)  # type: ignore[no-untyped-call]


class _BeforeTorchvision:
    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        if name != "torchvision":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torchvision")
        if spec and spec.submodule_search_locations:
            _declare_missing_operators(spec.submodule_search_locations[0])
        return spec


if "torchvision" not in sys.modules and "_BeforeTorchvision" not in [type(one).__name__ for one in sys.meta_path]:
    sys.meta_path.insert(0, _BeforeTorchvision())
