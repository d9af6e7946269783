"""Selects a signature's subgraph, and replaces control flow that constants decide by the operators that run.

This covers IF and WHILE with constant conditions, initialisers of CALL_ONCE without effect, and composite operators,
which LiteRT computes by the subgraph that decomposes them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from deuteron.errors import FormatError, InputError, UnsupportedError
from deuteron.tflite.decode import decode, signatures
from deuteron.tflite.execution_order import check_order
from deuteron.tflite.flat_model import HINT_MALFORMED, Buffer, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.normalize import Propagation
from deuteron.tflite.quantization import Quant
from deuteron.tflite.shapes import RULES

_MOST_REPLACED = 256
"""Limit of replaced operators in a file; a WHILE counts once for each turn."""

_MOST_OPERATORS = 1 << 14
"""Limit of operators after the replacement."""

_PURE = ("VAR_HANDLE", "READ_VARIABLE")
"""Operators on variables that change none."""


def selected(source: Buffer, signature: str | None = None) -> FlatModel:
    """Return the subgraph of a signature, by default the file's first subgraph.

    Raises:
        InputError: the file has no such signature.
        FormatError: the file is damaged.
    """
    if signature is None:
        return decode(source, partial=True)
    named = signatures(source)
    if signature not in named:
        listed = ", ".join(f"`{name}`" for name in named)
        raise InputError(
            f"the file has no signature `{signature}`",
            hint=f"its signatures are {listed}" if named else "leave out `--signature`; the file has no signatures",
        )
    return decode(source, partial=True, subgraph=named[signature])


def other_signatures(source: Buffer, signature: str | None) -> str:
    """Return a sentence about further signatures of a file of which none is chosen; "" if there are none."""
    named = signatures(source)
    if signature is not None or len({*named.values()}) < 2:
        return ""
    return f"the file has the signatures {', '.join(f'`{name}`' for name in named)}; `--signature` chooses another one"


def unfolded(source: Buffer, model: FlatModel) -> FlatModel:
    """Return a model of a file with the operators that run in place of control flow that constants decide.

    Raises:
        FormatError: the file is damaged.
        UnsupportedError: a loop has too many turns.
    """
    if not any(op.name in _RULES for op in model.operators):
        return model
    subgraphs, known = _Subgraphs(source), Propagation(model)
    at = replaced = 0
    while at < len(model.operators):
        op = model.operators[at]
        rule = _RULES.get(op.name)
        result = None if rule is None else rule(_Place(model, at, subgraphs, known))
        if result is None:
            known.visit(op)
            at += 1
            continue
        known.extend(result.tensors[len(model.tensors) :])
        model, replaced = replace(result, is_file=False), replaced + 1
        if replaced > _MOST_REPLACED or len(model.operators) > _MOST_OPERATORS:
            raise UnsupportedError(
                f"{op.title} runs other operators more than {_MOST_REPLACED} times",
                where=f"op {op.number(at)} {op.title}",
                hint="export the model with the loop unrolled, or with fewer turns",
            )
    return model


def _truth(tensor: FlatTensor) -> bool | None:
    return None if not tensor.data else any(tensor.data)


class _Subgraphs:
    """The subgraphs of a file, each decoded once."""

    def __init__(self, source: Buffer) -> None:
        self._source = source
        self._found: dict[int, FlatModel] = {}

    def get(self, index: int) -> FlatModel:
        """Return a subgraph; UnsupportedError if the file has none of that index."""
        if index not in self._found:
            self._found[index] = decode(self._source, partial=True, subgraph=index)
            check_order(self._found[index])
        return self._found[index]


class _Place:
    """An operator that runs subgraphs, in a model whose tensors before it are known."""

    def __init__(self, model: FlatModel, at: int, subgraphs: _Subgraphs, known: Propagation) -> None:
        self.model, self.at, self._subgraphs, self._known = model, at, subgraphs, known
        self.op: FlatOperator = model.operators[at]

    def subgraph(self, option: str) -> FlatModel:
        """A subgraph that an option names; UnsupportedError for one that keeps values from one turn to the next."""
        index = int(self.op.options.get(option, -1))
        if index < 1:  # the first one is the model itself
            raise self._malformed(f"runs subgraph {index}")
        try:
            of = self._subgraphs.get(index)
        except UnsupportedError as error:
            raise self._malformed(f"runs subgraph {index}, which the file does not have") from error
        kept = next((tensor.name for tensor in of.tensors if tensor.is_variable), None)
        if kept is not None:
            raise self._unsupported(
                f"runs subgraph {index} with the variable tensor `{kept}`; only the main subgraph may have one",
                "export the model without control flow around its SVDF and LSTM layers",
            )
        return of

    def constant(self, tensor: int) -> bool | None:
        """The truth value of a tensor before this operator; None if it is not constant."""
        return _truth(self._known.tensor(tensor))

    def value(self, tensors: Sequence[int], of: FlatModel) -> bool | None:
        """The truth value of a subgraph's output for these tensors as inputs; None if it is not constant."""
        self._check_given(tensors, of)
        given = [*of.tensors]
        for place, i in zip(of.inputs, tensors, strict=True):
            given[place] = self._known.tensor(i)
        inner = Propagation(replace(of, tensors=tuple(given)))
        for op in of.operators:
            inner.visit(op)
        return _truth(inner.tensor(of.outputs[0])) if of.outputs else None

    def check_pure(self, of: FlatModel) -> None:
        """Check that a subgraph of which the result alone is taken has no other effect."""
        other = next((op.title for op in of.operators if op.name not in RULES and op.name not in _PURE), None)
        if other is not None:
            raise self._unsupported(
                f"runs {other} in its condition, which may change more than the condition's result",
                "export the model with a condition that compares and computes only",
            )

    def inlined(self, of: FlatModel, inputs: Sequence[int]) -> tuple[FlatModel, tuple[int, ...]]:
        """The model with a subgraph's operators before this one, and the tensors of the subgraph's outputs."""
        self._check_given(inputs, of)
        prefix, first = self.model.tensors[self.op.outputs[0]].name if self.op.outputs else "", len(self.model.tensors)
        places = {i: first + i for i in range(len(of.tensors))} | dict(zip(of.inputs, inputs, strict=True))
        tensors = (replace(tensor, name=f"{prefix}/{tensor.name}") for tensor in of.tensors)
        model = replace(
            self.model,
            tensors=(*self.model.tensors, *tensors),
            operators=(
                *self.model.operators[: self.at],
                *(_moved(op, places) for op in of.operators),
                *self.model.operators[self.at :],
            ),
            is_complete=self.model.is_complete and of.is_complete,
        )
        return model, tuple(places[i] for i in of.outputs)

    def ended(self, results: Sequence[int], model: FlatModel | None = None) -> FlatModel:
        """A model without this operator, whose results are these tensors; outputs of the model keep their names."""
        if len(results) != len(self.op.outputs):
            raise self._malformed(f"has {len(self.op.outputs)} outputs, its subgraph has {len(results)}")
        model = model or self.model
        for result, output in zip(results, self.op.outputs, strict=True):
            self._check_same(model.tensors[result], model.tensors[output])
        tensors = [*model.tensors]
        for output, result in zip(self.op.outputs, results, strict=True):
            if output in model.outputs and result not in (*model.inputs, *model.outputs):
                tensors[result] = replace(tensors[result], name=tensors[output].name)
        places = dict(zip(self.op.outputs, results, strict=True))
        others = (op for op in model.operators if op is not self.op)
        return replace(
            model,
            tensors=tuple(tensors),
            operators=tuple(op if places.keys().isdisjoint(op.inputs) else _moved(op, places) for op in others),
            outputs=tuple(places.get(i, i) for i in model.outputs),
        )

    def _check_given(self, inputs: Sequence[int], of: FlatModel) -> None:
        """Check that these tensors can take the place of a subgraph's inputs."""
        if len(inputs) != len(of.inputs):
            raise self._malformed(f"gives {len(inputs)} tensors to a subgraph with {len(of.inputs)} inputs")
        for given, place in zip(inputs, of.inputs, strict=True):
            self._check_same(self.model.tensors[given], of.tensors[place])

    def _check_same(self, given: FlatTensor, place: FlatTensor) -> None:
        """Check that one tensor can take the place of another to which LiteRT copies its bytes."""
        if _form(given) != _form(place):
            what = "type" if given.dtype != place.dtype else "scale or zero point"
            raise self._unsupported(
                f"copies tensor `{given.name}` to tensor `{place.name}` of another {what}",
                "export the model with the same quantization inside and outside of its control flow",
            )

    def _malformed(self, what: str) -> FormatError:
        return FormatError(
            f"{self.op.title} {what}", where=f"op {self.op.number(self.at)} {self.op.title}", hint=HINT_MALFORMED
        )

    def _unsupported(self, what: str, hint: str) -> UnsupportedError:
        return UnsupportedError(
            f"{self.op.title} {what}", where=f"op {self.op.number(self.at)} {self.op.title}", hint=hint
        )


def _form(tensor: FlatTensor) -> tuple[str, Quant | None]:
    """The type of a tensor and the meaning of its values."""
    return tensor.dtype, None if tensor.dtype.startswith("FLOAT") else tensor.quant


def _moved(op: FlatOperator, places: Mapping[int, int]) -> FlatOperator:
    ends = (op.inputs, op.outputs, op.intermediates)
    inputs, outputs, intermediates = (tuple(places.get(i, i) for i in end) for end in ends)
    return replace(op, inputs=inputs, outputs=outputs, intermediates=intermediates)


def _composite(place: _Place) -> FlatModel:
    model, results = place.inlined(place.subgraph("DecompositionSubgraphIndex"), place.op.inputs)
    return place.ended(results, model)


def _if(place: _Place) -> FlatModel | None:
    condition = place.constant(place.op.inputs[0])
    if condition is None:
        return None
    of = place.subgraph("ThenSubgraphIndex" if condition else "ElseSubgraphIndex")
    model, results = place.inlined(of, place.op.inputs[1:])
    return place.ended(results, model)


def _while(place: _Place) -> FlatModel | None:
    """One turn, before the loop with the turn's results as its inputs; or none, where its condition is false."""
    test = place.subgraph("CondSubgraphIndex")
    condition = place.value(place.op.inputs, test)
    if condition is None:
        return None
    place.check_pure(test)
    if not condition:
        return place.ended(place.op.inputs)
    model, results = place.inlined(place.subgraph("BodySubgraphIndex"), place.op.inputs)
    loop = replace(place.op, inputs=results)
    return replace(model, operators=tuple(loop if op is place.op else op for op in model.operators))


def _call_once(place: _Place) -> FlatModel | None:
    """An initialiser that writes no variable and no table has no effect."""
    of = place.subgraph("InitSubgraphIndex")
    return place.ended(()) if all(op.name in RULES or op.name == "VAR_HANDLE" for op in of.operators) else None


_RULES: Mapping[str, Callable[[_Place], FlatModel | None]] = MappingProxyType(
    {"CALL_ONCE": _call_once, "IF": _if, "STABLEHLO_COMPOSITE": _composite, "WHILE": _while}
)
