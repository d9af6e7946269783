"""Writes complex numbers as pairs of real ones, and Fourier transforms as linear layers."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.frontend.operators import called, changes_operand
from deuteron.frontend.quantize.decompositions import call, constant, constant_value
from deuteron.frontend.quantize.fourier import TRANSFORMS
from deuteron.frontend.quantize.inplace import last_writes, storage_of

aten = torch.ops.aten

Pair = tuple[fx.Node, fx.Node]
"""The real and imaginary part of a tensor."""

_NAMES = """
_unsafe_view add alias cat clone contiguous detach expand flatten flip index index_select lift_fresh_copy mean movedim
neg permute repeat reshape roll select slice squeeze stack sub sum t transpose unsqueeze view zero
"""
_OF_PARTS = frozenset(_NAMES.split())
"""Operators that compute each part of a result of the same parts of their operands, in place too."""

_WRITES = frozenset({"copy", "fill"})
"""Operators whose rules write into the parts themselves."""

_PRODUCTS = frozenset({"bmm", "einsum", "matmul", "mm", "mul"})
"""Operators that are linear in each of two operands."""


def write(model: fx.GraphModule, *, weights: bool = False) -> fx.Node | None:
    """Replace complex tensors, unless a model returns some or has an operator without a rule; return that operator.

    With `weights`, an operator without a rule may become a constant where it depends on weights only.
    """
    pass_ = _Pass(model, weights)
    nodes = list(model.graph.nodes)
    if not any(map(_is_to_write, nodes)):
        return None
    for node in nodes:
        is_concerned = _is_to_write(node) or any(arg in pass_.pairs for arg in node.all_input_nodes)
        if is_concerned and node.op != "output" and not pass_.visit(node):
            return node
    if any(arg in pass_.pairs for arg in model.graph.output_node().all_input_nodes):
        return None
    for node, real in pass_.reals.items():
        node.replace_all_uses_with(real)
    for node in reversed(nodes):
        if node in pass_.pairs or node in pass_.reals or node in pass_.done:
            model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    model.recompile()
    return None


class _Pass:
    """The parts of the complex tensors so far, and the real tensors that were computed of complex ones."""

    def __init__(self, model: fx.GraphModule, weights: bool) -> None:
        self.model, self._folds = model, weights
        self.pairs = dict[fx.Node, Pair]()
        self.reals = dict[fx.Node, fx.Node]()
        self.done = set[fx.Node]()
        self.order = {node: index for index, node in enumerate(model.graph.nodes)}
        self.written = last_writes(model)

    def visit(self, node: fx.Node) -> bool:
        """Add the parts of a node, or the real tensor; False if there is no rule for it."""
        if called(node) == "_assert_tensor_metadata":
            self.done.add(node)
            return True
        result = self._parts(node)
        if result is None and self._folds:
            result = self._folded(node)
        if result is not None and self._is_written(node):
            result = self._own(node, result)
        if isinstance(result, tuple):
            self.pairs[node] = result
        elif result is not None:
            self.reals[node] = result
        return result is not None

    def _is_written(self, node: fx.Node) -> bool:
        """True if a later operator writes into the memory of a node or of its operands."""
        memories = map(_storage, (node, *node.all_input_nodes))
        return any(self.written.get(memory, -1) > self.order[node] for memory in memories)

    def _own(self, node: fx.Node, result: Pair | fx.Node) -> Pair | fx.Node | None:
        """Return parts that share memory as the complex tensors do; None if the parts of a view are copies.

        In-place operators change a tensor and its views, but not copies of it.
        """
        arguments = node.all_input_nodes
        is_view = any(_storage(node) == _storage(arg) for arg in arguments)
        memories = {_storage(part) for arg in arguments for part in (arg, *self.pairs.get(arg, ()))}
        parts = result if isinstance(result, tuple) else (result,)
        if is_view and called(node) != "lift_fresh_copy" and not all(_storage(part) in memories for part in parts):
            return None
        own = [
            call(node, aten.clone.default, part) if not is_view and _storage(part) in memories else part
            for part in parts
        ]
        return (own[0], own[1]) if isinstance(result, tuple) else own[0]

    def _parts(self, node: fx.Node) -> Pair | fx.Node | None:
        if not _is_complex(node) or node.op != "call_function":
            value = constant_value(self.model, node) if node.op == "get_attr" else None
            return self._constants(node, value) if value is not None else self._real(node)
        if not any(arg in self.pairs for arg in node.all_input_nodes):
            value = None if node.all_input_nodes else cast(Any, node.target)(*node.args, **node.kwargs)
            if isinstance(value, Tensor):
                real, imaginary = (call(node, aten.clone.default, part) for part in self._constants(node, value))
                return real, imaginary
        name = called(node)
        if name in TRANSFORMS:
            return TRANSFORMS[name](self.model, node, self._pair)
        if name in _OF_PARTS:
            return self._each(node)
        if name in _PRODUCTS and len(node.args) == 2:
            result = self._product(node)
        else:
            rule = _RULES.get(name)
            result = None if rule is None else rule(node, self._pair)
        if result is None or not changes_operand(node) or name in _WRITES:
            return result
        # Both parts are computed of the old ones.
        a, b = self._pair(node.args[0])
        return call(node, aten.copy_.default, a, result[0]), call(node, aten.copy_.default, b, result[1])

    def _folded(self, node: fx.Node) -> Pair | fx.Node | None:
        """Return the parts, or the real tensor, of a node that depends on no input."""
        value = constant_value(self.model, node)
        if value is None or value.is_complex():
            return None if value is None else self._constants(node, value)
        return constant(self.model, node, node.name, value)

    def _real(self, node: fx.Node) -> fx.Node | None:
        """Return a real tensor that is computed of complex ones."""
        name = called(node)
        if name in TRANSFORMS:
            return cast("fx.Node | None", TRANSFORMS[name](self.model, node, self._pair))
        rule = _REALS.get(name)
        return None if rule is None else rule(node, *self._pair(cast(fx.Node, node.args[0])))

    def _constants(self, node: fx.Node, value: Tensor) -> Pair:
        return (
            constant(self.model, node, f"{node.name}_real", value.real),
            constant(self.model, node, f"{node.name}_imag", value.imag if value.is_complex() else value * 0),
        )

    def _pair(self, one: Any) -> tuple[Any, Any]:
        """Return the parts of an operand; those of a real one are itself and 0."""
        if isinstance(one, fx.Node):
            return self.pairs.get(one, (one, 0))
        return (one.real, one.imag) if isinstance(one, complex) else (one, 0)

    def _each(self, node: fx.Node) -> Pair | None:
        if any(arg not in self.pairs and not _is_index(arg) for arg in node.all_input_nodes):
            return None
        if called(node) in ("add", "sub") and not all(isinstance(arg, fx.Node) for arg in node.args[:2]):
            return None  # a number changes one part alone

        def part(number: int) -> fx.Node:
            args = map_arg(cast(Any, node.args), lambda one: self.pairs[one][number] if one in self.pairs else one)
            return call(node, node.target, *args, **node.kwargs)

        return part(0), part(1)

    def _product(self, node: fx.Node) -> Pair | None:
        is_einsum = called(node) == "einsum"
        operands, target = cast("tuple[Any, Any]", node.args[1] if is_einsum else node.args), _functional(node)
        if len(operands) != 2:
            return None
        first, second = operands

        def product(a: Any, b: Any) -> fx.Node | None:
            if _is_zero(a) or _is_zero(b):
                return None
            return call(node, target, node.args[0], [a, b]) if is_einsum else call(node, target, a, b)

        (a, b), (c, d) = self._pair(first), self._pair(second)
        if not isinstance(a, fx.Node):
            (a, b), (c, d) = (c, d), (a, b)
        return (
            _sum(node, aten.sub.Tensor, product(a, c), product(b, d), a),
            _sum(node, aten.add.Tensor, product(a, d), product(b, c), a),
        )


def _is_to_write(node: fx.Node) -> bool:
    """True for a complex tensor, and for a Fourier transform, which may be one from real numbers to real ones."""
    return _is_complex(node) or called(node) in TRANSFORMS


def _is_complex(node: fx.Node) -> bool:
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and value.is_complex()


def _storage(node: fx.Node) -> int:
    return storage_of(node.meta["val"])


def _functional(node: fx.Node) -> object:
    """Return the variant of an operator that does not work in place."""
    target = cast(Any, node.target)
    return getattr(getattr(aten, called(node)), target._overloadname)  # noqa: SLF001 - it has no public name


def _is_index(node: fx.Node) -> bool:
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex())


def _is_zero(one: Any) -> bool:
    return not isinstance(one, fx.Node) and one == 0


def _sum(node: fx.Node, operator: object, a: fx.Node | None, b: fx.Node | None, like: fx.Node) -> fx.Node:
    """Return a sum or difference of products, of which one or both may be zero."""
    if b is None:
        return call(node, aten.mul.Tensor, like, 0.0) if a is None else a
    if a is None:
        return call(node, aten.neg.default, b) if operator is aten.sub.Tensor else b
    return call(node, operator, a, b)


def _is_zeros(node: fx.Node) -> bool:
    return node.target is aten.mul.Tensor and _is_zero(node.args[1])


Parts = Callable[[Any], tuple[Any, Any]]


def _joined(node: fx.Node, _: Parts) -> Pair:
    x = node.args[0]
    return call(node, aten.select.int, x, -1, 0), call(node, aten.select.int, x, -1, 1)


def _polar(node: fx.Node, _: Parts) -> Pair:
    length, angle = cast("tuple[fx.Node, fx.Node]", node.args)
    return _turned(node, length, angle)


def _turned(node: fx.Node, length: fx.Node, angle: fx.Node) -> Pair:
    cos, sin = (call(node, one, angle) for one in (aten.cos.default, aten.sin.default))
    return call(node, aten.mul.Tensor, length, cos), call(node, aten.mul.Tensor, length, sin)


def _exponential(node: fx.Node, parts: Parts) -> Pair | None:
    real, imaginary = parts(node.args[0])
    if not isinstance(imaginary, fx.Node):
        return None
    if _is_zeros(real):
        return call(node, aten.cos.default, imaginary), call(node, aten.sin.default, imaginary)
    return _turned(node, call(node, aten.exp.default, real), imaginary)


def _conjugate(node: fx.Node, parts: Parts) -> Pair:
    real, imaginary = parts(node.args[0])
    return real, call(node, aten.neg.default, imaginary)


def _quotient(node: fx.Node, parts: Parts) -> Pair | None:
    (a, b), (c, d) = parts(node.args[0]), parts(node.args[1])
    if not _is_zero(d) or not isinstance(b, fx.Node):
        return None
    target = _functional(node)
    return call(node, target, a, c), call(node, target, b, c)


def _written(node: fx.Node, parts: Parts) -> Pair:
    (a, b), (c, d) = parts(node.args[0]), parts(node.args[1])
    operators = [aten.copy_.default if isinstance(one, fx.Node) else aten.fill_.Scalar for one in (c, d)]
    return call(node, operators[0], a, c), call(node, operators[1], b, d)


def _converted(node: fx.Node, parts: Parts) -> Pair:
    real, imaginary = parts(node.args[0])
    if isinstance(imaginary, fx.Node):
        return real, imaginary
    real = real if real.meta["val"].is_floating_point() else call(node, aten.to.dtype, real, torch.float32)
    return real, call(node, aten.mul.Tensor, real, 0.0)


def _length(node: fx.Node, real: fx.Node, imaginary: Any) -> fx.Node | None:
    if not isinstance(imaginary, fx.Node):
        return None
    squares = [call(node, aten.mul.Tensor, part, part) for part in (real, imaginary)]
    return call(node, aten.sqrt.default, call(node, aten.add.Tensor, *squares))


_RULES: Mapping[str, Callable[[fx.Node, Parts], Pair | None]] = {
    "view_as_complex": _joined,
    "complex": lambda node, _: cast(Pair, node.args),
    "polar": _polar,
    "exp": _exponential,
    **dict.fromkeys(("_conj", "conj", "conj_physical"), _conjugate),
    "div": _quotient,
    **dict.fromkeys(_WRITES, _written),
    **dict.fromkeys(("resolve_conj", "resolve_neg", "to", "type_as"), _converted),
}

_REALS: Mapping[str, Callable[[fx.Node, fx.Node, Any], fx.Node | None]] = {
    "view_as_real": lambda node, a, b: call(node, aten.stack.default, [a, b], -1),
    "real": lambda _, a, __: a,
    "imag": lambda _, __, b: b,
    "abs": _length,
    "angle": lambda node, a, b: call(node, aten.atan2.default, b, a),
}
