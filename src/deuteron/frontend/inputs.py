"""Checks the module, the example inputs and the calibration batches of a user."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn.parameter import is_lazy

from deuteron.builds.user_frames import in_library
from deuteron.errors import InputError, counted

Inputs = tuple[Tensor, ...]
"""One value per argument of the module's `forward`."""


class First(tuple[Tensor, ...]):
    """The inputs of the first run of a sequence, before which variables have their initial values."""

    __slots__ = ()


def copies(inputs: Sequence[Tensor]) -> Inputs:
    """Copy the inputs for one run of a model, which may write into them."""
    return tuple(x.clone() for x in inputs)


def check_module(module: object) -> nn.Module | ExportedProgram:
    """Check that the model is a module or an exported program, and return it."""
    if not isinstance(module, nn.Module | ExportedProgram):
        kind = f"the class `{module.__name__}`" if isinstance(module, type) else f"of type `{type(module).__name__}`"
        raise InputError(
            f"the model is {kind}, not a `torch.nn.Module` object",
            hint="pass an instance, for example `MyNet()`; wrap a function in a module with a `forward` method",
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError(
            "the model is TorchScript, which PyTorch does not export",
            hint="pass the module from which `torch.jit.script` or `torch.jit.trace` made it",
        )
    _check_weights(module)
    return module


_PER_INPUT = (
    "a program has one tensor per input: give the build a module whose `forward` takes each tensor as an argument"
)
_NESTED = (
    f"{_PER_INPUT}, such as `forward(self, x, h, c)`, and calls the model with them, `return self.model(x, (h, c))`"
)
_IN_ORDER = "give a tuple of its tensors in the order of `forward`'s arguments"
_FLOATS = "quantization starts from float32: convert the model and its inputs with `.float()`"
_UNQUANTIZED = "pass the float model: a build quantizes it"


def _check_weights(module: nn.Module | ExportedProgram) -> None:
    """Check that a module has float32 parameters with values.

    Raises:
        InputError: naming the first that has none, is of another dtype, or is quantized.
    """
    if isinstance(module, nn.Module):
        for name, part in cast("list[tuple[str, nn.Module]]", [*cast(Any, module).named_modules()]):
            if type(part).__module__.startswith("torch.ao.nn.quantized"):
                layer = f"`{type(part).__module__}.{type(part).__qualname__}`"
                raise InputError(f"`{name}` of the model is quantized already: {layer}", hint=_UNQUANTIZED)
    for kind, named in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, value in named:
            if is_lazy(value):
                continue  # `eager.observe.copied` names it
            _need_values(value, f"the {kind} `{name}` of the model", "load its values")
            if kind == "parameter" and value.is_floating_point() and value.dtype != torch.float32:
                dtype = str(value.dtype).removeprefix("torch.")
                raise InputError(f"the parameter `{name}` of the model is {dtype}; use float32", hint=_FLOATS)


def _need_values(value: Tensor, what: str, load: str) -> None:
    """Check that a tensor has plain values in the memory of this computer."""
    if value.device.type == "meta":
        raise InputError(f"{what} is on the device `meta`, and has no values", hint=f"{load} on the device `cpu`")
    if value.device.type != "cpu":
        raise InputError(
            f"{what} is on the device `{value.device}`", hint="move the model and its inputs with `.cpu()`"
        )
    if value.is_quantized:
        raise InputError(f"{what} is quantized already", hint=_UNQUANTIZED)
    if value.layout is not torch.strided:
        layout = str(value.layout).removeprefix("torch.")
        raise InputError(f"{what} has the layout `{layout}`", hint="convert it with `.to_dense()`")


def check_example_inputs(inputs: object, module: object = None) -> Inputs:
    """Return the example inputs as a tuple of tensors, one per argument of the module's `forward`.

    Raises:
        InputError: naming the input that cannot be used, at the line of `forward` in the user's code.
    """
    try:
        return _checked_examples(_as_tuple(inputs, "the example inputs are"))
    except InputError as e:
        raise e.relocate(_line_of_forward(module)) from None


def _line_of_forward(module: object) -> str | None:
    """Return file and line of the function that takes the inputs; None without one in the user's code."""
    code = getattr(inspect.unwrap(getattr(module, "forward", check_module)), "__code__", None)
    if code is None or code.co_filename.startswith("<") or in_library(code.co_filename):  # "<" of generated code
        return None
    return f"{code.co_filename}:{code.co_firstlineno}"


def _checked_examples(values: tuple[object, ...]) -> Inputs:
    if not values:
        raise InputError("there are no example inputs", hint="give one tensor per argument of `forward`")
    tensors: list[Tensor] = []
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise InputError(
                f"example input {i} is of type `{type(value).__name__}`, not a tensor",
                hint=_form_hint(value),
            )
        _need_values(value, f"example input {i}", "make it")
        if any(dim < 1 for dim in value.shape):
            raise InputError(f"example input {i} has shape {list(value.shape)}, with a dimension below 1")
        if value.is_complex() or (value.is_floating_point() and value.dtype != torch.float32):
            raise InputError(
                f"example input {i} is {str(value.dtype).removeprefix('torch.')}; use float32",
                hint=_FLOATS,
            )
        tensors.append(_in_order(value))
    _need_finite(tuple(tensors), "example input")
    return tuple(tensors)


def _form_hint(value: object) -> str:
    """Return the hint for an example input that is not a tensor."""
    if isinstance(value, Mapping):
        pairs = dict(zip("abcdefgh", cast("Mapping[object, object]", value), strict=False))
        listed = ", ".join(f"{key!r}: {name}" for name, key in pairs.items())
        return (
            f"{_PER_INPUT} and makes the dict, such as `forward(self, {', '.join(pairs)})` with "
            f"`return self.model({{{listed}}})`"
        )
    return _NESTED if isinstance(value, tuple | list) else "give one tensor per argument of `forward`, in a tuple"


def check_early(batches: Iterable[object], example: Inputs, time: int | None = None) -> Iterable[object]:
    """Check calibration batches before the build starts: all samples of a list, the first item of other iterables.

    Along dimension `time` they may have other sizes than the example.

    Raises:
        InputError: naming the batch that does not fit.
    """
    if isinstance(batches, list | tuple | Tensor | np.ndarray):
        return list(check_calibration(cast("Iterable[object]", batches), example, time))
    if not isinstance(cast(object, batches), Iterable):
        raise InputError(
            f"the calibration data is of type `{type(batches).__name__}`",
            hint="give a list, or anything else that can be iterated, of tensors or tuples of tensors",
        )
    head, batches = begun(batches, 1)
    for _ in check_calibration(head, example, time):
        pass
    return batches


class _Begun(Iterable[object]):
    """Batches whose first iteration continues after the first batches; further iterations restart the data loader."""

    def __init__(self, batches: Iterable[object], head: list[object], rest: Iterator[object]) -> None:
        self._batches, self._first = batches, (head, rest)

    def __iter__(self) -> Iterator[object]:
        if not self._first:
            return iter(self._batches)
        (head, rest), self._first = self._first, ()
        return chain(head, rest)


def begun(batches: Iterable[object], count: int) -> tuple[list[object], Iterable[object]]:
    """The first batches, so many at most, and all from the beginning."""
    if isinstance(batches, list | tuple):
        return list(cast("Sequence[object]", batches)[:count]), batches
    rest = iter(batches)
    head = list(islice(rest, count))
    return head, chain(head, rest) if rest is batches else _Begun(batches, head, rest)


def check_calibration(batches: Iterable[object], example: Inputs, time: int | None = None) -> Iterator[Inputs]:
    """Yield the calibration batches, each finite and with the number, shapes and dtypes of the example inputs.

    If the example is one sample, larger batches are split into samples. A list of tuples is a sequence of batches, of
    which the first is `First`. Along dimension `time` batches may have other sizes than the example.
    """
    is_whole = isinstance(batches, Tensor | np.ndarray) and batches.ndim == example[0].dim()
    count = 0
    for item in [cast(object, batches)] if is_whole else batches:
        is_sequence = _is_sequence(item)
        for number, batch in enumerate(cast("Sequence[object]", item) if is_sequence else [item]):
            name = f"calibration batch {count}"
            for part, sample in enumerate(_samples(_as_tuple(batch, f"{name} is"), example)):
                checked = _check_batch(sample, example, name, time)
                is_first = isinstance(batch, First) or (is_sequence and number == 0)
                yield First(checked) if is_first and part == 0 else checked
            count += 1
    if count == 0:
        raise InputError(
            "the calibration data holds no batches",
            hint="give a few dozen representative inputs: the ranges of all tensors come from them",
        )


def _is_sequence(item: object) -> bool:
    """Tell whether an item of calibration data is a list of batches, and not one batch: a tensor or several."""
    items = cast("list[object]", item) if isinstance(item, list) else []
    return bool(items) and all(isinstance(one, tuple) for one in items)


def _samples(batch: tuple[object, ...], example: Inputs) -> Iterable[tuple[object, ...]]:
    """Split a batch into samples if the example is one sample; else return the batch."""
    values = [torch.tensor(value) if isinstance(value, np.ndarray) else value for value in batch]
    tensors = [value for value in values if isinstance(value, Tensor)]
    counts = {x.shape[0] for x in tensors if x.dim()}
    is_one = all(like.dim() and like.shape[0] == 1 for like in example)
    if len(tensors) != len(batch) or len(batch) != len(example) or not is_one or len(counts) != 1 or counts == {0}:
        return [batch]
    if any(x.shape[1:] != like.shape[1:] for x, like in zip(tensors, example, strict=True)):
        return [batch]
    return [tuple(x[i : i + 1] for x in tensors) for i in range(counts.pop())]


def _check_batch(batch: tuple[object, ...], example: Inputs, name: str, time: int | None) -> Inputs:
    if len(batch) != len(example):
        names = ", ".join(f"x{i}" for i in range(len(example))) if len(example) > 1 else "x"
        sample = f"({names})" if len(example) > 1 else names
        raise InputError(
            f"{name} has {counted(len(batch), 'input')}, the model takes {len(example)}",
            hint=f"leave out the labels of a data set: `[{sample} for {names}, y in loader]`"
            if len(batch) == len(example) + 1
            else "each batch is a tensor or a tuple with one tensor per argument of `forward`",
        )
    tensors: list[Tensor] = []
    for i, (item, like) in enumerate(zip(batch, example, strict=True)):
        value = torch.tensor(item) if isinstance(item, np.ndarray) else item
        if not isinstance(value, Tensor):
            raise InputError(f"{name}, input {i} is of type `{type(value).__name__}`, not a tensor")
        if _shape(value, time) != _shape(like, time):
            raise InputError(
                f"{name}, input {i} has shape {list(value.shape)}, the example input has {list(like.shape)}",
                hint="shapes are fixed when compiling; split or reshape the calibration data to the example's shape",
            )
        if value.dtype != like.dtype:
            hint = f"give it as `.to({like.dtype})`"
            if value.is_floating_point() and not like.is_floating_point():  # a cast would round it
                hint = f"give the example input as `.to({value.dtype})`"
            raise InputError(
                f"{name}, input {i} has dtype {value.dtype}, the example input has {like.dtype}", hint=hint
            )
        tensors.append(_in_order(value))
    _need_finite(tuple(tensors), f"{name}, input")
    return tuple(tensors)


def _shape(value: Tensor, time: int | None) -> list[int]:
    """Return a shape without the dimension of time."""
    shape = list(value.shape)
    if time is not None and -len(shape) <= time < len(shape):
        del shape[time]
    return shape


def _in_order(value: Tensor) -> Tensor:
    """Return the tensor contiguous or in channels-last memory, the two layouts that programs accept."""
    is_image = value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)
    return value.detach() if is_image else value.detach().contiguous()


def _need_finite(tensors: Inputs, name: str) -> None:
    for i, tensor in enumerate(tensors):
        if tensor.is_floating_point() and not (finite := torch.isfinite(tensor)).all():
            raise InputError(
                f"{name} {i} holds {int((~finite).sum())} of {tensor.numel()} values that are NaN or infinite",
                hint="remove or repair these samples; ranges measured from them would be meaningless",
            )


def _as_tuple(value: object, what: str) -> tuple[object, ...]:
    """Return the items of a list or tuple as a tuple; another value as a tuple of one.

    Raises:
        InputError: it is a dict, which has no order of arguments; `what` begins the message.
    """
    if isinstance(value, Mapping):
        raise InputError(f"{what} a dict", hint=_IN_ORDER)
    if isinstance(value, list | tuple):
        return tuple(cast("Sequence[object]", value))
    return (value,)
