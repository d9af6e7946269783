"""Programs in which ExecuTorch's runtime calls every operator of its Cortex-M backend, in both layouts."""

import torch
from tests.exir import EdgeCompileConfig, to_edge
from torch import Tensor

from deuteron.frontend.cortex_m import upstream

HALF = 1 << 30
"""The multiplier of a factor of 2^(shift - 1)."""

SCRATCH = 4096
"""Bytes for any operator here."""


def _numbers(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)


class Everything(torch.nn.Module):
    """Every operator; `explicit` chooses those whose maps have shapes in the order batches, height, width, channels.

    Scratch memory comes as an input, as the lowering to which it belongs is not part of this.
    """

    def __init__(self, *, explicit: bool) -> None:
        super().__init__()
        self.explicit = explicit
        self.weights = torch.nn.Parameter(_numbers(1, 6, 3, 3, 4), requires_grad=False)
        self.grouped = torch.nn.Parameter(_numbers(2, 6, 1, 2, 3), requires_grad=False)
        self.depthwise = torch.nn.Parameter(_numbers(3, 1, 3, 3, 6), requires_grad=False)
        self.transposed = torch.nn.Parameter(_numbers(4, 5, 2, 2, 6), requires_grad=False)
        self.linear = torch.nn.Parameter(_numbers(5, 7, 10), requires_grad=False)
        self.table = torch.nn.Parameter(_numbers(6, 256), requires_grad=False)
        self.row = torch.nn.Parameter(_numbers(7, 1, 6, 1, 1), requires_grad=False)
        self.bias = torch.nn.Parameter(_numbers(8, 7).to(torch.int32) * 64, requires_grad=False)
        for channels in (5, 6):
            multipliers = torch.full((channels,), HALF + 12345, dtype=torch.int32)
            self.register_buffer(f"multipliers{channels}", multipliers)
            self.register_buffer(f"shifts{channels}", torch.arange(channels, dtype=torch.int32) % 3 - 9)

    def forward(self, real: Tensor, scratch: Tensor) -> tuple[Tensor, ...]:
        ops = torch.ops.cortex_m
        suffix = "_nhwc" if self.explicit else ""
        conv, depthwise, transposed, mean, largest = (
            getattr(ops, f"quantized_{name}2d{suffix}")
            for name in ("conv", "depthwise_conv", "transpose_conv", "avg_pool", "max_pool")
        )
        channels = 3 if self.explicit else 1
        x = ops.quantize_per_tensor(real, 0.05, 3, -128, 127, torch.int8)
        m6, s6 = self.multipliers6, self.shifts6
        a = conv(x, self.weights, self.bias[:6].clone(), [1, 1], [1, 1], [1, 1], -3, 5, m6, s6, -100, 127, scratch)
        b = conv(a, self.grouped, None, [2, 1], [0, 1], [1, 1], -5, 1, m6, s6, -128, 127, scratch)
        c = depthwise(a, self.depthwise, None, [1, 1], [1, 1], [1, 1], 1, -5, -3, m6, s6, -128, 127, scratch)
        d = transposed(
            c, self.transposed, None, [2, 2], [0, 0], [0, 0], [1, 1], 3, 0, self.multipliers5, self.shifts5, -128, 127,
            scratch, scratch[:0].clone(),
        )  # fmt: skip
        e = ops.quantized_add(a, 5, HALF, 0, c, -3, HALF, -1, 2, 1342177280, -18, -128, 127)
        f = ops.quantized_mul(e, 2, a if self.explicit else self.row, 0, 1, HALF, -5)
        g = largest(torch.cat([e, f], channels), [2, 2], [2, 2], [0, 0], [1, 1], False, 1, 1, -120, 120)
        h = mean(ops.pad(g, [0, 1, 1, 0], [0, 0, 1, 0], 1), [3], [2, 2], [0, 0], False, 1, HALF, -3, scratch)
        i = ops.maximum(ops.minimum(e, f), ops.quantized_div(e, 2, f, 1, 0, 20.0))
        j = ops.quantized_activation(i, self.table)
        rows = j.flatten()[:160] if self.explicit else j.clone(memory_format=torch.contiguous_format)[:, :5, :, :4]
        rows = rows.reshape(2, 8, 10)
        k = ops.quantized_linear(rows, self.linear, self.bias, None, 1, 0, -2, [HALF], [-8], 127, -128)
        m = ops.quantized_batch_matmul(rows, 1, rows, 1, 0, HALF, -9, scratch)
        n = ops.softmax(ops.transpose(k, [0, 2, 1]), -1, 0, -128, HALF, 22, -99)
        return b, d, h, m, n, ops.dequantize_per_tensor(k, 0.1, -2, -128, 127, torch.int8)


def inputs(*, explicit: bool) -> tuple[Tensor, Tensor]:
    """Return the inputs of the module: a map of four channels, and scratch memory."""
    generator = torch.Generator().manual_seed(9)
    real = torch.randn((1, 8, 8, 4), generator=generator) * 3
    scratch = torch.zeros(SCRATCH, dtype=torch.uint8)
    return real if explicit else real.permute(0, 3, 1, 2), scratch


def lowered(module: torch.nn.Module, given: tuple[Tensor, ...]) -> bytes:
    """The `.pte` of a module."""
    upstream.load()
    exported = torch.export.export(module.eval(), given, strict=False)
    program = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False)).to_executorch()
    return program.buffer
