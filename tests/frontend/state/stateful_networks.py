"""Networks that keep state in the forms that PyTorch programs use, each with one row of eight numbers as input."""

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 8

Forward = Callable[[Any, Tensor], Tensor]


class Keeps(nn.Module):
    """Runs a function on the result of a layer; `attributes` are buffers if they are tensors."""

    def __init__(self, function: Forward, **attributes: object) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.function = function
        for name, value in attributes.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, self.layer(x))


def row() -> Tensor:
    return torch.zeros(1, WIDTH)


def rows(count: int = 4) -> Tensor:
    return torch.zeros(count, WIDTH)


def position() -> Tensor:
    return torch.zeros(1, dtype=torch.int64)


def copied(m: Any, x: Tensor) -> Tensor:
    y = torch.relu(x + 0.5 * m.h)
    m.h.copy_(y)
    return y


def assigned(m: Any, x: Tensor) -> Tensor:
    m.h = 0.5 * m.h + x
    return m.h


def added(m: Any, x: Tensor) -> Tensor:
    m.h.mul_(0.5).add_(x)
    return torch.relu(m.h)


def augmented(m: Any, x: Tensor) -> Tensor:
    m.h *= 0.5
    m.h += x
    return m.h * 2


def concatenated(m: Any, x: Tensor) -> Tensor:
    m.cache = torch.cat([m.cache[1:], x])
    return m.cache.sum(0, keepdim=True)


def rolled(m: Any, x: Tensor) -> Tensor:
    m.cache = torch.roll(m.cache, -1, 0)
    m.cache[-1:] = x
    return m.cache.mean(0, keepdim=True)


def sliced(m: Any, x: Tensor) -> Tensor:
    m.cache[:-1] = m.cache[1:].clone()
    m.cache[-1] = x[0]
    return m.cache.sum(0, keepdim=True)


def filled(m: Any, x: Tensor) -> Tensor:
    y = x - m.h
    m.h[:] = x
    return y


def halves(m: Any, x: Tensor) -> Tensor:
    y = x + m.h
    m.h[:, :4] = x[:, 4:]
    m.h[:, 4:] = x[:, :4]
    return y


def through_a_view(m: Any, x: Tensor) -> Tensor:
    m.h.view(2, 4)[0].add_(x[0, :4])
    return m.h + x


def placed_ring(m: Any, x: Tensor) -> Tensor:
    m.cache[m.at] = x[0]
    m.at = (m.at + 1) % 4
    return m.cache.mean(0, keepdim=True)


def placed_columns(m: Any, x: Tensor) -> Tensor:
    m.cache[:, m.at] = x[0, :4]
    m.at += 1
    m.at %= 8
    return m.cache.sum(0, keepdim=True)


def place() -> Tensor:
    return torch.zeros((), dtype=torch.int64)


class Viewed(Keeps):
    """An attribute that is a view of a buffer, and changes it."""

    def __init__(self) -> None:
        super().__init__(viewed, cache=rows())
        self.middle = self.cache[1:3]


def viewed(m: Any, x: Tensor) -> Tensor:
    m.middle.mul_(0.5).add_(x)
    return m.cache.sum(0, keepdim=True)


def ring(m: Any, x: Tensor) -> Tensor:
    m.cache.index_copy_(0, m.at, x)
    m.at.add_(1).remainder_(4)
    return m.cache.sum(0, keepdim=True)


def put(m: Any, x: Tensor) -> Tensor:
    m.cache[m.at] = x
    m.at = (m.at + 1) % 4
    return m.cache.sum(0, keepdim=True)


def put_by_operator(m: Any, x: Tensor) -> Tensor:
    m.cache.index_put_((m.at,), x)
    m.at.copy_((m.at + 1) % 4)
    return m.cache.sum(0, keepdim=True)


def selected(m: Any, x: Tensor) -> Tensor:
    mask = (torch.arange(4) == m.at).unsqueeze(1)
    m.cache = torch.where(mask, x, m.cache)
    m.at = (m.at + 1) % 4
    return m.cache.sum(0, keepdim=True)


def counted(m: Any, x: Tensor) -> Tensor:
    m.count += 1
    return torch.where(m.count > 3, x * 2, x)


def counted_to(m: Any, x: Tensor) -> Tensor:
    y = torch.where(m.count > 2, x * 2, x)
    m.count = (m.count + 1).clamp(max=5)
    return y


def flagged(m: Any, x: Tensor) -> Tensor:
    y = torch.where(m.seen, x * 0.5, x)
    m.seen.logical_or_(x.amax() > 0.1)
    return y


def flagged_rarely(m: Any, x: Tensor) -> Tensor:
    y = torch.where(m.seen, x * 0.5, x)
    m.seen = m.seen | (x.amax() > 100.0)
    return y


def flagged_rarely_in_place(m: Any, x: Tensor) -> Tensor:
    y = torch.where(m.seen, x * 0.5, x)
    m.seen.logical_or_(x.amax() > 100.0)
    return y


def started(m: Any, x: Tensor) -> Tensor:
    m.h = torch.where(m.seen, 0.5 * m.h + 0.5 * x, x)
    m.seen = torch.tensor([True])
    return m.h


def delayed(m: Any, x: Tensor) -> Tensor:
    y = m.older + x
    m.older = m.old
    m.old = x
    return y


def swapped(m: Any, x: Tensor) -> Tensor:
    m.old, m.older = m.older, 0.5 * m.old + x
    return m.old + x


def returned_before(m: Any, x: Tensor) -> Tensor:
    y = m.h
    m.h = x
    return y


def tupled(m: Any, x: Tensor) -> Tensor:
    h, c = m.pair
    c = 0.5 * c + x
    h = torch.tanh(c + h)
    m.pair = (h, c)
    return h


def queued(m: Any, x: Tensor) -> Tensor:
    m.frames.append(x)
    return torch.cat([*m.frames]).mean(0, keepdim=True)


def shifted(m: Any, x: Tensor) -> Tensor:
    m.frames.pop(0)
    m.frames.append(x)
    return sum(m.frames)


def looked_up(m: Any, x: Tensor) -> Tensor:
    for key in ("a", "b"):
        x = 0.5 * m.kept.get(key, torch.zeros_like(x)) + x
        m.kept[key] = x
    return x


def from_number(m: Any, x: Tensor) -> Tensor:
    m.mem = 0.5 * m.mem + x
    spike = (m.mem > 0.3).float()
    m.mem = m.mem - spike
    return spike


def from_numbers(m: Any, x: Tensor) -> Tensor:
    h, c = m.pair
    m.pair = (0.5 * h + x, 0.5 * c + 2 * x)
    return m.pair[0] * m.pair[1]


def from_ones(m: Any, x: Tensor) -> Tensor:
    if m.h is None:
        m.h = torch.ones(1, WIDTH)
    m.h = 0.5 * m.h + x
    return m.h * 2


def from_the_first(m: Any, x: Tensor) -> Tensor:
    m.h = x if m.h is None else 0.5 * m.h + x
    return m.h * 2


def flagged_in_python(m: Any, x: Tensor) -> Tensor:
    if m.is_first:
        m.h.copy_(x)
        m.is_first = False
    else:
        m.h.mul_(0.5).add_(x)
    return m.h * 2


def change(m: Any, x: Tensor) -> Tensor:
    y = torch.zeros_like(x) if m.old is None else x - m.old
    m.old = x
    return y + x


def ring_of_an_integer(m: Any, x: Tensor) -> Tensor:
    m.cache[m.at] = x[0]
    m.at = (m.at + 1) % 4
    return m.cache.mean(0, keepdim=True)


def every_other(m: Any, x: Tensor) -> Tensor:
    m.is_odd = not m.is_odd
    if m.is_odd:
        m.h = torch.tanh(x)
    return m.h + x


class Recurrent(nn.Module):
    """A recurrent layer whose hidden state is an attribute that starts as None."""

    def __init__(self, layer: type[nn.GRU | nn.LSTM | nn.RNN]) -> None:
        super().__init__()
        self.layer = layer(WIDTH, WIDTH, batch_first=True)
        self.state = None

    def forward(self, x: Tensor) -> Tensor:
        y, self.state = self.layer(x[:, None], self.state)
        return y[:, 0]


class Cell(nn.Module):
    """A recurrent cell whose hidden state is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.register_buffer("h", row(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.h = self.cell(x, self.h)
        return self.h


class Convolved(nn.Module):
    """A causal convolution over the frames of a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3)
        self.register_buffer("frames", torch.zeros(1, WIDTH, 2))

    def forward(self, x: Tensor) -> Tensor:
        window = torch.cat([self.frames, x[:, :, None]], 2)
        self.frames.copy_(window[:, :, 1:])
        return functional.relu(self.conv(window))[:, :, 0]


class Smoothed(nn.Module):
    """A layer with a bias that reads a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 4)
        self.register_buffer("s", row())

    def forward(self, x: Tensor) -> Tensor:
        self.s = 0.9 * self.s + 0.1 * x
        return self.layer(self.s)


class Classified(nn.Module):
    """A recurrent cell whose hidden state is a buffer, with a layer that reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.classes = nn.GRUCell(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        self.register_buffer("h", row())

    def forward(self, x: Tensor) -> Tensor:
        self.h = self.cell(x, self.h)
        return self.classes(self.h)


class Numbered(nn.Module):
    """The result of a layer, and twice the number of the run."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("count", position())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.count += 1
        return self.layer(x), 2 * self.count


FORMS: dict[str, Callable[[], nn.Module]] = {
    "copied": lambda: Keeps(copied, h=row()),
    "assigned": lambda: Keeps(assigned, h=row()),
    "added": lambda: Keeps(added, h=row() + 0.25),
    "augmented": lambda: Keeps(augmented, h=row()),
    "concatenated": lambda: Keeps(concatenated, cache=rows()),
    "rolled": lambda: Keeps(rolled, cache=rows()),
    "sliced": lambda: Keeps(sliced, cache=rows()),
    "filled": lambda: Keeps(filled, h=row()),
    "halves": lambda: Keeps(halves, h=row()),
    "through_a_view": lambda: Keeps(through_a_view, h=row()),
    "viewed": Viewed,
    "ring": lambda: Keeps(ring, cache=rows(), at=position()),
    "placed_ring": lambda: Keeps(placed_ring, cache=rows(), at=place()),
    "placed_columns": lambda: Keeps(placed_columns, cache=rows(), at=place()),
    "put": lambda: Keeps(put, cache=rows(), at=position()),
    "put_by_operator": lambda: Keeps(put_by_operator, cache=rows(), at=position()),
    "selected": lambda: Keeps(selected, cache=rows(), at=position()),
    "counted": lambda: Keeps(counted, count=position()),
    "counted_to": lambda: Keeps(counted_to, count=position()),
    "flagged": lambda: Keeps(flagged, seen=torch.zeros(1, dtype=torch.bool)),
    "flagged_rarely": lambda: Keeps(flagged_rarely, seen=torch.zeros(1, dtype=torch.bool)),
    "flagged_rarely_in_place": lambda: Keeps(flagged_rarely_in_place, seen=torch.zeros(1, dtype=torch.bool)),
    "started": lambda: Keeps(started, h=row(), seen=torch.zeros(1, dtype=torch.bool)),
    "delayed": lambda: Keeps(delayed, old=row(), older=row()),
    "swapped": lambda: Keeps(swapped, old=row(), older=row()),
    "returned_before": lambda: Keeps(returned_before, h=row()),
    "tupled": lambda: Keeps(tupled, pair=(row(), row())),
    "queued": lambda: Keeps(queued, frames=deque([row()] * 3, maxlen=3)),
    "shifted": lambda: Keeps(shifted, frames=[row(), row() + 1]),
    "looked_up": lambda: Keeps(looked_up, kept={}),
    "from_number": lambda: Keeps(from_number, mem=0.0),
    "from_numbers": lambda: Keeps(from_numbers, pair=(1, 0.5)),
    "from_ones": lambda: Keeps(from_ones, h=None),
    "from_the_first": lambda: Keeps(from_the_first, h=None),
    "flagged_in_python": lambda: Keeps(flagged_in_python, h=row(), is_first=True),
    "change": lambda: Keeps(change, old=None),
    "filled_deque": lambda: Keeps(queued, frames=deque(maxlen=3)),
    "ring_of_an_integer": lambda: Keeps(ring_of_an_integer, cache=rows(), at=0),
    "every_other": lambda: Keeps(every_other, h=row(), is_odd=False),
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "rnn": lambda: Recurrent(nn.RNN),
    "cell": Cell,
    "convolved": Convolved,
    "smoothed": Smoothed,
    "classified": Classified,
}
