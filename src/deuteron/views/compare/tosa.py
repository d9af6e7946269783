"""Runs partitions of an Ethos-U on TOSA's reference model, Arm's definition of each operator's result."""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from deuteron.errors import FormatError, MissingToolError, counted
from deuteron.frontend.log_suppression import captured_output
from deuteron.views.compare.result_counts import Array

_DTYPES = {1: np.bool_, 3: np.int8, 4: np.int16, 5: np.int32}
"""numpy's dtypes by TOSA's numbers, for inputs and outputs of a partition."""


class TosaModel:
    """A partition in TOSA."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._where = where
        try:
            graphs: Any = importlib.import_module("tosa.TosaGraph")
            self._model: Any = importlib.import_module("tosa_reference_model")
        except ImportError as error:
            raise MissingToolError(
                "TOSA's reference model, package `tosa-tools`, is not installed; it is the reference for an Ethos-U",
                hint="install it with `pip install 'deuteron[ethos-u]'`",
            ) from error
        block = graphs.TosaGraph.GetRootAs(data, 0).Regions(0).Blocks(0)
        tensors = {t.Name(): t for t in map(block.Tensors, range(block.TensorsLength()))}
        self._inputs = [tensors[block.Inputs(i)] for i in range(block.InputsLength())]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs for these inputs, given as bytes.

        Raises:
            FormatError: the model rejects them.
        """
        if len(inputs) != len(self._inputs):
            in_tosa, on_npu = counted(len(self._inputs), "input"), counted(len(inputs), "input")
            raise FormatError(f"the partition has {in_tosa} in TOSA, and {on_npu} for the NPU", where=self._where)
        given = [
            value.view(_DTYPES[tensor.Type()]).reshape(tensor.ShapeAsNumpy() if tensor.ShapeLength() else ())
            for value, tensor in zip(inputs, self._inputs, strict=True)
        ]
        with captured_output():  # it warns that it is newer than the file's version
            outputs, status = self._model.run(self._data, given)
        if status != self._model.GraphStatus.TOSA_VALID:
            raise FormatError(f"TOSA's reference model failed with {status.name}", where=self._where)
        return list(outputs)
