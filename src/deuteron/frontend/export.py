"""Checks what `torch.export` and Deuteron require of a model, with errors that a user can act on."""

from typing import Any, cast

import torch
from torch import fx
from torch.fx.node import map_arg

from deuteron.builds.manifest import Source
from deuteron.builds.user_frames import last_user_line
from deuteron.errors import InputError, UnsupportedError
from deuteron.frontend.operators import called, operator_name
from deuteron.frontend.quantize import linear_algebra
from deuteron.frontend.source_lines import first_line, source_of, user_line_of

BRANCHES = "compute both branches and select with `torch.where`; give a loop a fixed number of steps"

PACKED = (
    "give the recurrent layer the padded tensor itself: a program runs a fixed number of steps; select the outputs of "
    "shorter sequences by a mask"
)

DROPS = "pass `training=self.training`, or use `torch.nn.Dropout`: neither drops anything in evaluation mode"

DRAWS = "draw the numbers once, when the model is created, and keep them as a buffer, or pass them as an input"

MEASURES = (
    "a program runs one batch of fixed size: build with trained statistics (`track_running_stats=True`) in evaluation "
    "mode, or use `nn.GroupNorm` or `nn.InstanceNorm2d`, which normalise each sample"
)

KEEPS = (
    "keep it in a buffer, a tensor whose shape stays the same, or take it as an input and return its new value: the "
    "application then keeps the value between runs"
)

FIXED_SHAPES = (
    "every shape must be known when compiling: remove dynamic dimensions, and replace operators whose result size "
    "depends on data by ones of fixed size, such as `y[mask]` by `torch.where(mask, y, 0)`"
)

DERIVES = "write the derivative with operators, or compute it outside of the model: a program runs no backward pass"


class StateError(UnsupportedError):
    """A run of the model depends on earlier runs in a way that is not supported."""


def changed_state(path: str, source: Source | None) -> StateError:
    """Return the error for an attribute or variable that a run changes and later runs read."""
    at = f", at `{source.code}`" if source else ""
    return StateError(
        f"a run of the model changes the {path}, and later runs read it{at}",
        where=str(source) if source else None,
        hint=KEEPS,
    )


def not_exported(error: Exception) -> InputError:
    """Return the error for a model that `torch.export` cannot export."""
    line = last_user_line(str(error)) or user_line_of(error)
    what = first_line(error)
    hint = "`torch.export.export(model, example_inputs, strict=True)` must work; it prints the details"
    if "data-dependent" in what.lower() or "data dependent" in what.lower():
        what, hint = "Data-dependent branching", BRANCHES
    elif "unbacked symbols" in what:
        what, hint = "the shape of a value depends on data", FIXED_SHAPES
    elif "autograd.grad" in what or (line and (".backward(" in line[2] or "autograd.grad(" in line[2])):
        what, hint = "it computes gradients", DERIVES
    elif line and "pack" in line[2] and "_sequence(" in line[2]:
        what, hint = "packed sequences have sizes that depend on data", PACKED
    elif "torch.jit" in what:
        hint = "use the module as it is before `torch.jit.script`, `torch.jit.trace` or `torch.jit.freeze`"
    return InputError(
        f"PyTorch cannot export this model: {what}{f', at `{line[2]}`' if line else ''}",
        where=f"{line[0]}:{line[1]}" if line else None,
        hint=hint,
    )


def check_fixed_inputs(model: fx.GraphModule) -> None:
    """Check that the inputs of an exported model have fixed shapes.

    Raises:
        UnsupportedError: a shape was declared dynamic.
    """
    for node in model.graph.find_nodes(op="placeholder"):
        if isinstance(value := node.meta.get("val"), torch.Tensor):
            _need_fixed_shape(node, value)


def check_exported(model: fx.GraphModule, *, takes_complex: bool, without_rule: fx.Node | None = None) -> None:
    """Check that an exported model has fixed shapes and float32 floats, or complex numbers if `takes_complex`.

    `without_rule` is the operator because of which complex numbers are left.

    Raises:
        UnsupportedError: a shape depends on data or was declared dynamic, an output has no elements, floats are not
            float32, or an operator inverts or decomposes a matrix that the model computes from its inputs.
    """
    for node in model.graph.nodes:
        value: object = node.meta.get("val")
        if called(node) in _MATRIX_FUNCTIONS and not _has_formula(node) and _depends_on_inputs(node):
            raise _no_matrix_function(node)
        if isinstance(value, torch.Tensor):
            _need_fixed_shape(node, value)
            if value.dtype != torch.float32 and (
                value.is_floating_point() or (value.is_complex() and not takes_complex)
            ):
                raise _no_float32(node, value, without_rule if value.is_complex() else None)
    outputs: list[fx.Node] = []
    map_arg(model.graph.output_node().args, outputs.append)
    for index, node in enumerate(outputs):
        _need_elements(node, index)


_NAMES_OF_MATRIX_FUNCTIONS = """
_linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd cholesky det inverse linalg_cholesky
linalg_cholesky_ex linalg_det linalg_eigh linalg_inv linalg_inv_ex linalg_lstsq linalg_lu_factor linalg_matrix_exp
linalg_pinv linalg_qr linalg_solve linalg_solve_ex linalg_svd matrix_exp
"""
_MATRIX_FUNCTIONS = frozenset(_NAMES_OF_MATRIX_FUNCTIONS.split())
"""Operators that invert or decompose a matrix, or solve equations."""


def _has_formula(node: fx.Node) -> bool:
    """True for a determinant or an inverse of few rows."""
    rows = cast(fx.Node, node.args[0]).meta["val"]
    return node.target in linear_algebra.FORMS and rows.shape[-1] <= linear_algebra.MOST_ROWS


def _depends_on_inputs(node: fx.Node) -> bool:
    """True for a value that weights and buffers alone do not decide."""
    seen, left = set[fx.Node](), [node]
    while left:
        one = left.pop()
        if one.op == "placeholder":
            return True
        left += (each for each in one.all_input_nodes if each not in seen)
        seen.update(one.all_input_nodes)
    return False


def _no_matrix_function(node: fx.Node) -> UnsupportedError:
    source = source_of(node)
    return UnsupportedError(
        f"`{called(node)}` inverts or decomposes a matrix, which no target computes"
        f"{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint="compute it in the application, or before the build if the matrix is constant; use a determinant "
        "or an inverse of at most three rows, which are computed by their formulas",
    )


def _need_fixed_shape(node: fx.Node, value: torch.Tensor) -> None:
    if any(isinstance(dim, torch.SymInt) for dim in value.shape):
        source = source_of(node)
        what = f"input `{node.name}`" if node.op == "placeholder" else f"the result of `{node.name}`"
        raise UnsupportedError(
            f"{what} has the dynamic shape [{', '.join(_text(dim) for dim in value.shape)}]"
            f"{f', at `{source.code}`' if source else ''}",
            where=str(source) if source else None,
            hint=FIXED_SHAPES,
        )


def _need_elements(output: fx.Node, index: int) -> None:
    value: object = output.meta.get("val")
    if isinstance(value, torch.Tensor) and 0 in value.shape:
        source = source_of(output)
        what = f"output {index} has no elements, its shape is {list(value.shape)}"
        raise UnsupportedError(
            f"{what}{f', at `{source.code}`' if source else ''}",
            where=str(source) if source else None,
            hint="return only what has elements; a slice from a dimension's size on, as `y[:, 4:]` of 4 channels, "
            "has none",
        )


_TWO_PARTS = "compute with the real and the imaginary part as two tensors of float32"


def _no_float32(node: fx.Node, value: torch.Tensor, without_rule: fx.Node | None) -> UnsupportedError:
    if without_rule is not None:
        source = source_of(without_rule)
        return UnsupportedError(
            f"`{operator_name(without_rule.target)}` of complex numbers is not supported"
            f"{f', at `{source.code}`' if source else ''}",
            where=str(source) if source else None,
            hint=_TWO_PARTS,
        )
    source = next(filter(None, map(source_of, (node, *node.users))), None)  # a constant has the line of its first use
    what = f"weight or constant `{node.target}`" if node.op == "get_attr" else f"the result of `{node.name}`"
    hint = "quantization starts from float32: compute in it alone"
    if value.is_complex():
        hint = _TWO_PARTS
    if called(node) == "float_power":
        widens = "`float_power` computes in float64 whatever it is given, quantization starts from float32"
        hint = f"{widens}: write `{_power(node)}`"
    return UnsupportedError(
        f"{what} is {str(value.dtype).removeprefix('torch.')}{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint=hint,
    )


def _power(node: fx.Node) -> str:
    """Return a power as Python code of tensors `x` and `y`; most exponents are numbers."""
    names = iter("xy")
    base, exponent = (next(names) if isinstance(value, fx.Node) else str(value) for value in node.args)
    return f"({base}) ** {exponent}" if base.startswith("-") else f"{base} ** {exponent}"


def check_norms(model: fx.GraphModule) -> None:
    """Check that batch norms use the statistics that they were trained with.

    Raises:
        UnsupportedError: for the first batch norm that computes the statistics of its input batch.
    """
    for node in model.graph.nodes:
        if called(node) == "batch_norm" and node.args[5]:
            source = source_of(node)
            raise UnsupportedError(
                f"`{operator_name(node.target)}` computes mean and variance of its input batch"
                f"{f', at `{source.code}`' if source else ''}",
                where=str(source) if source else None,
                hint=MEASURES,
            )


def check_repeatable(model: fx.GraphModule) -> None:
    """Check that an exported model returns the same outputs for the same inputs.

    Raises:
        UnsupportedError: an operator draws random numbers, or changes a buffer that the model reads.
    """
    for node in model.graph.nodes:
        if _draws(node):
            source, name = source_of(node), operator_name(node.target)
            raise UnsupportedError(
                f"`{name}` returns other values in each run{f', at `{source.code}`' if source else ''}",
                where=str(source) if source else None,
                hint=DROPS if "dropout" in name else DRAWS,
            )
        if node.op == "get_attr":
            _need_unchanged(node)


def _need_unchanged(buffer: fx.Node) -> None:
    """Refuse a change of a buffer that other operators read; a counter that nothing reads may change."""
    aliases, changes, is_read = [buffer], list[fx.Node](), False
    for alias in aliases:
        for user in alias.users:
            is_change, is_alias = _writes(user, alias), _is_alias(user, alias)
            if is_change:
                changes.append(user)
            if is_alias:
                aliases.append(user)
            is_read = is_read or not (is_change or is_alias)
    if changes and is_read:
        source = source_of(changes[0])
        raise UnsupportedError(
            f"`{operator_name(changes[0].target)}` changes the buffer `{buffer.target}` in each run"
            f"{f', at `{source.code}`' if source else ''}",
            where=str(source) if source else None,
            hint=KEEPS,
        )


def _writes(node: fx.Node, arg: fx.Node) -> bool:
    """True for an operator that changes an argument in place."""
    schema: Any = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    values = {**dict(zip((argument.name for argument in schema.arguments), node.args, strict=False)), **node.kwargs}
    return any(
        argument.alias_info is not None and argument.alias_info.is_write and values.get(argument.name) is arg
        for argument in schema.arguments
    )


def _is_alias(node: fx.Node, arg: fx.Node) -> bool:
    """True for an operator whose result may share memory with its first argument; a result of another dtype cannot."""
    schema: Any = getattr(node.target, "_schema", None)
    value: object = node.meta.get("val")
    if schema is None or node.args[0] is not arg or not isinstance(value, torch.Tensor):
        return False
    return schema.returns[0].alias_info is not None and value.dtype == arg.meta["val"].dtype


def _draws(node: fx.Node) -> bool:
    """True if this call draws random numbers; some operators draw them in training only."""
    target: Any = node.target
    if torch.Tag.nondeterministic_seeded not in getattr(target, "tags", ()):
        return False
    values = {argument.name: argument.default_value for argument in target._schema.arguments}  # noqa: SLF001
    values.update(zip(values, node.args, strict=False), **node.kwargs)
    draws = all(values.get(name, True) for name in ("train", "training", "dropout", "dropout_p"))
    return draws and not ("dropout" in target._schema.name and values.get("p") == 0)  # noqa: SLF001


def _text(dim: int | torch.SymInt) -> str:
    """A dimension as text; `?` for a symbolic one, because PyTorch's names for these change from run to run."""
    return "?" if isinstance(dim, torch.SymInt) else str(dim)
