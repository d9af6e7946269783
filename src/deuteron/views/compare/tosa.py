"""TOSA's reference model, Arm's definition of what each operator gives: it runs what Vela compiled for an Ethos-U."""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from deuteron.errors import FormatError, MissingToolError, counted
from deuteron.frontend.log_suppression import overheard
from deuteron.views.compare.result_counts import Array

_DTYPES = {1: np.bool_, 3: np.int8, 4: np.int16, 5: np.int32}
"""numpy's dtypes by TOSA's numbers of them, of what a partition takes and gives."""


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
                "TOSA's reference model, package `tosa-tools`, is not installed, and what an Ethos-U computes is "
                "compared with it",
                hint="install it with `pip install 'deuteron[ethos-u]'`",
            ) from error
        block = graphs.TosaGraph.GetRootAs(data, 0).Regions(0).Blocks(0)
        tensors = {t.Name(): t for t in map(block.Tensors, range(block.TensorsLength()))}
        self._inputs = [tensors[block.Inputs(i)] for i in range(block.InputsLength())]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for these inputs, given as bytes.

        Raises:
            FormatError: the model does not take them.
        """
        if len(inputs) != len(self._inputs):
            in_tosa, on_npu = counted(len(self._inputs), "input"), counted(len(inputs), "input")
            raise FormatError(f"the partition has {in_tosa} in TOSA, and {on_npu} for the NPU", where=self._where)
        given = [
            value.view(_DTYPES[tensor.Type()]).reshape(tensor.ShapeAsNumpy() if tensor.ShapeLength() else ())
            for value, tensor in zip(inputs, self._inputs, strict=True)
        ]
        with overheard():  # it says that it is newer than what the file was written for
            outputs, status = self._model.run(self._data, given)
        if status != self._model.GraphStatus.TOSA_VALID:
            raise FormatError(f"TOSA's reference model ends with {status.name}", where=self._where)
        return list(outputs)
