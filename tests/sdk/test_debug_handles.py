"""The map from kernels to edge operators that ExecuTorch gets, for its own profiling tests' models and for ours.

ExecuTorch's tests of it (`test_profiling.py` in its NXP backend) list the kernels of the vendor's converter; these list
ours, for models of the same structure. Without gaps: each kernel stands for some edge operator.
"""

import importlib
import operator
from collections.abc import Callable, Iterable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from deuteron.frontend import seam
from deuteron.frontend.examples import FOLDER, REFERENCES, ExampleModel
from deuteron.frontend.export import export
from deuteron.frontend.options import BuildOptions
from deuteron.frontend.partition import describe

pytestmark = pytest.mark.slow
TARGET = "imxrt700"
Row = tuple[str, ...]


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


def handed_over(module: nn.Module, shape: tuple[int, ...], *, transposes: bool) -> list[Row]:
    """For each kernel call its name and the edge operators that ExecuTorch finds behind it.

    `transposes` leaves changes of the channel order to the NPU, as ExecuTorch does by default; its tests do not.
    Its own reading of the log must give the same map, but for these transposes at the edges, which it cannot place.
    """
    torch.manual_seed(23)
    inputs, options = (torch.randn(shape),), BuildOptions(use_profiling=True)
    read: list[Handles] = []
    with seam.converter(options), pytest.MonkeyPatch.context() as patch:
        backend = importlib.import_module("executorch.backends.nxp.nxp_backend")
        spec = partial(backend.generate_neutron_compile_spec, use_neutron_for_format_conversion=transposes)
        patch.setattr(backend, "generate_neutron_compile_spec", spec)
        patch.setattr(backend, "NeutronMap", _recorded(backend.NeutronMap, read))
        quantised = seam.quantise(export(module.eval(), inputs), [inputs], seam.quantizer(TARGET, options.converter))
        program, recording = torch.export.export(quantised, inputs, strict=True), seam.Recording()
        edge = seam.lower(program, quantised.state_dict(), TARGET, options, recording)
    rows: list[Row] = []
    graph = edge.exported_program().graph_module
    delegates = [getattr(graph, str(node.target)) for node in graph.graph.nodes if node.op == "get_attr"]
    for lowered, partition, parsed in zip(delegates, recording.partitions, read, strict=True):
        names = _edge_operators(lowered.original_module.graph.nodes)
        kernels, handles = describe(partition).kernels, lowered.meta["debug_handle_map"]
        assert list(handles) == list(range(len(kernels) + 1))
        assert handles[len(kernels)] == ()  # the profile's closing record
        tagged = {index for indices in partition.handles.values() for index in indices}
        for kernel in kernels:
            rows.append((kernel.kernel.removesuffix("_s8"), *(names[handle] for handle in handles[kernel.index])))
            expected = handles[kernel.index] if tagged.intersection(kernel.ops) else ()
            assert tuple(sorted(parsed[kernel.index])) == expected
    return rows


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
        node.meta["debug_handle"]: seam.operator_name(node.target).partition("::")[2].partition(".")[0]
        for node in nodes
        if node.op == "call_function" and node.target is not operator.getitem and not seam.is_qdq(node)
    }


def tiny(name: str) -> Callable[[], nn.Module]:
    """One of ExecuTorch's MLPerf Tiny models."""
    return getattr(importlib.import_module("executorch.examples.models.mlperf_tiny"), name)


CONV, POINTWISE = ("conv2d", "convolution", "relu"), ("conv2d", "convolution", "relu")
DEPTHWISE = ("depthwise_conv2d", "convolution", "relu")
PLAIN, POOL = ("conv2d", "convolution"), ("max_pool", "max_pool2d_with_indices")
SUM = (("add", "add"), ("lut", "relu"))  # two roundings in PyTorch, and so two kernels
LINEAR = ("fully_connected", "addmm")
MEAN_OF_MAP = ("reduce_sum", "mean", "view_copy")
JOINED_POOLS = (POOL, ("average_pool", "avg_pool2d"), ("copy", "cat"), ("copy", "cat"))


@pytest.mark.parametrize(
    ("module", "shape", "rows"),
    [
        pytest.param(partial(nn.Softmax, -1), (10,), [("softmax", "_softmax")], id="softmax"),
        pytest.param(ParallelPools, (1, 3, 32, 32), [PLAIN, *JOINED_POOLS, PLAIN], id="simple_parallel_pool"),
        pytest.param(
            SmallClassifier,
            (1, 3, 32, 32),
            [CONV, POOL, CONV, POOL, CONV, (*POOL, "view_copy"), LINEAR, ("softmax", "_softmax")],
            id="cifar",
        ),
        pytest.param(partial(nn.AvgPool2d, 3, 2), (2, 15, 9, 6), [("average_pool", "avg_pool2d")], id="avg_pool"),
        pytest.param(
            ResidualPools, (1, 16, 32, 32), [CONV, PLAIN, ("add", "add"), *JOINED_POOLS, CONV], id="parallel_pool"
        ),
        pytest.param(
            tiny("ResNet8"),
            (1, 3, 32, 32),
            [CONV, CONV, PLAIN, *SUM, *(PLAIN, CONV, PLAIN, *SUM) * 2, MEAN_OF_MAP, LINEAR],
            id="resnet8",
        ),
        pytest.param(
            tiny("DSCNNKWS"),
            (1, 1, 49, 10),
            [CONV, *(DEPTHWISE, POINTWISE) * 4, ("average_pool", "avg_pool2d", "view_copy"), LINEAR],
            id="ds_cnn",
        ),
        pytest.param(
            tiny("MobileNetV1025"),
            (1, 3, 96, 96),
            [CONV, *(DEPTHWISE, POINTWISE) * 13, MEAN_OF_MAP, LINEAR],
            id="mobilenet_v1_025",
        ),
        pytest.param(tiny("DeepAutoEncoder"), (1, 640), [*[(*LINEAR, "relu")] * 9, LINEAR], id="deep_autoencoder"),
    ],
)
def test_the_kernels_of_executorchs_profiling_tests(
    module: Callable[[], nn.Module], shape: tuple[int, ...], rows: list[Row]
) -> None:
    assert handed_over(module(), shape, transposes=False) == rows


CLASSES = {
    "digits": "DigitsCnn",
    "ds_cnn": "DsCnn",
    "resnet8": "ResNet8",
    "mobilenet_v1_025": "MobileNetV1Quarter",
    "deep_autoencoder": "DeepAutoencoder",
    "mobilenet_v2": "MobileNetV2",
}
"""The reference models' classes: as they are made, with weights of any value, they have the structure already."""


@pytest.mark.parametrize("example", REFERENCES, ids=lambda example: example.name)
def test_every_kernel_of_a_reference_model(example: ExampleModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    module = getattr(importlib.import_module(example.path.stem), CLASSES[example.name])()
    rows = handed_over(module, example.input_shape, transposes=True)
    assert all(edge for _, *edge in rows)
