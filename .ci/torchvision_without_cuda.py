"""Let torchvision be imported beside a CPU build of torch.

The torchvision wheel of the package index is linked against CUDA. Beside a CPU build of torch its compiled
operators cannot load, and torchvision then fails on import because it registers fakes for operators that do not
exist; timm and pytorch_lightning import torchvision, so they fail too. This hook waits for the first
`import torchvision`: where the compiled operators load, it does nothing more; where they do not, it declares the
missing operators (calling one still raises an error). The set-up copies this file into the virtual environment,
beside a one-line `.pth` that imports it; until torchvision is imported it costs nothing.
"""

import importlib.util
import pathlib
import re
import sys

_LIBRARIES = []  # torch forgets the declarations when the Library object goes


def _declare_missing_operators(package):
    import torch

    for compiled in package.glob("_C*.so"):
        try:
            torch.ops.load_library(str(compiled))
            return
        except (OSError, ImportError):
            pass
    library = torch.library.Library("torchvision", "FRAGMENT")
    _LIBRARIES.append(library)
    source = (package / "_meta_registrations.py").read_text()
    for name in sorted(set(re.findall(r'register_fake\("torchvision::(\w+)"\)', source))):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


class _BeforeTorchvision:
    def find_spec(self, name, path=None, target=None):
        if name != "torchvision":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torchvision")
        if spec and spec.submodule_search_locations:
            _declare_missing_operators(pathlib.Path(spec.submodule_search_locations[0]))
        return spec


sys.meta_path.insert(0, _BeforeTorchvision())
