"""Modules with state: neurons, caches, streams, hooks, random numbers and layers that change themselves."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import IMAGE, SIGNAL, Cases, conv, dense

CASES = Cases("stateful")


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
    """A leaky neuron over the steps of a signal, whose membrane starts at zero in each run."""

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
