"""Transposes of constants, which are made when the program is built: Vela would write them into read-only memory."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from deuteron.frontend.backends.ethosu.vela_workarounds import kind_of


def fold(module: fx.GraphModule, program: ExportedProgram) -> None:
    """Replace each transpose of a constant by a constant of the program; `module` has its TOSA operators."""
    from executorch.backends.transforms.utils import (
        create_constant_placeholder,
        delete_constant_placeholder,
        get_param_tensor,
        is_param_node,
    )

    for node in list(module.graph.nodes):
        if kind_of(node) != "TRANSPOSE" or not is_param_node(program, source := node.all_input_nodes[0]):
            continue
        axes = cast("Sequence[int]", node.args[1])
        data = cast("Tensor", get_param_tensor(program, source))
        name = f"{source.name}_{'_'.join(map(str, axes))}"
        with module.graph.inserting_before(next(iter(module.graph.nodes))):
            made = create_constant_placeholder(
                program, module.graph, name, InputKind.PARAMETER, data.permute(*axes).contiguous()
            )
        made.meta = {**source.meta, "val": made.meta["val"]}
        node.replace_all_uses_with(made)
        module.graph.erase_node(node)
        if not source.users:
            delete_constant_placeholder(program, source)
