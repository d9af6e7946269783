"""Random valid graphs over every operator, for property and differential tests.

A graph depends on its seed only. Shapes are small and awkward (1, primes, around multiples of 8 and 16). Zero points
are often at their limits. Output scales are chosen such that results neither vanish nor all saturate.
"""

import numpy as np
import numpy.typing as npt
from tests.graphs import elementwise, motifs, movement, products, reductions, windows
from tests.graphs.builder import Builder, Maker

from deuteron.npu.neutron.ir.graph import Graph

MOST_OPS = 30

MAKERS: tuple[Maker, ...] = (
    windows.conv2d,
    windows.conv2d,
    windows.depthwise,
    windows.transpose_conv,
    windows.average_pool,
    windows.max_pool,
    windows.padded_window,
    windows.padded_window,
    windows.resize_bilinear,
    windows.resize_nearest,
    products.fully_connected,
    products.batch_matmul,
    elementwise.add,
    elementwise.add,
    elementwise.mul,
    elementwise.extremum,
    elementwise.prelu,
    elementwise.neutral,
    elementwise.softmax,
    elementwise.quantize,
    elementwise.activation,
    elementwise.activation,
    elementwise.unary,
    elementwise.unary,
    elementwise.leaky_relu,
    reductions.reduction,
    reductions.reduction,
    movement.pad,
    movement.mirror_pad,
    movement.reshape,
    movement.transpose,
    movement.concat,
    movement.slice_,
    motifs.residual,
    motifs.parallel_pools,
    motifs.concat_of_slices,
    motifs.grouped_conv,
    motifs.other_layout,
    motifs.common_quantization,
)


def random_graph(seed: int, ops: int | None = None, *, stock: bool = False, wide: bool = False) -> Graph:
    """A verified-by-construction graph of about `ops` operators, 2 to 30 by default, small ones more often.

    `stock` leaves out what no TFLite file can say with one operator: clamps that are no activation, pads that are
    neither SAME nor VALID, an average pool or a maximum that requantizes. `wide` has scales from 2^-60 to 2^40 here and
    there, some of which the NPU refuses.
    """
    build = Builder(np.random.default_rng(seed), stock=stock, wide=wide)
    wanted = ops if ops is not None else round(2 * (MOST_OPS / 2) ** build.factor(0, 1))
    build.input(build.map_shape())
    if build.chance(0.3):
        build.input(build.map_shape())
    while len(build.ops) < wanted:
        build.pick(MAKERS)(build, build.source())
    return build.finish(f"random{seed}")


def random_inputs(graph: Graph, seed: int) -> list[npt.NDArray[np.int8]]:
    """Values for the graph's inputs: now the whole range, now only its ends, now close to zero."""
    rng = np.random.default_rng(seed)
    inputs: list[npt.NDArray[np.int8]] = []
    for name in graph.inputs:
        kind = graph.type(name)
        low, high = [(-128, 127), (-128, 127), (-3, 3)][rng.integers(3)]
        values = rng.integers(low, high + 1, kind.shape)
        if rng.random() < 0.2:
            values = np.where(values < 0, -128, 127)
        inputs.append(values.astype(np.int8))
    return inputs
