"""Makes a torchvision built for CUDA importable with a torch without CUDA.

Its compiled operators do not load there, which torchvision itself tolerates, except that it describes two of them to
torch and torch refuses to hear of operators that do not exist. Declaring the two is enough; the tests call neither.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _DeclareOperators(MetaPathFinder):
    """Declares the operators just before the module that describes them is looked for."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Find nothing: the usual finders do."""
        if fullname != "torchvision._meta_registrations":
            return
        sys.meta_path.remove(self)
        import torch  # noqa: TID251 - outside the product

        self.library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                self.library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        # A library's declarations go when it goes.
        sys.modules["torchvision"].__dict__["_declared_operators"] = self.library


sys.meta_path.insert(0, _DeclareOperators())
