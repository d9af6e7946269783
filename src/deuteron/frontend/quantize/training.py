"""Quantization-aware training: prepares the model and runs the user's training function."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import fx, nn

from deuteron.errors import DeuteronError, InputError
from deuteron.frontend.source_lines import first_line, source_of, user_line_of

aten = torch.ops.aten

Train = Callable[[fx.GraphModule], object]
"""A function that trains the given model in place and yields the loss of each step or epoch."""

YIELDS = "write a generator that trains the model it is given and says `yield loss.item()` after each step or epoch"
DIVERGES = "train with a lower learning rate, or clip the gradients"
_EVALUATED = {"training": False, "train": False, "dropout_p": 0.0}
"""Arguments of norms, recurrent layers and attention that differ in training."""

_RESHAPES = (aten.view.default, aten.reshape.default, aten.expand.default)


@dataclass(frozen=True, slots=True)
class Trainer:
    """The training step of ExecuTorch's recipe: runs the user's function.

    Attributes:
        train: the function.
        name: its name in errors.
        on_step: called with a text for every loss.
        losses: all losses.
    """

    train: Train
    name: str
    on_step: Callable[[str], None]
    losses: list[float] = field(default_factory=list[float])

    def __call__(self, model: fx.GraphModule) -> None:
        """Train the model.

        Raises:
            InputError: the function raises an exception, yields no losses, or makes weights that are not finite.
        """
        self.losses.clear()
        self.on_step("train")
        for loss in _each(_losses(_guarded(lambda: self.train(model), self.name), self.name), self.name):
            self.losses.append(loss)
            if not math.isfinite(loss):
                raise InputError(f"the loss is {loss} in step {len(self.losses)} of `{self.name}`", hint=DIVERGES)
            self.on_step(f"train, step {len(self.losses)}: loss {loss:.4g}")
        if not self.losses:
            raise InputError(f"`{self.name}` yielded no loss, so nothing was trained", hint=YIELDS)
        for weight, value in model.named_parameters():
            if not torch.isfinite(value).all():
                name, line = _named(model, weight)
                raise InputError(
                    f"the weight `{name}` holds values that are NaN or infinite after `{self.name}`",
                    where=line,
                    hint=DIVERGES,
                )


def _named(model: fx.GraphModule, weight: str) -> tuple[str, str | None]:
    """The user's name of a weight, such as `conv.weight`, and the line that uses it.

    Passes that trace a model again rename weights, but the nodes that use them still have their module.
    """
    value = next((node for node in model.graph.nodes if node.op == "get_attr" and node.target == weight), None)
    while value is not None and (user := next(iter(value.users), None)) is not None:
        if user.op == "call_function":
            source, schema = source_of(user), getattr(user.target, "_schema", None)
            if source is None or schema is None:
                break
            role = schema.arguments[user.args.index(value)].name if value in user.args else ""
            return (f"{source.module}.{role}" if source.module and role else weight), str(source)
        value = user  # an observer
    return weight, None


def _losses(result: object, name: str) -> Iterator[object]:
    """Return an iterator over the losses that the function returned."""
    if result is None:
        raise InputError(f"`{name}` returned nothing", hint=YIELDS)
    if isinstance(result, nn.Module) or not isinstance(result, Iterable):
        raise InputError(f"`{name}` returned a value of type `{type(result).__name__}`, not losses", hint=YIELDS)
    return iter(cast("Iterable[object]", result))


def _each(steps: Iterator[object], name: str) -> Iterator[float]:
    """Yield the losses as numbers."""
    end = object()
    while (loss := _guarded(lambda: next(steps, end), name)) is not end:
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            loss = loss.item()
        if not isinstance(loss, int | float):
            raise InputError(
                f"`{name}` yielded a value of type `{type(loss).__name__}` for a loss",
                hint="yield a number, for example `loss.item()`",
            )
        yield float(loss)


def _guarded(code: Callable[[], object], name: str) -> object:
    """Return the result of the user's code; convert its exceptions into errors with the user's line."""
    try:
        return code()
    except DeuteronError:
        raise
    except Exception as e:
        line = user_line_of(e)
        raise InputError(
            f"`{name}` raised {type(e).__name__}: {first_line(e)}{f', at `{line[2]}`' if line else ''}",
            where=f"{line[0]}:{line[1]}" if line else None,
            hint="it gets the model as a graph module with the same arguments and must train it in place",
        ) from e


def evaluate(model: fx.GraphModule) -> None:
    """Make an exported model compute in training as in evaluation mode, because evaluation mode is what will run.

    Batch norms compute no statistics, so that they can be folded into the layers before them. Dropouts are removed.
    """
    for node in list(model.graph.nodes):
        schema: Any = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None:
            continue
        x = cast(fx.Node, node.args[0] if node.args else node)
        counts = node.target is aten.add_.Tensor and x.op == "get_attr"  # the batch counter of a norm
        if "dropout" in schema.name:
            node.replace_all_uses_with(x)
        if "dropout" in schema.name or (counts and not node.users):
            model.graph.erase_node(node)
            continue
        for index, argument in enumerate(schema.arguments[: len(node.args)]):
            if argument.name in _EVALUATED:
                node.args = (*node.args[:index], _EVALUATED[argument.name], *node.args[index + 1 :])
    model.recompile()


def free_batch(model: fx.GraphModule) -> None:
    """Make the first dimension of reshapes in an exported model dynamic, so that training can use any batch size.

    Most programs have a fixed batch of one sample, with which training would be slow.
    """
    for node in model.graph.nodes:
        shape = node.args[1] if node.target in _RESHAPES else None
        if isinstance(shape, list | tuple) and shape and "val" in node.meta and not _expands_first(node):
            node.update_arg(1, [-1, *node.meta["val"].shape[1:]])
    model.recompile()


def _expands_first(node: fx.Node) -> bool:
    """True if a tensor is repeated along its first dimension or gets a new one, which is no batch dimension."""
    if node.target is not aten.expand.default:
        return False
    before: object = node.all_input_nodes[0].meta.get("val")
    after: torch.Tensor = node.meta["val"]
    return not isinstance(before, torch.Tensor) or before.dim() != after.dim() or before.shape[0] != after.shape[0]
