"""Turns the variables of a program, its last inputs and outputs, into ExecuTorch's mutable buffers."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from deuteron.errors import InternalError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager.variables import Variable
from deuteron.frontend.operators import called, is_dequantize, is_quantize
from deuteron.frontend.upstream import access, private_apis

Affine = tuple[Any, ...]
"""Arguments of a quantize operator after the value: scale, zero point, range and dtype."""

_VIEWS = frozenset({"view", "view_copy", "unsqueeze", "unsqueeze_copy", "squeeze", "squeeze_copy", "alias", "detach"})
"""Operators whose results ExecuTorch may give the memory of their operand."""


def remove_copies(model: fx.GraphModule, count: int) -> None:
    """Remove copies of the last `count` inputs of a model whose operators write into no operand."""
    placeholders = [node for node in model.graph.nodes if node.op == "placeholder"]
    for node in placeholders[-count:] if count else ():
        for user in list(node.users):
            if user.target is torch.ops.aten.clone.default:
                user.replace_all_uses_with(node)
                model.graph.erase_node(user)
    model.recompile()


def store_quantized(program: ExportedProgram, count: int) -> Mapping[int, Affine]:
    """Let an edge program take and return those of its last `count` values quantized that it quantizes alike at both.

    Returns:
        The quantization of each such value, by its number.
    """
    found: dict[int, Affine] = {}
    output = program.graph.output_node()
    outputs = cast("list[fx.Node]", list(flat(output.args[0])))
    inputs = _inputs(program)[-count:] if count else []
    affines = [_read_as(node) for node in inputs]
    for index, (before, affine) in enumerate(zip(inputs, affines, strict=True)):
        at = len(outputs) - count + index
        after = outputs[at]
        stored = after.args[0] if is_dequantize(after) and _affine(after) == affine else None
        if affine is None or stored is None:
            continue
        found[index] = affine
        outputs[at] = cast(fx.Node, stored)
        program.graph_signature.output_specs[at].arg.name = outputs[at].name
        for user in [user for user in before.users if is_quantize(user)]:
            before.meta["val"] = user.meta["val"]
            user.replace_all_uses_with(before)
            outputs = [before if node is user else node for node in outputs]
            for spec in program.graph_signature.output_specs:
                spec.arg.name = before.name if spec.arg.name == user.name else spec.arg.name
            program.graph.erase_node(user)
    output.args = (tuple(outputs),)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return found


def _inputs(program: ExportedProgram) -> list[fx.Node]:
    """Return the nodes of the program's inputs, without weights and constants."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return [nodes[str(name)] for name in program.graph_signature.user_inputs]


def _read_as(node: fx.Node) -> Affine | None:
    """Return the quantization in which all operators read an input; None if they read it in several ways."""
    found = {_affine(user) if is_quantize(user) else None for user in node.users if user.op != "output"}
    return found.pop() if len(found) == 1 else None


def _affine(node: fx.Node) -> Affine:
    return tuple(node.args[1:6])


def write_into(edge: Any, variables: Sequence[Variable], affines: Mapping[int, Affine]) -> None:
    """Turn the variables of a lowered program into mutable buffers; `edge` is ExecuTorch's manager of it."""
    from executorch.exir.dialects._ops import ops as dialects

    clone: Any = getattr(cast(Any, dialects).edge.dim_order_ops, "_clone_dim_order").default  # noqa: B009
    programs: dict[str, ExportedProgram] = getattr(edge, "_edge_programs")  # noqa: B009
    for name, program in programs.items():
        programs[name] = write(program, variables, affines, clone)


def write(
    program: ExportedProgram, variables: Sequence[Variable], affines: Mapping[int, Affine], clone: Callable[..., Any]
) -> ExportedProgram:
    """Return a program whose last inputs and outputs are mutable buffers with initial values.

    Args:
        program: takes and returns the variables.
        variables: its last inputs and outputs.
        affines: the quantization of those that it stores quantized, by their numbers.
        clone: the operator of the program's dialect that copies a tensor.
    """
    if not variables:
        return program
    count, graph, signature = len(variables), program.graph, program.graph_signature
    inputs = _inputs(program)
    inputs, buffers = inputs[:-count], inputs[-count:]
    output = graph.output_node()
    outputs = cast("list[fx.Node]", list(flat(output.args[0])))
    first = len(outputs) - count
    for index, node in enumerate(outputs):
        is_own = index >= first and node is buffers[index - first]
        # ExecuTorch takes a buffer that is written as it is for one that operators change in place.
        is_constant = index >= first and node.op == "placeholder"
        if not is_own and (is_constant or _is_alias(node, buffers)):
            with graph.inserting_before(output):
                outputs[index] = graph.call_function(clone, (node,))
            outputs[index].meta = dict(node.meta)
    outputs, values = outputs[:-count], outputs[-count:]
    for index, (before, after) in enumerate(zip(buffers, values, strict=True)):
        dtype = before.meta["val"].dtype
        if after.meta["val"].dtype == torch.int32 and dtype == torch.int64:  # as Arm's backend computes integers
            with graph.inserting_before(output):
                values[index] = graph.call_function(torch.ops.aten._to_copy.default, (after,), {"dtype": dtype})  # noqa: SLF001 - its name
            values[index].meta = {**after.meta, "val": after.meta["val"].to(dtype)}
    for node in buffers:  # before the inputs, as the verifier of exported programs wants it
        (inputs[0] if inputs else buffers[0]).prepend(node)
    taken = {*program.state_dict, *program.constants}
    fqns = [_free(one.name, taken) for one in variables]
    state = dict(program.state_dict)
    for index, (name, one, before, after) in enumerate(zip(fqns, variables, buffers, values, strict=True)):
        state[name] = _stored(one.initial, affines.get(index))
        dtypes = state[name].dtype, before.meta["val"].dtype, after.meta["val"].dtype
        if len(set(dtypes)) != 1:
            raise InternalError(
                f"the variable `{one.name}` has the dtypes {', '.join(map(str, dtypes))} in one program"
            )
        before.meta["et_init_buffer"] = True  # ExecuTorch's `InitializedMutableBufferPass`: the program has its value
    old = {spec.arg.name: spec for spec in signature.input_specs}
    specs = {node.name: InputSpec(InputKind.BUFFER, TensorArgument(node.name), name, True) for node, name in
             zip(buffers, fqns, strict=True)}  # fmt: skip
    output.args = ((*values, *outputs),)
    changed = [OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), name) for node, name in
               zip(values, fqns, strict=True)]  # fmt: skip
    kept = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in outputs]
    graph.lint()
    entry = program.module_call_graph[0]
    call: Any = entry.signature
    call.inputs, call.outputs = call.inputs[: len(inputs)], call.outputs[: len(outputs)]
    call.in_spec = pytree.tree_structure((tuple(range(len(inputs))), {}))
    call.out_spec = pytree.tree_structure(tuple(range(len(outputs))))
    call.forward_arg_names = call.forward_arg_names and call.forward_arg_names[: len(inputs)]
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    example = program.example_inputs
    constraints: Any = cast(Any, program).range_constraints
    return ExportedProgram(
        program.graph_module,
        graph,
        ExportGraphSignature([specs.get(node.name) or old[node.name] for node in placeholders], [*changed, *kept]),
        state,
        constraints,
        program.module_call_graph,
        None if example is None else (example[0][: len(inputs)], {}),
        program.constants,
        verifiers=program.verifiers,
    )


@contextmanager
def emitted() -> Generator[None]:
    """Let ExecuTorch emit mutable buffers with their own initial values in this context.

    ExecuTorch looks for equal bytes among the constants, and takes a constant's number for that of an initial value.
    """

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def emit(emitter: Any, spec: Any, *args: Any, **kwargs: Any) -> Any:
            program = emitter.program_state
            constants = program.cached_spec_hash_values
            if spec.mem_id is not None:
                program.cached_spec_hash_values = {}
            try:
                return original(emitter, spec, *args, **kwargs)
            finally:
                program.cached_spec_hash_values = constants

        return emit

    with access.replaced(private_apis.EMIT_TENSOR, wrapped):
        yield


def _is_alias(node: fx.Node, buffers: Sequence[fx.Node]) -> bool:
    """True for an output that may have the memory of a buffer, into which the end of the run writes."""
    while called(node) in _VIEWS:
        node = node.all_input_nodes[0]
    return node in buffers


def _free(name: str, taken: set[str]) -> str:
    while name in taken or any(other.startswith(f"{name}.") for other in taken):
        name += "_"
    taken.add(name)
    return name


def _stored(value: Tensor, affine: Affine | None) -> Tensor:
    if affine is None:
        return value.clone()
    return torch.ops.quantized_decomposed.quantize_per_tensor.default(value, *affine)
