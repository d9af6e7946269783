"""Reads the text form that `printer.py` writes; `#` starts a comment."""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from typing import NoReturn, TypeVar, get_args, get_type_hints

import numpy as np

from deuteron.errors import DeuteronError, FormatError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.printer import BARE_NAME, OPS, attribute_fields
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.tflite.quantization import Quant

T = TypeVar("T")
_DTYPES = {dtype.value: dtype for dtype in DType}

_TOKEN = re.compile(
    rf"""
    (?P<space>(?:\s|\#[^\n]*)+)
  | (?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![A-Za-z_0-9./$-]))
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<word>{BARE_NAME})
  | (?P<sign>[{{}}()\[\]%:;,=@])
    """,
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else f"`{self.text}`"


def parse_graph(text: str) -> Graph:
    """Parse a graph, without verification.

    Raises:
        FormatError: with line, column, expected and found token.
    """
    return _Parser(text).graph()


class _Parser:
    """Recursive descent parser, one method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scan()
        self._at = 0

    # Tokens.

    def _scan(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                self._fail(f"found `{self._text[at]}`, which starts nothing", at)
            if match.lastgroup != "space":
                tokens.append(_Token(str(match.lastgroup), match.group(), at))
            at = match.end()
        return [*tokens, _Token("end", "", at)]

    def _fail(self, message: str, at: int) -> NoReturn:
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        raise FormatError(message, where=f"line {line}, column {column}")

    def _expected(self, what: str) -> NoReturn:
        self._fail(f"expected {what}, found {self._next}", self._next.at)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _accept(self, text: str) -> bool:
        matches = self._next.kind in ("sign", "word") and self._next.text == text
        self._at += matches
        return matches

    def _need(self, text: str) -> None:
        if not self._accept(text):
            self._expected(f"`{text}`")

    def _take(self, kind: str, what: str) -> str:
        if self._next.kind != kind:
            self._expected(what)
        self._at += 1
        return self._tokens[self._at - 1].text

    def _list(self, item: Callable[[], T], close: str) -> tuple[T, ...]:
        """Items between commas up to `close`, which is consumed."""
        items: list[T] = []
        while not self._accept(close):
            if items:
                self._need(",")
            items.append(item())
        return tuple(items)

    def _build(self, make: Callable[[], T], at: int) -> T:
        """Return the result of `make`; its error gets the place in the text."""
        try:
            return make()
        except (DeuteronError, ValueError, OverflowError) as error:
            self._fail(error.message if isinstance(error, DeuteronError) else str(error), at)

    # Names and numbers.

    def _bare_or_quoted(self, what: str) -> str:
        token = self._next
        if token.kind == "string":
            self._at += 1
            return self._build(lambda: str(json.loads(token.text)), token.at)
        if token.kind == "number" and re.fullmatch(BARE_NAME, token.text):
            self._at += 1
            return token.text
        return self._take("word", what)

    def _name(self) -> str:
        self._need("%")
        return self._bare_or_quoted("a tensor name")

    def _int(self) -> int:
        token = self._next
        value = self._number()
        if not isinstance(value, int):
            self._fail(f"expected an integer, found {token}", token.at)
        return value

    def _number(self) -> int | float:
        text = self._take("number", "a number")
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)

    def _ints(self) -> tuple[int, ...]:
        self._need("[")
        return self._list(self._int, "]")

    # Types and values.

    def _type(self) -> TensorType:
        at = self._next.at
        word = self._take("word", "an element type")
        if word not in _DTYPES:
            self._fail(f"expected an element type ({', '.join(_DTYPES)}), found `{word}`", at)
        shape = self._ints()
        quant = self._quant() if self._accept("q") else None
        return self._build(lambda: TensorType(shape, _DTYPES[word], quant), at)

    def _quant(self) -> Quant:
        at = self._next.at
        self._need("(")
        pairs = [self._scale()]
        while self._accept(","):
            pairs.append(self._scale())
        axis = None
        if self._accept(";"):
            self._need("axis")
            axis = self._int()
        self._need(")")
        scales, zero_points = zip(*pairs, strict=True)
        return self._build(lambda: Quant(scales, zero_points, axis), at)

    def _scale(self) -> tuple[float, int]:
        with np.errstate(over="ignore"):
            scale = float(np.float32(self._number()))
        self._need(":")
        return scale, self._int()

    def _declaration(self) -> Tensor:
        name = self._name()
        self._need(":")
        return Tensor(name, self._type())

    def _constant(self) -> Tensor:
        declared = self._declaration()
        self._need("=")
        at = self._next.at
        if self._accept("base64"):
            data = self._base64()
        else:
            self._need("[")
            values = self._list(self._number, "]")
            if len(values) != declared.type.numel:
                self._fail(f"expected {declared.type.numel} elements, found {len(values)}", at)
            data = self._build(lambda: np.array(values, declared.type.dtype.numpy).tobytes(), at)
        return self._build(lambda: Tensor(declared.name, declared.type, data), at)

    def _base64(self) -> bytes:
        at = self._next.at
        text = self._take("string", "base64 text in quotes")
        try:
            return base64.b64decode(text[1:-1], validate=True)
        except ValueError:
            self._fail("expected base64 text in quotes, found something else in them", at)

    # Operators.

    def _op(self) -> tuple[ops.Op, list[Tensor]]:
        results = [self._declaration()]
        while self._accept(","):
            results.append(self._declaration())
        self._need("=")
        at = self._next.at
        word = self._take("word", "an operator")
        if word not in OPS:
            self._fail(f"expected an operator ({', '.join(sorted(OPS))}), found `{word}`", at)
        self._need("(")
        inputs = self._list(self._name, ")")
        attributes = self._attributes(OPS[word])
        origin = self._ints() if self._accept("@") else ()
        outputs = tuple(tensor.name for tensor in results)
        missing = [name for name in _required(OPS[word]) if name not in attributes]
        if missing:
            self._fail(f"expected attribute `{missing[0]}` of `{word}`, found none", at)
        return OPS[word](inputs=inputs, outputs=outputs, origin=origin, **attributes), results

    def _attributes(self, kind: type[ops.Op]) -> dict[str, object]:
        hints = get_type_hints(kind)
        known = [f.name for f in attribute_fields(kind)]
        values: dict[str, object] = {}
        while self._next.kind == "word" and self._tokens[self._at + 1].text == "=":
            token = self._next
            if token.text not in known or token.text in values:
                left = ", ".join(name for name in known if name not in values) or "none"
                self._expected(f"one of the operator's further attributes ({left})")
            self._at += 1
            self._need("=")
            values[token.text] = self._value(hints[token.text])
        return values

    def _value(self, hint: object) -> object:
        """A value of the annotated type of a field."""
        if hint is bool:
            return self._choice({"yes": True, "no": False})
        if hint is int:
            return self._int()
        if hint is float:
            return float(self._number())
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self._choice({str(member.value): member for member in hint})
        self._need("(")
        if isinstance(hint, type) and is_dataclass(hint):
            hints = get_type_hints(hint)
            return hint(*self._items([hints[f.name] for f in fields(hint)]))
        items = get_args(hint)
        if items[-1] is Ellipsis:
            return self._list(lambda: self._value(items[0]), ")")
        return self._items(items)

    def _items(self, hints: Sequence[object]) -> tuple[object, ...]:
        """One value per hint, then the closing parenthesis."""
        values: list[object] = []
        for hint in hints:
            if values:
                self._need(",")
            values.append(self._value(hint))
        self._need(")")
        return tuple(values)

    def _choice(self, choices: Mapping[str, T]) -> T:
        if self._next.text not in choices:
            self._expected(f"one of {', '.join(choices)}")
        return choices[self._take("word", "a word")]

    # The whole.

    def graph(self) -> Graph:
        self._need("graph")
        at = self._next.at
        name = self._bare_or_quoted("the graph's name")
        self._need("{")
        tensors: list[Tensor] = []
        inputs: list[str] = []
        outputs: list[str] = []
        operators: list[ops.Op] = []
        while not self._accept("}"):
            if self._accept("input"):
                tensors.append(self._declaration())
                inputs.append(tensors[-1].name)
            elif self._accept("const"):
                tensors.append(self._constant())
            elif self._accept("value"):
                tensors.append(self._declaration())
            elif self._accept("output"):
                outputs.append(self._name())
            elif self._next.text == "%":
                op, results = self._op()
                operators.append(op)
                tensors.extend(results)
            else:
                self._expected("`input`, `const`, `value`, `output`, an operator or `}`")
        if self._next.kind != "end":
            self._expected("the end of the text")
        parts = tuple(tensors), tuple(inputs), tuple(outputs), tuple(operators)
        return self._build(lambda: Graph(name, *parts), at)


def _required(kind: type[ops.Op]) -> tuple[str, ...]:
    """Attributes that have no default."""
    return tuple(f.name for f in attribute_fields(kind) if f.default is MISSING)
