"""A small language model that writes English a letter at a time, with its keys and values as state.

It has the parts of a Llama: root mean square norms, rotary positions, causal attention and gated linear units. Its
263,872 parameters learn from the topics of Python's `help`. Training takes about a minute on a laptop.
"""

from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn import functional

LETTERS = "".join(map(chr, range(32, 127))) + "\n"
"""The vocabulary: printable ASCII."""

WIDTH, HEADS, LAYERS, HIDDEN, LENGTH = 64, 4, 5, 176, 96
HEAD = WIDTH // HEADS


def rotations() -> Tensor:
    """Return the cosines, then the sines, of each position's angles."""
    angles = torch.arange(LENGTH)[:, None] * 10000.0 ** -(torch.arange(HEAD // 2) / (HEAD // 2))
    angles = torch.cat([angles, angles], 1)
    return torch.cat([angles.cos(), angles.sin()], 1)


class Norm(nn.Module):
    """A root mean square norm."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x: Tensor, turn: Tensor) -> Tensor:
    """Rotate heads [..., heads, HEAD] by the angles of their positions, [..., 1, 2 * HEAD]."""
    first, second = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return x * turn[..., :HEAD] + torch.cat([-second, first], -1) * turn[..., HEAD:]


class Layer(nn.Module):
    """Attention and a gated linear unit."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def heads(self, x: Tensor, turn: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, [positions, heads, HEAD] each."""
        x = self.before(x)
        query, key, value = (one(x).unflatten(-1, (HEADS, HEAD)) for one in (self.query, self.key, self.value))
        return rotated(query, turn), rotated(key, turn), value

    def forward(self, x: Tensor, heads: Tensor) -> Tensor:
        """Return the result for the attention's heads, [positions, WIDTH]."""
        x = x + self.out(heads)
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """One letter to the scores of the next; earlier keys and values are buffers."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.letters, self.norm = nn.Embedding(len(LETTERS), WIDTH), Norm()
        self.layers = nn.ModuleList([Layer() for _ in range(layers)])
        self.scores = nn.Linear(WIDTH, len(LETTERS), bias=False)
        self.register_buffer("turns", rotations(), persistent=False)
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64), persistent=False)
        for i in range(layers):
            self.register_buffer(f"keys{i}", torch.zeros(HEADS, LENGTH, HEAD), persistent=False)
            self.register_buffer(f"values{i}", torch.zeros(HEADS, LENGTH, HEAD), persistent=False)

    def whole(self, letters: Tensor) -> Tensor:
        """Return the scores after each letter, [batch, positions]; for training."""
        x, turn = self.letters(letters), self.turns[: letters.shape[1], None]
        for layer in self.layers:
            query, key, value = (one.transpose(1, 2) for one in layer.heads(x, turn))
            y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = layer(x, y.transpose(1, 2).flatten(2))
        return self.scores(self.norm(x))

    def forward(self, letter: Tensor) -> Tensor:
        """Return the scores [1, len(LETTERS)] of the next letter after one, [1] of int64."""
        places = torch.arange(LENGTH)
        is_new = (places == self.position)[None, :, None]
        is_later = (places > self.position)[None, None]
        turn = functional.embedding(self.position, self.turns)[:, None]
        x = self.letters(letter)
        for i, layer in enumerate(self.layers):
            query, key, value = (one.transpose(0, 1) for one in layer.heads(x, turn))
            keys = torch.where(is_new, key, self.get_buffer(f"keys{i}"))
            values = torch.where(is_new, value, self.get_buffer(f"values{i}"))
            self.get_buffer(f"keys{i}").copy_(keys)
            self.get_buffer(f"values{i}").copy_(values)
            weights = (query @ keys.transpose(1, 2) * HEAD**-0.5).masked_fill(is_later, float("-inf"))
            x = layer(x, (torch.softmax(weights, -1) @ values).transpose(0, 1).flatten(1))
        self.position.add_(1)
        return self.scores(self.norm(x))


def text() -> Tensor:
    """Return the letters of Python's help."""
    known = {letter: i for i, letter in enumerate(LETTERS)}
    return torch.tensor([known[letter] for topic in topics.values() for letter in topic if letter in known])


def trained(steps: int, layers: int = LAYERS) -> Decoder:
    """Return a decoder after so many steps of training."""
    torch.manual_seed(0)
    decoder, letters = Decoder(layers), text()
    optimizer = torch.optim.AdamW(decoder.parameters(), 3e-3)
    for step in range(steps):
        start = torch.randint(len(letters) - LENGTH - 1, (16,), generator=torch.Generator().manual_seed(step))
        window = letters[start[:, None] + torch.arange(LENGTH + 1)]
        loss = functional.cross_entropy(decoder.whole(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return decoder


def sequence(start: int) -> list[tuple[Tensor]]:
    """Return the letters of the text from one on, as the inputs of a sequence of runs."""
    letters = text()[start : start + LENGTH]
    return [(letters[i : i + 1],) for i in range(LENGTH)]


def net(steps: int = 600, layers: int = LAYERS) -> tuple[nn.Module, Tensor, list[list[tuple[Tensor]]]]:
    """Return the decoder, an example letter, and sequences of letters for calibration."""
    return trained(steps, layers), text()[:1], [sequence(start) for start in (0, 200000)]
