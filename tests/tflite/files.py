"""TFLite files for tests: sound ones from `cases`, and odd ones with fields that `encode` never writes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tests.tflite.cases import CASES

from deuteron.tflite.decode import decode
from deuteron.tflite.emit import emit
from deuteron.tflite.encode import Encoder, encode
from deuteron.tflite.flat import FlatModel, FlatOperator, FlatTensor

Extra = Callable[["OddEncoder"], dict[str, int]]


class OddEncoder(Encoder):
    """Writes a model with further fields in the tables of one kind; `last` has the latest table of each kind."""

    def __init__(self, model: FlatModel, kind: str, extra: Extra) -> None:
        self.kind, self.extra = kind, extra
        self.last: dict[str, int] = {}
        super().__init__(model)

    def table(self, kind: str, **fields: float) -> int:
        more = self.extra(self) if kind == self.kind else {}
        self.last[kind] = super().table(kind, **fields | more)
        return self.last[kind]


def odd_bytes(model: FlatModel, kind: str, extra: Extra) -> bytes:
    return OddEncoder(model, kind, extra).finish()


def model(name: str, seed: int = 0) -> FlatModel:
    """A sound model of one operator."""
    return decode(emit(CASES[name](np.random.default_rng(seed))))


def with_op(source: FlatModel, /, **changes: object) -> FlatModel:
    """The model with its first operator changed; `options` are merged."""
    first, *rest = source.operators
    if isinstance(options := changes.get("options"), dict):
        changes["options"] = {**first.options, **options}
    return replace(source, operators=(replace(first, **changes), *rest))


def with_tensor(source: FlatModel, name: str, /, **changes: object) -> FlatModel:
    """The model with the tensor `name` changed."""
    assert name in {t.name for t in source.tensors}
    return replace(source, tensors=tuple(replace(t, **changes) if t.name == name else t for t in source.tensors))


def with_constant(source: FlatModel, name: str, values: list[int], dtype: str = "INT32") -> FlatModel:
    """The model with other values in the index constant `name`."""
    data = np.array(values, {"INT32": "<i4", "INT64": "<i8"}[dtype]).tobytes()
    return with_tensor(source, name, shape=(len(values),), dtype=dtype, data=data)


__all__ = [
    "FlatModel",
    "FlatOperator",
    "FlatTensor",
    "encode",
    "model",
    "odd_bytes",
    "with_constant",
    "with_op",
    "with_tensor",
]
