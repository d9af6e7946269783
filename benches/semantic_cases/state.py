"""State that a module keeps in buffers, attributes and variables: what changes from run to run is refused."""

import itertools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import VECTOR, Cases, Written, dense

CASES = Cases("state")
GLOBAL: dict[str, Any] = {}


def keeps(name: str, forward: Callable[..., Any], *inputs: Any, **kept: Callable[[], Any]) -> None:
    """Add a function of a vector whose module keeps state and has a linear layer `m.f`."""
    CASES.function(name, forward, *(inputs or (VECTOR,)), f=dense, **kept)


def zeros(*shape: int) -> Callable[[], Tensor]:
    """Return a factory of zeros."""
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
