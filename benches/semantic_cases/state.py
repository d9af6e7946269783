"""State in every form that real modules keep it in, and blocks that hide it: what changes from run to run is refused."""

import itertools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import torch
from semantic_cases.case import IMAGE, SIGNAL, VECTOR, Cases, Written, conv, dense
from torch import Tensor, nn
from torch.nn import functional as F

CASES = Cases("state")
GLOBAL: dict[str, Any] = {}


def keeps(name: str, forward: Callable[..., Any], *inputs: Any, **kept: Callable[[], Any]) -> None:
    """Add a function of a vector whose module keeps something beside a linear layer `m.f`."""
    CASES.function(name, forward, *(inputs or (VECTOR,)), f=dense, **kept)


def zeros(*shape: int) -> Callable[[], Tensor]:
    """What makes zeros."""
    return lambda: torch.zeros(shape or (4, 8))


def with_global(name: str, forward: Callable[..., Any], **values: Any) -> None:
    """Add a function that reads and writes module-level state."""

    def make() -> nn.Module:
        GLOBAL.clear()
        GLOBAL.update(values)
        return Written(forward, {"f": dense})

    CASES.add(name, make, VECTOR)


def _buffer_copied(m: Any, x: Tensor) -> Tensor:
    y = m.f(x) + m.h
    m.h.copy_(y)
    return y


def _buffer_added(m: Any, x: Tensor) -> Tensor:
    m.h += 1
    return m.f(x) * m.h


def _buffer_assigned(m: Any, x: Tensor) -> Tensor:
    m.h = 0.5 * m.h + m.f(x)
    return m.h


def _buffer_set_by_data(m: Any, x: Tensor) -> Tensor:
    y = m.f(x) + m.h
    m.h.data = y.detach()
    return y


def _buffer_data_copied(m: Any, x: Tensor) -> Tensor:
    y = m.f(x) + m.h
    m.h.data.copy_(y)
    return y


def _buffer_swapped(m: Any, x: Tensor) -> Tensor:
    m.a, m.b = m.b, m.a
    return m.f(x) * m.a


def _buffer_rolled(m: Any, x: Tensor) -> Tensor:
    m.h = torch.cat([m.h[1:], m.f(x)[:1]])
    return m.h.mean(0)


def _buffer_indexed(m: Any, x: Tensor) -> Tensor:
    m.h[0] = m.f(x)[0]
    return m.h * 2


def _buffer_rolled_in_place(m: Any, x: Tensor) -> Tensor:
    m.h[:, :-1] = m.h[:, 1:].clone()
    m.h[:, -1] = m.f(x)[:, 0]
    return m.h * 1.0


def _buffer_through_unbind(m: Any, x: Tensor) -> Tensor:
    m.h.unbind(0)[0].add_(1.0)
    return m.f(x) + m.h


def _buffer_through_view(m: Any, x: Tensor) -> Tensor:
    m.h.view(-1)[:8].mul_(0.5)
    return m.f(x) + m.h


def _buffer_under_no_grad(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        m.h.mul_(0.9).add_(m.f(x).mean(0), alpha=0.1)
    return m.f(x) - m.h


def _buffer_under_inference_mode(m: Any, x: Tensor) -> Tensor:
    with torch.inference_mode():
        m.h.add_(1)
    return m.f(x) * m.h


def _buffer_zeroed(m: Any, x: Tensor) -> Tensor:
    y = m.f(x) + m.h
    m.h.zero_()
    return y


def _buffer_filled_then_read(m: Any, x: Tensor) -> Tensor:
    m.h.fill_(2.0)
    return m.f(x) * m.h


def _buffer_copied_then_read(m: Any, x: Tensor) -> Tensor:
    m.h.copy_(m.f(x))
    return torch.relu(m.h)


def _buffer_assigned_then_read(m: Any, x: Tensor) -> Tensor:
    m.h = m.f(x)
    return F.relu(m.h) + m.h


def _buffer_registered(m: Any, x: Tensor) -> Tensor:
    if not hasattr(m, "first"):
        m.register_buffer("first", m.f(x).detach())
    return m.f(x) - m.first


def _parameter_changed(m: Any, x: Tensor) -> Tensor:
    y = m.f(x)
    with torch.no_grad():
        m.f.weight.mul_(0.9)
    return y


def _parameter_data_changed(m: Any, x: Tensor) -> Tensor:
    m.f.weight.data.mul_(0.5)
    return m.f(x)


def _weight_clipped(m: Any, x: Tensor) -> Tensor:
    m.f.weight.data.clamp_(-0.2, 0.2)
    return m.f(x)


def _counter(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    return m.f(x) * m.n


def _warm_up(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    return m.f(x) if m.n <= 2 else m.f(x) * 2


def _counter_only_counted(m: Any, x: Tensor) -> Tensor:
    m.n += 1
    return m.f(x)


def _tensor_counter(m: Any, x: Tensor) -> Tensor:
    m.steps += 1
    return m.f(x) / m.steps


def _tensor_counter_only_counted(m: Any, x: Tensor) -> Tensor:
    m.steps += 1
    return m.f(x)


def _attribute_none_at_first(m: Any, x: Tensor) -> Tensor:
    m.last = m.f(x) if m.last is None else 0.5 * m.last + m.f(x)
    return m.last


def _attribute_previous(m: Any, x: Tensor) -> Tensor:
    difference = x - m.last
    m.last = x
    return m.f(difference)


def _attribute_tuple(m: Any, x: Tensor) -> Tensor:
    h, c = m.state
    c = torch.sigmoid(m.f(x)) * c + torch.tanh(x)
    h = torch.tanh(c) + h
    m.state = (h, c)
    return h


def _attribute_list_appended(m: Any, x: Tensor) -> Tensor:
    m.seen.append(m.f(x))
    return torch.stack(list(m.seen)).mean(0)


def _attribute_list_replaced(m: Any, x: Tensor) -> Tensor:
    y = m.f(x) + m.seen[0]
    m.seen[0] = y
    return y


def _attribute_dict(m: Any, x: Tensor) -> Tensor:
    y = m.f(x) + m.cache.get("y", 0.0)
    m.cache["y"] = y
    return y


def _attribute_deque(m: Any, x: Tensor) -> Tensor:
    m.window.append(m.f(x))
    return sum(m.window) / len(m.window)


def _attribute_iterator(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * next(m.numbers)


def _attribute_generator(m: Any, x: Tensor) -> Tensor:
    return m.f(x) + m.cycle.__next__()


def _attribute_counter(m: Any, x: Tensor) -> Tensor:
    m.calls["all"] += 1
    return m.f(x) + m.calls["all"]


def _attribute_set(m: Any, x: Tensor) -> Tensor:
    m.shapes.add((x.shape, len(m.shapes)))
    return m.f(x) * len(m.shapes)


def _attribute_default_dict(m: Any, x: Tensor) -> Tensor:
    m.sums["x"] = m.sums["x"] + m.f(x)
    return m.sums["x"] * 1.0


def _attribute_string(m: Any, x: Tensor) -> Tensor:
    m.mode += "a"
    return m.f(x) * len(m.mode)


def _flag_toggled(m: Any, x: Tensor) -> Tensor:
    m.odd = not m.odd
    return m.f(x) if m.odd else -m.f(x)


def _initialised_at_first(m: Any, x: Tensor) -> Tensor:
    if not m.is_initialised:
        m.scale = x.std()
        m.is_initialised = True
    return m.f(x) / m.scale


def _cached_mask(m: Any, x: Tensor) -> Tensor:
    if m.mask is None:
        m.mask = torch.tril(torch.ones(8, 8))
    return m.f(x) @ m.mask


def _cached_by_shape(m: Any, x: Tensor) -> Tensor:
    if x.shape not in m.cache:
        m.cache[x.shape] = torch.arange(x.shape[1]).float()
    return m.f(x) + m.cache[x.shape]


def _kept_for_inspection(m: Any, x: Tensor) -> Tensor:
    m.last = m.f(x)
    return torch.relu(m.last)


def _kept_in_list_and_cleared(m: Any, x: Tensor) -> Tensor:
    m.seen.clear()
    m.seen.append(m.f(x))
    m.seen.append(x)
    return torch.cat(list(m.seen), 1)


def _kept_in_new_list(m: Any, x: Tensor) -> Tensor:
    m.features = []
    for i in range(3):
        m.features.append(m.f(x) * i)
    return torch.cat(m.features, 1)


def _kept_in_dict(m: Any, x: Tensor) -> Tensor:
    m.cache["x"] = m.f(x)
    return m.cache["x"].relu()


def _global_counter(m: Any, x: Tensor) -> Tensor:
    GLOBAL["n"] += 1
    return m.f(x) * GLOBAL["n"]


def _global_tensor(m: Any, x: Tensor) -> Tensor:
    GLOBAL["h"] = m.f(x) + GLOBAL["h"]
    return GLOBAL["h"]


def _global_only_read(m: Any, x: Tensor) -> Tensor:
    return m.f(x) * GLOBAL["factor"]


def _function_attribute(m: Any, x: Tensor) -> Tensor:
    GLOBAL["function"].calls = getattr(GLOBAL["function"], "calls", 0) + 1
    return m.f(x) * GLOBAL["function"].calls


def _helper() -> None:
    """Something with attributes."""


keeps("buffer_copied", _buffer_copied, h=zeros())
keeps("buffer_added", _buffer_added, h=zeros())
keeps("buffer_assigned", _buffer_assigned, h=zeros())
keeps("buffer_set_by_data", _buffer_set_by_data, h=zeros())
keeps("buffer_data_copied", _buffer_data_copied, h=zeros())
keeps("buffer_swapped", _buffer_swapped, a=lambda: torch.ones(8), b=lambda: torch.full((8,), 2.0))
keeps("buffer_rolled", _buffer_rolled, h=zeros())
keeps("buffer_indexed", _buffer_indexed, h=zeros())
keeps("buffer_rolled_in_place", _buffer_rolled_in_place, h=zeros())
keeps("buffer_through_unbind", _buffer_through_unbind, h=zeros())
keeps("buffer_through_view", _buffer_through_view, h=lambda: torch.ones(4, 8))
keeps("buffer_under_no_grad", _buffer_under_no_grad, h=zeros(8))
keeps("buffer_under_inference_mode", _buffer_under_inference_mode, h=zeros(8))
keeps("buffer_zeroed", _buffer_zeroed, h=lambda: torch.ones(8))
keeps("buffer_filled_then_read", _buffer_filled_then_read, h=zeros())
keeps("buffer_copied_then_read", _buffer_copied_then_read, h=zeros())
keeps("buffer_assigned_then_read", _buffer_assigned_then_read, h=zeros())
keeps("buffer_registered", _buffer_registered)
keeps("parameter_changed", _parameter_changed)
keeps("parameter_data_changed", _parameter_data_changed)
keeps("weight_clipped", _weight_clipped)
keeps("counter", _counter, n=lambda: 0)
keeps("warm_up", _warm_up, n=lambda: 0)
keeps("counter_only_counted", _counter_only_counted, n=lambda: 0)
keeps("tensor_counter", _tensor_counter, steps=lambda: torch.tensor(0))
keeps("tensor_counter_only_counted", _tensor_counter_only_counted, steps=lambda: torch.tensor(0))
keeps("attribute_none_at_first", _attribute_none_at_first, last=lambda: None)
keeps("attribute_previous", _attribute_previous, last=lambda: 0.0)
keeps("attribute_tuple", _attribute_tuple, state=lambda: (torch.zeros(4, 8), torch.zeros(4, 8)))
keeps("attribute_list_appended", _attribute_list_appended, seen=list)
keeps("attribute_list_replaced", _attribute_list_replaced, seen=lambda: [torch.zeros(4, 8)])
keeps("attribute_dict", _attribute_dict, cache=dict)
keeps("attribute_deque", _attribute_deque, window=lambda: deque(maxlen=3))
keeps("attribute_iterator", _attribute_iterator, numbers=lambda: itertools.count(1))
keeps("attribute_generator", _attribute_generator, cycle=lambda: itertools.cycle((1.0, -1.0)))
keeps("attribute_counter", _attribute_counter, calls=Counter)
keeps("attribute_set", _attribute_set, shapes=set)
keeps("attribute_default_dict", _attribute_default_dict, sums=lambda: defaultdict(float))
keeps("attribute_string", _attribute_string, mode=str)
keeps("flag_toggled", _flag_toggled, odd=lambda: False)
keeps("initialised_at_first", _initialised_at_first, is_initialised=lambda: False)
keeps("cached_mask", _cached_mask, mask=lambda: None)
keeps("cached_by_shape", _cached_by_shape, cache=dict)
keeps("kept_for_inspection", _kept_for_inspection, last=lambda: None)
keeps("kept_in_list_and_cleared", _kept_in_list_and_cleared, seen=list)
keeps("kept_in_new_list", _kept_in_new_list)
keeps("kept_in_dict", _kept_in_dict, cache=OrderedDict)
with_global("global_counter", _global_counter, n=0)
with_global("global_tensor", _global_tensor, h=0.0)
with_global("global_only_read", _global_only_read, factor=1.5)
with_global("function_attribute", _function_attribute, function=lambda: None)


class ClassCounter(nn.Module):
    """Counts calls of all its instances."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).calls = 0
        self.f = dense()

    def forward(self, x: Tensor) -> Tensor:
        ClassCounter.calls += 1
        return self.f(x) * ClassCounter.calls


class Leaky(nn.Module):
    """A leaky integrate-and-fire neuron with its membrane in the module."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.f, self.how = dense(), how
        self.membrane: Any = torch.zeros(4, 8)
        if how == "buffer":
            del self.membrane
            self.register_buffer("membrane", torch.zeros(4, 8))
        elif how == "none":
            self.membrane = None

    def forward(self, x: Tensor) -> Tensor:
        if self.membrane is None:
            self.membrane = torch.zeros_like(x)
        membrane = 0.9 * self.membrane + self.f(x)
        spikes = (membrane > 1.0).float()
        membrane = membrane - spikes
        if self.how == "in place":
            self.membrane.copy_(membrane)
        else:
            self.membrane = membrane
        return spikes


class SpikesOverTime(nn.Module):
    """A leaky neuron over the steps of a signal, whose membrane starts anew in each run."""

    def __init__(self) -> None:
        super().__init__()
        self.f = dense(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        membrane, spikes = torch.zeros(x.shape[0], 4), []
        for t in range(x.shape[2]):
            membrane = 0.8 * membrane + self.f(x[:, :, t])
            fired = (membrane > 0.3).float()
            membrane = membrane * (1 - fired)
            spikes.append(fired)
        return torch.stack(spikes, 2).mean(2)


class ResetsItself(nn.Module):
    """Sets its state to zeros before it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.h = dense(4, 4), None

    def reset(self, x: Tensor) -> None:
        """Zeros."""
        self.h = torch.zeros(x.shape[0], 4)

    def forward(self, x: Tensor) -> Tensor:
        self.reset(x)
        for t in range(4):
            self.h = torch.tanh(self.f(x[:, :, t]) + self.h)
        return self.h


class Hooked(nn.Module):
    """A layer with a hook."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.f, self.count, self.kept = dense(), 0, {}
        if how == "state":
            self.f.register_forward_hook(self._counts)
        elif how == "pre":
            self.f.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
        elif how == "pure":
            self.f.register_forward_hook(lambda _, args, y: y + args[0])
        else:
            self.f.register_forward_hook(self._keeps)

    def _counts(self, _: nn.Module, args: Any, y: Tensor) -> Tensor:
        self.count += 1
        return y * self.count

    def _keeps(self, _: nn.Module, args: Any, y: Tensor) -> None:
        self.kept["f"] = y

    def forward(self, x: Tensor) -> Tensor:
        y = self.f(x)
        return y + self.kept["f"] if self.kept else y


class RunningNormal(nn.Module):
    """Normalises by running statistics that it goes on to measure."""

    def __init__(self, measures: bool) -> None:
        super().__init__()
        self.c, self.measures = conv(), measures
        self.register_buffer("mean", torch.zeros(1, 8, 1, 1))
        self.register_buffer("var", torch.ones(1, 8, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.c(x)
        if self.measures:
            self.mean.lerp_(y.mean((0, 2, 3), keepdim=True), 0.1)
            self.var.lerp_(y.var((0, 2, 3), keepdim=True), 0.1)
        return (y - self.mean) / (self.var + 1e-5).sqrt()


class KeyValueCache(nn.Module):
    """Attends to the keys and values of former runs."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.q, self.k, self.v, self.how, self.past, self.at = dense(), dense(), dense(), how, None, 0
        self.register_buffer("keys", torch.zeros(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        k, v = self.k(x), self.v(x)
        if self.how == "tuple":
            if self.past is not None:
                k, v = torch.cat([self.past[0][-4:], k]), torch.cat([self.past[1][-4:], v])
            self.past = (k, v)
        else:
            self.keys[self.at : self.at + 1] = k[:1]
            self.at = (self.at + 1) % 8
            k = self.keys[:4] + k
        return (self.q(x) @ k.t() / 8**0.5).softmax(-1) @ v


class StatefulCell(nn.Module):
    """An LSTM that keeps its state, or a GRU cell."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell: Any = nn.LSTM(4, 8, batch_first=True) if kind == "lstm" else nn.GRUCell(4, 8)
        self.kind, self.state = kind, None

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "lstm":
            y, self.state = self.cell(x.transpose(1, 2), self.state)
            return y
        self.state = self.cell(x[:, :, 0], self.state)
        return self.state


class Streaming(nn.Module):
    """A causal convolution that keeps the end of the signal of the former run."""

    def __init__(self, is_buffer: bool) -> None:
        super().__init__()
        self.c, self.is_buffer = nn.Conv1d(4, 8, 3), is_buffer
        if is_buffer:
            self.register_buffer("past", torch.zeros(1, 4, 2))
        else:
            self.past = torch.zeros(1, 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        whole = torch.cat([self.past, x], 2)
        if self.is_buffer:
            self.past.copy_(whole[:, :, -2:])
        else:
            self.past = whole[:, :, -2:]
        return self.c(whole)


class Random(nn.Module):
    """Draws numbers in a way that no dropout layer shows."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.f, self.how = dense(), how

    def forward(self, x: Tensor) -> Tensor:
        y = self.f(x)
        match self.how:
            case "no_grad":
                with torch.no_grad():
                    return y + torch.randn_like(y)
            case "dropout":
                return F.dropout(y, 0.5)
            case "bernoulli":
                return y * torch.bernoulli(torch.full_like(y, 0.5))
            case "permutation":
                return y[:, torch.randperm(8)]
            case "normal in place":
                return y + torch.empty(4, 8).normal_()
            case _:
                return y + torch.rand(1).item()


class ReplacesItself(nn.Module):
    """Changes its own layers in forward."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layers, self.how = nn.ModuleList([dense(), dense()]), how

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "order":
            self.layers = nn.ModuleList(reversed(list(self.layers)))
        else:
            self.layers[0].bias = nn.Parameter(self.layers[0].bias + 1)
        return torch.relu(self.layers[0](x)) + self.layers[1](x)


class Child(nn.Module):
    """A layer that writes what its parent reads."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.out = dense(), None

    def forward(self, x: Tensor) -> Tensor:
        self.out = self.f(x)
        return torch.relu(self.out)


class ReadsChild(nn.Module):
    """Reads what its child kept: of this run, or of the one before."""

    def __init__(self, is_before: bool) -> None:
        super().__init__()
        self.child, self.is_before = Child(), is_before
        self.child.out = torch.zeros(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        if self.is_before:
            before = self.child.out
            return self.child(x) + before
        y = self.child(x)
        return y + self.child.out


CASES.add("class_counter", ClassCounter)
for how in ("buffer", "none", "in place", "attribute"):
    CASES.add(f"leaky_neuron_{how.replace(' ', '_')}", lambda how=how: Leaky(how))
CASES.add("spikes_over_time", SpikesOverTime, SIGNAL)
CASES.add("resets_itself", ResetsItself, SIGNAL)
for how in ("state", "pre", "pure", "keeps"):
    CASES.add(f"hook_{how}", lambda how=how: Hooked(how))
CASES.add("running_normal_measures", lambda: RunningNormal(True), IMAGE)
CASES.add("running_normal_fixed", lambda: RunningNormal(False), IMAGE)
CASES.add("cache_of_tuples", lambda: KeyValueCache("tuple"))
CASES.add("cache_in_buffer", lambda: KeyValueCache("buffer"))
CASES.add("stateful_lstm", lambda: StatefulCell("lstm"), SIGNAL)
CASES.add("stateful_gru_cell", lambda: StatefulCell("gru"), SIGNAL)
CASES.add("streaming_buffer", lambda: Streaming(True), SIGNAL)
CASES.add("streaming_attribute", lambda: Streaming(False), SIGNAL)
for how in ("order", "bias"):
    CASES.add(f"replaces_{how}", lambda how=how: ReplacesItself(how))
CASES.add("reads_child", lambda: ReadsChild(False))
CASES.add("reads_child_before", lambda: ReadsChild(True))
for how in ("no_grad", "dropout", "bernoulli", "permutation", "normal in place", "item"):
    CASES.add(f"random_{how.replace(' ', '_')}", lambda how=how: Random(how))
