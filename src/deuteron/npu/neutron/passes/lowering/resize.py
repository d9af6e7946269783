"""Resizes: bilinear and nearest neighbour."""

from dataclasses import dataclass
from itertools import pairwise, product
from math import gcd

from deuteron.npu.neutron.ir.ops import ResizeBilinear, ResizeNearest
from deuteron.npu.neutron.ir.shapes import resize_positions
from deuteron.npu.neutron.kernels.catalogue import RESIZE_BILINEAR
from deuteron.npu.neutron.passes.lowering.builder import Builder
from deuteron.npu.neutron.passes.lowering.movement import move_box
from deuteron.npu.neutron.passes.lowering.strides import contiguous_strides
from deuteron.operators import kernel_params as p


def bilinear(build: Builder, op: ResizeBilinear) -> None:
    """Lowers an interpolation to one call."""
    (x,), (y,) = op.inputs, op.outputs
    batches, in_h, in_w, channels = build.type(x).shape
    _, out_h, out_w, _ = build.type(y).shape
    (start_h, step_h, unit_h), (start_w, step_w, unit_w) = (
        resize_positions(size, out, align_corners=op.align_corners, half_pixel_centers=op.half_pixel_centers)
        for size, out in ((in_h, out_h), (in_w, out_w))
    )
    params = p.ResizeBilinearParams(
        batches=batches, in_h=in_h, in_w=in_w, channels=channels, out_h=out_h, out_w=out_w, start_h=start_h,
        step_h=step_h, unit_h=unit_h, start_w=start_w, step_w=step_w, unit_w=unit_w,
        zero_point=build.type(x).q.zero_point,
    )  # fmt: skip
    build.call(op, RESIZE_BILINEAR, (build.tensor(x), build.tensor(y)), params)


def nearest(build: Builder, op: ResizeNearest) -> None:
    """Lowers a nearest-neighbour resize to copies, one for each pair of row and column `Run`."""
    (x,), (y,) = op.inputs, op.outputs
    batches, in_h, in_w, channels = build.type(x).shape
    _, out_h, out_w, _ = build.type(y).shape
    read = contiguous_strides((batches, in_h, in_w, channels))
    write = contiguous_strides((batches, out_h, out_w, channels))
    for row, column in product(nearest_runs(in_h, out_h), nearest_runs(in_w, out_w)):
        source = (build.tensor(x), row.source * read[1] + column.source * read[2], (
            read[0], row.in_step * read[1], 0, column.in_step * read[2], 0, 1,
        ))  # fmt: skip
        target = (build.tensor(y), row.target * write[1] + column.target * write[2], (
            write[0], row.out_step * write[1], write[1], column.out_step * write[2], write[2], 1,
        ))  # fmt: skip
        dims = (batches, row.count, row.repeats, column.count, column.repeats, channels)
        move_box(build, op, dims, source, target)


@dataclass(frozen=True, slots=True)
class Run:
    """Output elements target + i * out_step + k, k < repeats, are all input element source + i * in_step, i < count."""

    source: int
    target: int
    count: int
    repeats: int
    in_step: int
    out_step: int


def nearest_runs(size: int, out: int) -> tuple[Run, ...]:
    """Return the runs of output i = input floor(i * size / out), which is periodic by their common divisor."""
    count = gcd(size, out)
    in_step, out_step = size // count, out // count
    starts = [-(-source * out_step // in_step) for source in range(in_step + 1)]
    return tuple(
        Run(source, start, count, end - start, in_step, out_step)
        for source, (start, end) in enumerate(pairwise(starts))
        if end > start
    )
