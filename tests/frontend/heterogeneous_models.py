"""Small models through the composition of NPU and Cortex-M, and what came of them."""

from collections import Counter
from dataclasses import dataclass

import torch
from tests.frontend.export_sessions import edge_of
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from deuteron.arch import targets
from deuteron.builds.options import BuildOptions
from deuteron.frontend.cortex_m import numerical_check
from deuteron.frontend.cpu import cpu_ops
from deuteron.frontend.pipeline import Flow

CHANNELS_LAST = torch.channels_last


@dataclass(frozen=True, slots=True)
class Combined:
    """A lowered model: its program, what it was quantized to, and the number of partitions for the NPU."""

    program: ExportedProgram
    module: fx.GraphModule
    inputs: tuple[Tensor, ...]
    partitions: int

    @property
    def operators(self) -> Counter[str]:
        """How often each operator runs on the CPU."""
        return Counter(op.op for op in cpu_ops(self.program.graph))

    @property
    def steps(self) -> int:
        """By how many steps of the output's scale the program is off the quantized model, both run by PyTorch."""
        (steps,) = numerical_check.differences(self.program, self.module, self.inputs)
        return steps


def combine(module: nn.Module, *shapes: tuple[int, ...], target: str, last: bool = False, keep: str = "") -> Combined:
    """The module on a target; `last`: inputs in channels-last memory, `keep`: an operator not to delegate."""
    torch.manual_seed(1)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    if last:
        inputs = tuple(x.contiguous(memory_format=CHANNELS_LAST) if x.dim() == 4 else x for x in inputs)
    arch, options = targets.load(target), BuildOptions(operators_not_to_delegate=(keep,) if keep else ())
    flow = Flow(arch, options, lambda: [inputs, inputs], inputs)
    program = edge_of(flow, module.eval(), inputs).exported_program()
    return Combined(program, flow.module, inputs, len(flow.recording.partitions))
