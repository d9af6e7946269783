"""LiteRT's interpreter: runs TFLite files, or parts of them, with its reference kernels."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deuteron.errors import InputError, MissingToolError
from deuteron.tflite.custom_options import DETECTION
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import Buffer, FlatModel
from deuteron.tflite.signal_library import RULES as SIGNAL_LIBRARY

Array = npt.NDArray[np.generic]

_NO_KERNEL = "Didn't find op for builtin opcode"
"""LiteRT's error for an operator without a kernel."""


class Litert:
    """A TFLite file that LiteRT runs; its variables keep their values between runs.

    A model with a SUM uses the other builtin kernels: the reference one returns -1 for any int8 input. A
    model with an operator that has no reference kernel, such as ELU, uses them too.

    Attributes:
        is_reference: true if all kernels are the reference ones.

    Raises:
        MissingToolError: LiteRT is not installed.
        InputError: LiteRT rejects the model, or would write beyond its tensors.
    """

    def __init__(self, model: Buffer) -> None:
        try:
            from ai_edge_litert.interpreter import Interpreter, OpResolverType
        except ImportError as error:
            raise MissingToolError(
                "LiteRT is not installed", hint="install it with `pip install 'deuteron[litert]'`"
            ) from error
        others = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES

        def interpreter(resolver: Any) -> Any:
            return Interpreter(model_content=bytes(model), experimental_op_resolver_type=resolver)

        def fresh() -> Any:
            try:
                made = interpreter(OpResolverType.BUILTIN_REF if self.is_reference else others)
            except ValueError as error:
                if _NO_KERNEL not in str(error) or not self.is_reference:
                    raise
                self.is_reference = False
                made = interpreter(others)
            made.allocate_tensors()
            return made

        decoded = decode(model, partial=True)
        _check_kernels(decoded)
        self.is_reference = all(op.name != "SUM" for op in decoded.operators)
        self._detections = tuple(_detections(decoded))
        self._fresh: Callable[[], Any] = fresh
        self.reset()

    def reset(self) -> None:
        """Give variables their initial values. LiteRT resets no resources, so this makes another interpreter."""
        try:
            self._interpreter: Any = self._fresh()
        except (RuntimeError, ValueError) as error:
            raise _refused(error) from error

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs, in the order of the main subgraph; zeros behind the last detection.

        LiteRT writes nothing there.
        """
        interpreter = self._interpreter
        try:
            for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
                interpreter.set_tensor(detail["index"], value)
            interpreter.invoke()
            results = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
        except (RuntimeError, ValueError) as error:
            raise _refused(error) from error
        for output, count in self._detections:
            results[output][:, int(results[count].reshape(-1)[0]) :] = 0
        return results


def run(model: Buffer, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs of a TFLite model for one set of inputs; raises the errors of `Litert`."""
    return Litert(model).run(inputs)


def _detections(model: FlatModel) -> Iterator[tuple[int, int]]:
    """Yield the outputs of a model that have detections, and the output that has their number."""
    at = {tensor: position for position, tensor in enumerate(model.outputs)}
    for op in model.operators:
        if op.title == DETECTION and op.outputs[3] in at:
            yield from ((at[i], at[op.outputs[3]]) for i in op.outputs[:3] if i in at)


def _check_kernels(model: FlatModel) -> None:
    """Raise InputError for operators that only TFLite Micro has.

    LiteRT writes int16 numbers to the int8 state of an SVDF, and damages the process.
    """
    for at, op in enumerate(model.operators):
        if op.title in SIGNAL_LIBRARY:
            raise InputError(
                f"LiteRT has no {op.title}",
                where=f"op {op.number(at)} {op.title}",
                hint="only TFLite Micro has it; run the file without a comparison with LiteRT",
            )
        for tensor in (model.tensors[i] for i in op.inputs if op.name == "SVDF" and i >= 0):
            if tensor.is_variable and tensor.dtype == "INT8":
                raise InputError(
                    f"LiteRT has no SVDF with an int8 state; `{tensor.name}` is one",
                    where=f"op {op.number(at)} SVDF",
                    hint="only TFLite Micro has it; quantize the state to int16 to compare with LiteRT",
                )


def _refused(error: Exception) -> InputError:
    return InputError(f"LiteRT does not run the model: {error}")
