"""Finds the user's line at which a graph, or a second run, begins to differ from a module."""

import traceback
from itertools import zip_longest
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from deuteron.builds.manifest import Source
from deuteron.builds.user_frames import last_user_line
from deuteron.errors import UnsupportedError
from deuteron.frontend.eager.observe import Observed, copied, environment, seeded
from deuteron.frontend.eager.state import digest
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.source_lines import source_of
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import value_of


def transform_line(observed: Observed) -> Source | None:
    """Return the first line of user code that runs within a transform of `torch.func`."""
    found, transforms = list[tuple[str, int, str]](), value_of(private_apis.TRANSFORMS)

    class Within(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not found and transforms():
                found.extend(filter(None, [last_user_line("".join(traceback.format_stack()))]))
            return func(*args, **(kwargs or {}))

    with environment(observed.module), torch.no_grad(), quiet(), Within():
        copied(observed.module)(*copies(observed.samples[0]))
    return Source(*found[0], "") if found else None


def queries_mode(observed: Observed) -> bool:
    """Return True if user code asks in a run whether PyTorch exports, compiles or traces it.

    Raises:
        UnsupportedError: it has imported the function, whose answer in an export nothing can change.
    """
    names = {name.name for name in private_apis.MODE_QUERIES}
    asked = [(code, name) for code in observed.codes for name in code.co_names if name in names]
    for code, name in asked:
        if "torch" not in code.co_names:
            raise UnsupportedError(
                f"the model calls `{name}`, which gives another answer in an export than in a run",
                where=f"{code.co_filename}:{code.co_firstlineno}",
                hint=f"write `torch.compiler.{name}()`, or leave it out",
            )
    return bool(asked)


def first_difference(graph: fx.GraphModule, observed: Observed, sample: Inputs) -> Source | None:
    """Return the line of the first operator whose result no eager run computes."""
    with environment(observed.module), torch.no_grad(), quiet(), _Operators() as operators:
        copied(observed.module)(*copies(sample))
    found = {value for (_, values), _ in operators.called for value in values}
    found |= {digest(x) for x in (*sample, *graph.parameters(), *graph.buffers())}

    class First(fx.Interpreter):
        source: Source | None = None

        def run_node(self, n: fx.Node) -> Any:
            value = super().run_node(n)
            if self.source is None and n.op == "call_function" and isinstance(value, Tensor):
                self.source = source_of(n) if digest(value) not in found else None
            return value

    first = First(graph)
    with torch.no_grad(), seeded(0):
        first.run(*copies(sample))
    return first.source


def first_unlike(observed: Observed) -> Source | None:
    """Return the line of the first operator that two runs for the same inputs compute, or call, differently."""
    runs: list[_Operators] = []
    with environment(observed.module), torch.no_grad(), quiet():
        for seed in (0, 1):
            module = copied(observed.module)
            with seeded(seed), _Operators() as operators:
                module(*copies(observed.samples[0]))
            runs.append(operators)
    nothing = None, None
    for (one, line), (other, its_line) in zip_longest(*(run.called for run in runs), fillvalue=nothing):
        if one != other:
            found = line or its_line
            return Source(*found, "") if found else None
    return None


class _Operators(TorchDispatchMode):
    """Records each operator with its operands and results, and its line."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        cast(Any, super()).__init__()
        self.called = list[tuple[tuple[object, list[object]], tuple[str, int, str] | None]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        values = [digest(one) if isinstance(one, Tensor) else one for one in pytree.tree_leaves((args, kwargs, result))]
        self.called.append(((func, values), last_user_line("".join(traceback.format_stack()))))
        return result
