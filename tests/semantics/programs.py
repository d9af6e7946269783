"""Random small modules as Python source: dtypes, views, writes in place, control flow and state, for Hypothesis."""

import hashlib
import linecache
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn

Shape = tuple[int, ...]
SHAPE: Shape = (4, 8)
FLOAT, INT, BOOL = "float", "int", "bool"


@dataclass(frozen=True, slots=True)
class Value:
    """A variable of the forward function: its name, shape, and the kind of its numbers."""

    name: str
    kind: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Program:
    """A module: the lines of its forward function, and what that returns."""

    lines: tuple[str, ...]
    result: str

    @property
    def source(self) -> str:
        """The module that defines `Net`."""
        body = "\n".join(f"        {line}" for line in (*self.lines, f"return {self.result}"))
        return f"{_HEAD}{body}\n"

    def module(self) -> nn.Module:
        """Return a new module with seeded weights, in evaluation mode; each has separate global variables."""
        name = f"program_{hashlib.sha256(self.source.encode()).hexdigest()[:12]}"
        file = f"/programs/{name}.py"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        namespace = sys.modules[name] = ModuleType(name)  # where export looks for its global variables
        exec(compile(self.source, file, "exec"), vars(namespace))
        torch.manual_seed(0)
        net: nn.Module = vars(namespace)["Net"]()
        return net.eval()

    def __repr__(self) -> str:
        return f"Program:\n{self.source}"


_HEAD = """\
import torch
from torch import nn

COUNT = 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(8, 8)
        self.register_buffer("h", torch.full((4, 8), 0.25))
        self.register_buffer("mask", torch.arange(8) % 3 == 0)
        self.n, self.kept, self.seen, self.cache = 1, torch.zeros(4, 8), [torch.zeros(4, 8)], {}

    def forward(self, x):
        global COUNT
"""

_FLOATS = (
    "torch.relu({a})", "torch.tanh({a})", "torch.sigmoid({a})", "{a}.abs()", "-{a}", "{a} + 1", "1 - {a}", "{a} * 2",
    "0.5 * {a}", "{a} / 2", "{a} ** 2", "{a}.clamp(-1, 1)", "{a}.clamp(min=0.5)", "{a}.clamp(0.5, -0.5)", "{a} + True",
    "{a}.sign()", "{a}.round()", "{a}.clone()", "{a}.detach()", "{a}.float()", "{a}.contiguous()",
    "torch.exp(-{a}.abs())",
    "{a}.softmax(-1)", "{a} - {a}.mean()", "torch.where({a} > 0, {a}, 0)", "torch.zeros_like({a}) + {a}",
    "{a}.masked_fill({a} > 1, -1.0)", "{a} // 0.5", "{a}.floor()",
)  # fmt: skip
_PAIRS = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "torch.maximum({a}, {b})", "torch.where({a} > {b}, {a}, {b})",
    "torch.add({a}, {b}, alpha=2)", "torch.lerp({a}, {b}, 0.5)",
)  # fmt: skip
_TO_BOOL = {FLOAT: ("{a} > 0", "{a} >= 0.5", "{a} != 0"), INT: ("{a} > 1", "{a} == 2"), BOOL: ("~{a}", "{a}.clone()")}
_TO_INT = {
    FLOAT: ("({a} * 4).round().long()", "({a} * 3).int()", "({a} > 0).long()"),
    INT: (
        "{a} + 1",
        "{a} * 3",
        "{a} // 2",
        "{a} % 3",
        "-{a}",
        "{a}.clamp(0, 2)",
        "{a} << 1",
        "{a}.int()",
        "{a}.long()",
    ),
    BOOL: ("{a} * 3", "{a} + 1", "{a}.int()", "{a} + {a}", "torch.where({a}, 1, -1)", "{a}.cumsum(0)"),
}
_TO_FLOAT = {
    INT: ("{a} * 2.5", "{a}.float()", "{a} / 2", "{a} + 0.5", "0.25 * {a}"),
    BOOL: ("{a} * 0.5", "{a}.float()", "torch.where({a}, 1.0, -1.0)", "{a} + 0.5"),
}
_WRITES = (
    "{a}.add_(1)", "{a}.mul_(0.5)", "{a}.relu_()", "{a}.zero_()", "{a}.neg_()", "{a}.clamp_(-1, 1)", "{a} += 1",
    "{a} *= 2",
    "{a}[0] = 0.5", "{a}[..., -1] = 1", "{a}[{a} > 1] = 0", "{a}.masked_fill_({a} < 0, 0.25)", "{a}.fill_(0.75)",
    "{a}.data.mul_(2)", "torch.relu({a}, out={a})", "{a}[1:] -= 1",
)  # fmt: skip
_WRITES_OF = ("{a}.add_({b})", "{a}.copy_({b})", "{a} *= {b}", "{a}[...] = {b}", "{a}.sub_({b}, alpha=0.5)")
_INT_WRITES = ("{a} += 1", "{a}.mul_(2)", "{a}[0] = 3", "{a}.clamp_(min=0)")
_STATE = (
    ("self.n += 1",), ("COUNT += 1",), ("self.seen.append(self.seen[-1] + 1)",), ("self.cache['a'] = 1",),
    ("self.h += 1",), ("self.h[0] = 2",), ("self.h.unbind(0)[1].add_(1)",), ("self.h.mul_(0.5)",),
    ("with torch.no_grad():", "    self.h.add_(0.5)"), ("self.h.data.add_(1)",), ("self.mask = ~self.mask",),
    ("self.f.bias.data.add_(0.5)",), ("self.h.fill_(0.5)",), ("self.n = 2",), ("type(self).calls = 1",),
)  # fmt: skip
_STATE_OF = ("self.h.copy_({a})", "self.h = {a}", "self.kept = {a}", "self.seen.append({a})", "self.seen[0] = {a}",
             "self.cache['x'] = {a}", "self.h.data = {a}")  # fmt: skip
_READS = (
    "{a} + self.h", "{a} * self.n", "{a} + COUNT", "{a} + self.kept", "{a} - self.seen[-1]", "{a} * len(self.seen)",
    "{a} + self.cache.get('x', 0)", "{a} * self.mask", "{a}.masked_fill(self.mask, 0)",
    "{a} * getattr(self, 'calls', 3)",
)  # fmt: skip
_BLOCKS = (
    ("if {c}:", "    {v} = {v} * 2"), ("if {c}:", "    {v} = torch.relu({v})", "else:", "    {v} = {v} + 1"),
    ("for i in range(3):", "    {v} = {v} * 0.5 + i"), ("with torch.no_grad():", "    {v} = torch.tanh({v})"),
    ("while {v}.dim() < 2:", "    {v} = {v}.unsqueeze(0)"),
    ("try:", "    {v} = {v} + self.absent", "except AttributeError:", "    {v} = {v} - 1"),
    ("with torch.no_grad():", "    {v}.add_(1)"), ("with torch.enable_grad():", "    {v} = {v} * 1.5"),
)  # fmt: skip
_CONDITIONS = (
    "self.training", "torch.is_grad_enabled()", "x.shape[0] == 4", "self.n > 1", "self.n <= 2", "COUNT > 1",
    "x.requires_grad", "torch.compiler.is_compiling()", "'x' in self.cache", "len(self.seen) > 2", "x.is_contiguous()",
    "torch.jit.is_tracing()", "hasattr(self, 'later')",
)  # fmt: skip


def _views(shape: Shape) -> dict[str, Shape]:
    """Views of a tensor of this shape, with theirs."""
    first, *rest = shape
    views: dict[str, Shape] = {"{a}.flatten()": (_count(shape),), "{a}.view(-1)": (_count(shape),)}
    if first > 1:
        views |= {"{a}[0]": tuple(rest), "{a}.unbind(0)[1]": tuple(rest), "{a}[1:]": (first - 1, *rest)}
        views |= {"{a}[::2]": ((first + 1) // 2, *rest), "{a}.expand(2, *{a}.shape)[0]": shape}
    if len(shape) == 2:
        views |= {"{a}.t()": (rest[0], first), "{a}.diagonal()": (min(first, rest[0]),), "{a}[:, 0]": (first,)}
        views |= {
            "{a}.unsqueeze(1).squeeze(1)": shape,
            "{a}.t().contiguous().t()": shape,
            "{a}.transpose(0, 1).t()": shape,
        }
        if rest[0] % 2 == 0:
            views |= {"{a}.chunk(2, 1)[0]": (first, rest[0] // 2), "{a}.split(1, 1)[-1]": (first, 1)}
            views |= {"{a}.view({a}.shape[0], 2, -1)[:, 1]": (first, rest[0] // 2)}
    return {view: there for view, there in views.items() if there}


def _count(shape: Shape) -> int:
    return shape[0] * _count(shape[1:]) if shape else 1


@st.composite
def programs(draw: st.DrawFn, most: int = 8) -> Program:
    """A module of a few lines, which need not run."""
    values = [Value("x", FLOAT, SHAPE), Value("y", FLOAT, SHAPE)]
    lines = [draw(st.sampled_from(("y = self.f(x)", "y = self.f(x)", "y = x * 1", "y = self.f(x.clone())")))]

    def any_of(kind: str = "", shape: Shape = ()) -> Value | None:
        found = [v for v in values if v.kind == (kind or v.kind) and v.shape == (shape or v.shape)]
        return draw(st.sampled_from(found[::-1])) if found else None

    def assign(template: str, kind: str, shape: Shape, **names: Any) -> None:
        name = f"v{len(values)}"
        lines.append(f"{name} = {template.format(**names)}")
        values.append(Value(name, kind, shape))

    def pick(items: Any) -> Any:
        return draw(st.sampled_from(tuple(items)))

    for _ in range(draw(st.integers(1, most))):
        a = any_of() or values[0]
        match pick(("same", "same", "pair", "change", "view", "write", "write", "state", "block", "layer", "reduce")):
            case "same" if a.kind == FLOAT:
                assign(pick(_FLOATS), FLOAT, a.shape, a=a.name)
            case "pair" if (b := any_of(a.kind, a.shape)) is not None:
                template = (
                    pick(_PAIRS) if a.kind == FLOAT else pick(("{a} + {b}", "{a} * {b}", "{a} | {b}", "{a} == {b}"))
                )
                assign(template, BOOL if "==" in template else a.kind, a.shape, a=a.name, b=b.name)
            case "change":
                kind = pick((FLOAT, INT, BOOL))
                table = {BOOL: _TO_BOOL, INT: _TO_INT}.get(kind, {**_TO_FLOAT, FLOAT: _FLOATS})
                assign(pick(table[a.kind]), kind, a.shape, a=a.name)
            case "view" if a.shape:
                view, shape = pick(_views(a.shape).items())
                assign(view, a.kind, shape, a=a.name)
            case "write" if a.kind == FLOAT and a.shape:
                b = any_of(FLOAT, a.shape)
                lines.append(pick((*_WRITES, *_WRITES_OF) if b else _WRITES).format(a=a.name, b=b.name if b else ""))
            case "write" if a.kind == INT and a.shape:
                lines.append(pick(_INT_WRITES).format(a=a.name))
            case "state":
                whole = any_of(FLOAT, SHAPE) or values[0]
                match pick(("read", "read", "write", "write of")):
                    case "read":
                        assign(pick(_READS), FLOAT, SHAPE, a=whole.name)
                    case "write":
                        lines.extend(pick(_STATE))
                    case _:
                        lines.append(pick(_STATE_OF).format(a=whole.name))
            case "block" if a.kind == FLOAT and a.shape:
                lines += [line.format(v=a.name, c=pick(_CONDITIONS)) for line in pick(_BLOCKS)]
            case "reduce" if a.shape and a.kind == FLOAT:
                template, kind = pick((("{a}.sum(-1)", FLOAT), ("{a}.amax(-1)", FLOAT), ("{a}.argmax(-1)", INT),
                                       ("{a}.max(-1).indices", INT), ("({a} > 0).sum(-1)", INT)))  # fmt: skip
                if len(a.shape) > 1:
                    assign(template, kind, a.shape[:-1], a=a.name)
            case _ if a.shape[-1:] == (8,) and a.kind == FLOAT:
                assign(pick(("self.f({a})", "torch.relu(self.f({a}))")), FLOAT, a.shape, a=a.name)
            case _:
                pass
    chosen = [draw(st.sampled_from(values[::-1])).name for _ in range(draw(st.integers(1, 3)))]
    result = chosen[0] if len(chosen) == 1 else pick(("({})", "[{}]")).format(", ".join(chosen))
    return Program(tuple(lines), result)
