"""The map from kernels to edge operators for ExecuTorch, for models like those of its profiling tests."""

import importlib
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from tests.frontend.export_sessions import edge_of
from torch import Tensor, nn

from deuteron.arch import targets
from deuteron.builds.options import BuildOptions
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.backends.neutron.partition import describe
from deuteron.frontend.operators import base_name, is_qdq
from deuteron.frontend.pipeline import Flow
from deuteron.npu.provenance import payload_mark

TARGET = "imxrt700"


class ParallelPools(nn.Module):
    """Two pools of one tensor, joined, between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(6, 3, 1)
        self.largest, self.mean = nn.MaxPool2d(2), nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(torch.cat((self.largest(x), self.mean(x)), dim=1))


class ResidualPools(nn.Module):
    """A residual block with batch normalisation before two pools of one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3)
        self.second.padding = (1, 1)
        self.largest, self.mean, self.last = nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Conv2d(32, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(torch.relu(self.norm(self.first(x)))) + x
        return torch.relu(self.last(torch.cat((self.largest(y), self.mean(y)), dim=1)))


class SmallClassifier(nn.Module):
    """Three padded convolutions with activations and pools, a linear layer and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(c, d, 5, padding=2) for c, d in ((3, 32), (32, 32), (32, 64)))
        self.pool, self.linear = nn.MaxPool2d(2), nn.Linear(64 * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = self.pool(torch.relu(convolution(x)))
        return torch.softmax(self.linear(x.flatten(1)), dim=1)


Handles = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel call: the edge operators in the map, and those that ExecuTorch's reader of the log finds."""

    name: str
    operators: tuple[str, ...]
    read: tuple[str, ...]


def handed_over(module: nn.Module, shape: tuple[int, ...], *, transposes: bool) -> list[Kernel]:
    """The kernel calls of a model.

    `transposes` leaves changes of the channel order to the NPU, as ExecuTorch does by default; its tests do not.
    Its own reading of the log must give the same map, but for these transposes at the edges, which it cannot place.
    """
    torch.manual_seed(23)
    inputs, options = (torch.randn(shape),), BuildOptions(use_profiling=True)
    read: list[Handles] = []
    with upstream.converter(options), pytest.MonkeyPatch.context() as patch:
        backend = importlib.import_module("executorch.backends.nxp.nxp_backend")
        spec = partial(backend.generate_neutron_compile_spec, use_neutron_for_format_conversion=transposes)
        patch.setattr(backend, "generate_neutron_compile_spec", spec)
        patch.setattr(backend, "NeutronMap", _recorded(backend.NeutronMap, read))
        flow = Flow(targets.load(TARGET), options, lambda: [inputs], inputs)
        edge = edge_of(flow, module.eval(), inputs)
    found: list[Kernel] = []
    graph = edge.exported_program().graph_module
    delegates = [getattr(graph, str(node.target)) for node in graph.graph.nodes if node.op == "get_attr"]
    for lowered, partition, parsed in zip(delegates, flow.recording.partitions, read, strict=True):
        names = _edge_operators(lowered.original_module.graph.nodes)
        kernels, handles = describe(partition).kernels, lowered.meta["debug_handle_map"]
        assert list(handles) == [*range(len(kernels) + 1), payload_mark(lowered.processed_bytes)]
        assert handles[len(kernels)] == ()  # the profile's closing record
        tagged = {index for indices in partition.handles.values() for index in indices}
        for kernel in kernels:
            told, read_of = ([names[h] for h in of[kernel.index]] for of in (handles, parsed))
            found.append(Kernel(kernel.kernel.removesuffix("_s8"), tuple(told), tuple(read_of)))
            expected = handles[kernel.index] if tagged.intersection(kernel.ops) else ()
            assert tuple(sorted(parsed[kernel.index])) == expected
    return found


def _recorded(reader: type, read: list[Handles]) -> type:
    """ExecuTorch's reader of the log, which leaves what it finds in `read`."""

    class Recorded(reader):
        def get_neutron_to_edge_map(self) -> Handles:
            read.append(super().get_neutron_to_edge_map())
            return read[-1]

    return Recorded


def _edge_operators(nodes: Iterable[torch.fx.Node]) -> dict[int, str]:
    """Debug handle -> edge operator without namespace and overload."""
    return {
        node.meta["debug_handle"]: base_name(node.target)
        for node in nodes
        if node.op == "call_function" and node.target is not operator.getitem and not is_qdq(node)
    }


def tiny(name: str) -> Callable[[], nn.Module]:
    """One of ExecuTorch's MLPerf Tiny models."""
    return getattr(importlib.import_module("executorch.examples.models.mlperf_tiny"), name)


MODELS: Mapping[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "softmax": (partial(nn.Softmax, -1), (10,)),
    "simple_parallel_pool": (ParallelPools, (1, 3, 32, 32)),
    "cifar": (SmallClassifier, (1, 3, 32, 32)),
    "avg_pool": (partial(nn.AvgPool2d, 3, 2), (2, 15, 9, 6)),
    "parallel_pool": (ResidualPools, (1, 16, 32, 32)),
    "resnet8": (tiny("ResNet8"), (1, 3, 32, 32)),
    "ds_cnn": (tiny("DSCNNKWS"), (1, 1, 49, 10)),
    "deep_autoencoder": (tiny("DeepAutoEncoder"), (1, 640)),
}
"""Those of ExecuTorch's tests by their names, or models of the same structure, each with the shape of its input."""
