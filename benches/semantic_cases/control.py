"""Branches, loops and early ends; modes and blocks of PyTorch; logging, checks and warnings in forward."""

import logging
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import IMAGE, SIGNAL, VECTOR, Cases, Written, dense, ints

CASES = Cases("control")
LOGGER = logging.getLogger(__name__)


def _is_training(m: Any, x: Tensor) -> Tensor:
    return m.f(x) if m.training else m.f(x) * 2


def _grad_enabled(m: Any, x: Tensor) -> Tensor:
    return m.f(x) if torch.is_grad_enabled() else -m.f(x)


def _requires_grad(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    return y * 2 if y.requires_grad else y


def _is_compiling(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * 3 if torch.compiler.is_compiling() else m.f(x)


def _is_exporting(m: Any, x: Tensor) -> Tensor:
    return m.f(x) + 1 if torch.compiler.is_exporting() else m.f(x)


def _is_scripting(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * 3 if torch.jit.is_scripting() or torch.jit.is_tracing() else m.f(x)


def _is_inference(m: Any, x: Tensor) -> Tensor:
    return m.f(x) + 1 if torch.is_inference_mode_enabled() else m.f(x)


def _no_grad(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        y = m.f(x).relu()
    return m.f(y)


def _no_grad_in_between(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    with torch.no_grad():
        scale = y.abs().amax(1, keepdim=True) + 1
    return y / scale


@torch.no_grad()
def _decorated(m: Any, x: Tensor) -> Tensor:
    return torch.relu(m.f(x)) + x


def _enable_grad(m: Any, x: Tensor) -> Tensor:
    with torch.enable_grad():
        return m.f(x) + x


def _set_grad_enabled(m: Any, x: Tensor) -> Tensor:
    with torch.set_grad_enabled(m.training):
        return m.f(x) * x


def _inference_mode(m: Any, x: Tensor) -> Tensor:
    with torch.inference_mode():
        return m.f(x) - x


def _autocast_off(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return m.f(x.float())


def _autocast_on(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m.f(x)
    return y.float()


def _autocast_of_other_device(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cuda", enabled=False):
        return m.f(x) * 2


def _profiled(m: Any, x: Tensor) -> Tensor:
    with torch.profiler.record_function("dense"):
        return m.f(x)


def _early_return(m: Any, x: Tensor) -> Tensor:
    if x.shape[1] > 4:
        return m.f(x)[:, :4]
    return m.f(x)


def _early_break(m: Any, x: Tensor) -> Tensor:
    for i in range(10):
        x = m.f(x)
        if i == 2:
            break
    return x


def _while_loop(m: Any, x: Tensor) -> Tensor:
    count = 0
    while count < 3:
        x = torch.tanh(m.f(x))
        count += 1
    return x


def _by_shape(m: Any, x: Tensor) -> Tensor:
    return m.f(x).sum(1) if x.dim() == 2 and x.size(0) % 2 == 0 else m.f(x)


def _by_dtype(m: Any, x: Tensor) -> Tensor:
    if x.dtype == torch.uint8:
        x = x.float() / 255
    return m.f(x)


def _by_values(m: Any, x: Tensor) -> Tensor:
    return m.f(x) if x.sum() > 0 else -m.f(x)


def _by_item(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * 2 if x.max().item() > 1 else m.f(x)


def _by_any(m: Any, x: Tensor) -> Tensor:
    return m.f(x) + 1 if (x > 2).any() else m.f(x)


def _item_as_factor(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * x.abs().max().item()


def _item_of_parameter(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * m.scale.item()


def _by_parameter(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * 2 if m.scale > 1 else m.f(x)


def _tolist(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * sum(m.scale.tolist())


def _loop_by_value(m: Any, x: Tensor, n: Tensor) -> Tensor:
    for _ in range(int(n)):
        x = m.f(x)
    return x


def _cond(m: Any, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda y: m.f(y), lambda y: -m.f(y), (x,))


def _cond_of_constant(m: Any, x: Tensor) -> Tensor:
    return torch.cond(x.shape[0] > 2, lambda y: m.f(y), lambda y: y, (x,))


def _where_instead(m: Any, x: Tensor) -> Tensor:
    return torch.where(x.sum() > 0, m.f(x), -m.f(x))


def _early_exit(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    first = m.f(x)
    return first, m.f(F.relu(first))


def _halting(m: Any, x: Tensor) -> Tensor:
    state, running = x, torch.ones(4, 1)
    for _ in range(3):
        state = torch.where(running > 0, torch.tanh(m.f(state)), state)
        running = running * (state.mean(1, keepdim=True) < 0.2).float()
    return state


def _asserts(m: Any, x: Tensor) -> Tensor:
    assert x.shape[-1] == 8, "eight features"
    return m.f(x)


def _asserts_values(m: Any, x: Tensor) -> Tensor:
    assert torch.isfinite(x).all(), "finite"
    return m.f(x)


def _torch_check(m: Any, x: Tensor) -> Tensor:
    torch._check(x.shape[0] == 4)  # noqa: SLF001
    return m.f(x)


def _raises(m: Any, x: Tensor) -> Tensor:
    if x.dim() != 2:
        raise ValueError(f"two dimensions, not {x.dim()}")
    return m.f(x)


def _tries(m: Any, x: Tensor) -> Tensor:
    try:
        return m.g(x)
    except AttributeError:
        return m.f(x)


def _prints(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    print("mean of the layer")
    return y


def _prints_values(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    print(f"shape {tuple(y.shape)}, mean {y.mean()}")
    return y


def _logs(m: Any, x: Tensor) -> Tensor:
    LOGGER.debug("shape %s", x.shape)
    return m.f(x)


def _logs_info(m: Any, x: Tensor) -> Tensor:
    LOGGER.info("a run")
    logging.getLogger("other").info("another")
    return m.f(x)


def _warns(m: Any, x: Tensor) -> Tensor:
    if x.shape[0] != 1:
        warnings.warn("more than one sample", stacklevel=2)
    return m.f(x)


def _deletes(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    z = y + x
    del y
    return z * 2


def _walrus(m: Any, x: Tensor) -> Tensor:
    return y * 2 if (y := m.f(x)).dim() == 2 else x


def _matches(m: Any, x: Tensor) -> Tensor:
    match x.shape:
        case (4, n):
            return m.f(x) * n
        case _:
            return x


def _reduced(m: Any, x: Tensor) -> Tensor:
    import functools

    return functools.reduce(torch.add, [m.f(x) * i for i in range(1, 4)])


def _generator(m: Any, x: Tensor) -> Tensor:
    return sum(m.f(row) for row in x.split(1)) + torch.zeros(1, 8)


def _sorted_by_constant(m: Any, x: Tensor) -> Tensor:
    return torch.cat([p for _, p in sorted(zip([2, 0, 1, 3], m.f(x).split(1), strict=True), key=lambda t: t[0])])


def _closure(m: Any, x: Tensor) -> Tensor:
    scale = x.shape[1]

    def inner(y: Tensor) -> Tensor:
        return y / scale

    return inner(m.f(x))


def _recursive(m: Any, x: Tensor, depth: int = 3) -> Tensor:
    return x if depth == 0 else _recursive(m, torch.tanh(m.f(x)), depth - 1)


def _checkpointed(m: Any, x: Tensor) -> Tensor:
    return torch.utils.checkpoint.checkpoint(m.f, x, use_reentrant=False)


def _contexts_nested(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        y = m.f(x)
        with torch.enable_grad():
            y = y + x
    return F.relu(y)


def _disabled(m: Any, x: Tensor) -> Tensor:
    return _not_compiled(m.f(x))


@torch.compiler.disable
def _not_compiled(x: Tensor) -> Tensor:
    return x * 2


CASES.vectors(
    is_training=_is_training,
    grad_enabled=_grad_enabled,
    requires_grad=_requires_grad,
    is_compiling=_is_compiling,
    is_exporting=_is_exporting,
    is_scripting=_is_scripting,
    is_inference=_is_inference,
    no_grad=_no_grad,
    no_grad_in_between=_no_grad_in_between,
    decorated_no_grad=_decorated,
    enable_grad=_enable_grad,
    set_grad_enabled=_set_grad_enabled,
    inference_mode=_inference_mode,
    autocast_off=_autocast_off,
    autocast_on=_autocast_on,
    autocast_of_other_device=_autocast_of_other_device,
    profiled=_profiled,
    early_return=_early_return,
    early_break=_early_break,
    while_loop=_while_loop,
    by_shape=_by_shape,
    by_dtype=_by_dtype,
    by_values=_by_values,
    by_item=_by_item,
    by_any=_by_any,
    item_as_factor=_item_as_factor,
    cond=_cond,
    cond_of_constant=_cond_of_constant,
    where_instead=_where_instead,
    early_exit=_early_exit,
    halting=_halting,
    asserts=_asserts,
    asserts_values=_asserts_values,
    torch_check=_torch_check,
    raises=_raises,
    tries=_tries,
    prints=_prints,
    prints_values=_prints_values,
    logs=_logs,
    logs_info=_logs_info,
    warns=_warns,
    deletes=_deletes,
    walrus=_walrus,
    matches=_matches,
    reduced=_reduced,
    generator=_generator,
    sorted_by_constant=_sorted_by_constant,
    closure=_closure,
    recursive=_recursive,
    checkpointed=_checkpointed,
    contexts_nested=_contexts_nested,
    disabled=_disabled,
    detach=lambda m, x: m.f(x).detach() + x,
    requires_grad_in_place=lambda m, x: m.f(x.requires_grad_(False)),
    dropout_in_evaluation=lambda m, x: F.dropout(m.f(x), 0.5, training=m.training),
    identity=lambda m, x: x,
    input_returned_beside=lambda m, x: (m.f(x), x),
    input_unused_in_part=lambda m, x: m.f(torch.zeros_like(x)) + x,
    constant_result=lambda m, x: torch.ones(4, 8) * 2,
    constant_beside=lambda m, x: (m.f(x), torch.arange(8)),
    item_instead=lambda m, x: m.f(x) * x.abs().max(),
)
for name, forward, scale in (
    ("item_of_parameter", _item_of_parameter, lambda: nn.Parameter(torch.tensor(1.5))),
    ("by_parameter", _by_parameter, lambda: nn.Parameter(torch.tensor(1.5))),
    ("by_buffer", _by_parameter, lambda: torch.tensor(0.5)),
    ("tolist", _tolist, lambda: torch.tensor([0.5, 1.0])),
):
    CASES.function(name, forward, VECTOR, f=dense, scale=scale)
CASES.function("loop_by_value", _loop_by_value, VECTOR, ints(4, 1), f=dense)
CASES.function("unused_input", lambda m, x, y: m.f(x), VECTOR, VECTOR, f=dense)


class Trained(nn.Module):
    """Layers that act otherwise in training, handed over in training mode or held in it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.c, self.norm, self.drop, self.how = nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), nn.Dropout(0.3), how
        nn.init.uniform_(self.norm.running_mean, -0.2, 0.2)
        nn.init.uniform_(self.norm.running_var, 0.6, 1.4)

    def train(self, mode: bool = True) -> "Trained":
        super().train(mode)
        if self.how == "frozen":
            self.norm.eval()
        if self.how == "always":
            self.norm.train()
        return self

    def forward(self, x: Tensor) -> Any:
        y = self.drop(self.norm(self.c(x)))
        return (y, y.mean(2)) if self.training else y


CASES.add("handed_over_in_training", lambda: Trained("plain"), SIGNAL, trains=True)
CASES.add("frozen_norm", lambda: Trained("frozen"), SIGNAL, trains=True)
CASES.add("norm_always_trains", lambda: Trained("always"), SIGNAL)


class Routed(nn.Module):
    """Calls layers by name, number or key."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.layers = nn.ModuleList([dense(), dense(), dense()])
        self.named = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(8)) for _ in range(3)])
        self.table = nn.ParameterDict({"a": nn.Parameter(torch.randn(8)), "b": nn.Parameter(torch.randn(8))})

    def forward(self, x: Tensor) -> Tensor:
        match self.how:
            case "loop":
                for layer in self.layers:
                    x = layer(x)
            case "reversed":
                for layer in reversed(self.layers):
                    x = self.named["relu"](layer(x))
            case "names":
                x = getattr(self, "named")["tanh"](self.layers[-1](x))
            case "slice":
                x = nn.Sequential(*self.layers[:2])(x)
            case "parameters":
                for weight in self.weights:
                    x = x * weight
            case "table":
                x = x * self.table["a"] + self.table["b"]
            case "children":
                x = sum(layer(x) for layer in self.layers.children())
            case "apply":
                x = x + sum(p.sum() for p in self.parameters() if p.dim() == 2)
            case _:
                x = x * self.state_dict()["table.a"]
        return x


class Flagged(nn.Module):
    """A layer whose result depends on a tensor in an attribute, which is no buffer and which no run changes."""

    def __init__(self, writes: str) -> None:
        super().__init__()
        self.layer, self.writes = dense(), writes
        self.flag = torch.tensor(1.0)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        if self.flag:
            y = y * 2
        match self.writes:
            case "value":
                self.flag = torch.tensor(1.0)
            case "clamped":
                self.flag = self.flag.clamp(max=1)
            case "input":
                self.flag = (x.abs().max() < 1e6).float()
            case _:
                pass
        return y


for writes in ("nothing", "value", "clamped", "input"):
    CASES.add(f"flag_with_{writes}_written", lambda writes=writes: Flagged(writes))
for how in ("loop", "reversed", "names", "slice", "parameters", "table", "children", "apply", "state_dict"):
    CASES.add(f"layers_by_{how}", lambda how=how: Routed(how))
CASES.add("sequential_with_lambda", lambda: nn.Sequential(dense(), Written(lambda m, x: x * 2, {}), nn.ReLU()))
CASES.add("sequential_of_images", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 5)), IMAGE)
