"""Runs a lowered program in PyTorch with exact arithmetic: the results of ExecuTorch's runtime must be equal.

The definitions of two operators of the Cortex-M compute in float32, which takes some exact halves to the wrong side
(spec/rounding.md). Here they compute exactly: the average pool with a scale of 1, on which its result does not depend,
and the softmax in float64. Each call of the NPU gives what it gave in the runtime, if its inputs are the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.operators import base_name, is_delegate, operator_name
from deuteron.npu.neutron.payload import Payload, parse
from deuteron.runtime.observer import DelegateCall

_UNIT = (1 << 30, 1)
"""Multiplier and shift of a scale of 1."""


class ExactInterpreter(fx.Interpreter):
    """Runs a program as it stands now; later steps of ExecuTorch's may change it."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__(program.module(check_guards=False))
        self._payloads: dict[fx.Node, Payload] = {}
        self._calls: Iterator[DelegateCall] = iter(())
        self._differences = 0
        for node in self.module.graph.nodes:
            if is_delegate(node):
                self._payloads[node] = parse(self.fetch_attr(node.args[0].target).processed_bytes)
            elif node.op == "call_function" and base_name(node.target).startswith("quantized_avg_pool2d"):
                node.args = (*node.args[:6], *_UNIT, *node.args[8:])

    def differences(self, inputs: Sequence[Tensor], calls: Sequence[DelegateCall], outputs: Sequence[Any]) -> int:
        """How many numbers differ that the runtime gave to the NPU or as outputs, with the same inputs."""
        self._calls, self._differences = iter(calls), 0
        with torch.no_grad():
            wanted = cast("list[Tensor]", flat(self.run(*inputs)))
        for ours, theirs in zip(outputs, wanted, strict=True):
            self._differences += int(np.count_nonzero(ours != theirs.numpy()))
        return self._differences

    def run_node(self, n: fx.Node) -> Any:
        if n in self._payloads:
            args, _ = self.fetch_args_kwargs_from_env(n)
            return self._delegate(self._payloads[n], cast("Sequence[Tensor]", args[1:]), flat(n.meta["val"]))
        if n.op == "call_function" and operator_name(n.target) == "cortex_m::softmax":
            return _softmax(*self.fetch_args_kwargs_from_env(n)[0])
        return super().run_node(n)

    def _delegate(self, payload: Payload, inputs: Sequence[Tensor], like: Sequence[object]) -> list[Tensor]:
        call = next(self._calls)
        for at, is_last, found in zip(payload.input_map, payload.input_formats, call.inputs, strict=True):
            wanted = inputs[at].movedim(1, -1) if is_last else inputs[at]
            self._differences += int(np.count_nonzero(found != wanted.contiguous().numpy().reshape(-1)))
        results = [torch.empty(cast(Tensor, one).shape, dtype=torch.int8) for one in like]
        for at, is_last, found in zip(payload.output_map, payload.output_formats, call.outputs, strict=True):
            result = results[at].movedim(1, -1) if is_last else results[at]
            result.copy_(torch.from_numpy(found.copy()).reshape(result.shape))
        return results


def _softmax(x: Tensor, dim: int, in_zp: int, out_zp: int, multiplier: int, shift: int, _: int) -> Tensor:
    shares = torch.softmax((x.double() - in_zp) * (multiplier * 2.0 ** (shift - 57)), dim)
    return (torch.round(shares * 256) + out_zp).clamp(-128, 127).to(torch.int8)
