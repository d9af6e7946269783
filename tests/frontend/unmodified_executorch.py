"""ExecuTorch's quantizers and partitioners combined without changes, to show each failure."""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from deuteron.builds.options import Converter
from deuteron.frontend.backends.neutron import upstream as neutron_upstream
from deuteron.frontend.cortex_m import upstream as cortex_m
from deuteron.frontend.operators import operator_name

TARGET = "cortex-m33"


def part(module: str, name: str) -> Any:
    """A name of one of ExecuTorch's or torchao's modules."""
    cortex_m.load()
    return getattr(importlib.import_module(module), name)


def cortex_m_quantizer() -> Any:
    """The Cortex-M backend's own."""
    return part("executorch.backends.cortex_m.quantizer.quantizer", "CortexMQuantizer")()


def composed(*quantizers: Any) -> Any:
    """All of them, as torchao composes quantizers."""
    return part("torchao.quantization.pt2e.quantizer", "ComposableQuantizer")(list(quantizers))


def neutron() -> Any:
    """The NXP backend's quantizer."""
    return neutron_upstream.quantizer("imxrt700", Converter.OPEN)


def marked(quantizer: Any) -> Any:
    """A quantizer whose annotations the Cortex-M backend takes for its own."""
    mark: Callable[[fx.Node], None] = part(
        "executorch.backends.arm.quantizer.arm_quantizer_utils", "mark_node_as_annotated"
    )
    annotate = quantizer.annotate

    def annotate_and_mark(model: fx.GraphModule) -> fx.GraphModule:
        model = annotate(model)
        for node in model.graph.nodes:
            if node.op == "call_function" and "quantization_annotation" in node.meta:
                mark(node)
        return model

    quantizer.annotate = annotate_and_mark
    return quantizer


def quantized(module: nn.Module, x: Tensor, quantizer: Any) -> fx.GraphModule:
    """The module, its ranges measured on one input."""
    exported = torch.export.export(module.eval(), (x,), strict=False).module(check_guards=False)
    assert isinstance(exported, fx.GraphModule)
    return neutron_upstream.quantize(exported, [(x,)], quantizer)


def config() -> Any:
    """With what the Cortex-M backend asks ExecuTorch to lower."""
    return part("executorch.backends.cortex_m.edge_compile_config", "cortex_m_edge_compile_config")()


def edge_program(module: fx.GraphModule, x: Tensor) -> ExportedProgram:
    """The quantized module, lowered as the backend asks."""
    to_edge = part("executorch.exir", "to_edge")
    return to_edge(torch.export.export(module, (x,)), compile_config=config()).exported_program()


def with_operators(program: ExportedProgram, *, explicit: bool = False) -> ExportedProgram:
    """The program with the Cortex-M's operators, put there by the backend's own passes."""
    passes = part("executorch.backends.cortex_m.passes.cortex_m_pass_manager", "CortexMPassManager")
    target = part("executorch.backends.cortex_m.target_config", "CortexMTargetConfig").from_target_string(TARGET)
    return passes(program, None, target, explicit).transform()


def lowered(module: nn.Module, x: Tensor, quantizer: Any, *, explicit: bool = False) -> tuple[ExportedProgram, float]:
    """The program, and how far its output is off the quantized module's."""
    found = quantized(module, x, quantizer)
    program = with_operators(edge_program(found, x), explicit=explicit)
    with torch.no_grad():
        error = float((program.module(check_guards=False)(x) - found(x)).abs().max())
    return program, error


def names(program: ExportedProgram) -> list[str]:
    """The operators of a program, in order."""
    return [name for node in program.graph.nodes if "::" in (name := operator_name(node.target))]


def in_float(program: ExportedProgram) -> list[str]:
    """The operators that take or give numbers in float, but for those that quantize."""
    nodes = [node for node in program.graph.nodes if "::" in operator_name(node.target)]
    values = [(node, [n.meta.get("val") for n in (node, *node.all_input_nodes)]) for node in nodes]
    return [
        operator_name(node.target)
        for node, found in values
        if "quantize" not in operator_name(node.target)
        and any(isinstance(value, Tensor) and value.is_floating_point() for value in found)
    ]
