"""Attention in all styles, products of tensors, positions, and recurrent networks."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from semantic_cases.case import SIGNAL, TOKENS, VECTOR, Cases, Written, bools, dense

CASES = Cases("sequences")
LONG = (1, 5, 8)


def _heads(x: Tensor, count: int = 2) -> Tensor:
    return x.view(*x.shape[:-1], count, -1).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def attends(name: str, scores: Callable[[Tensor, Tensor], Tensor], **parts: Any) -> None:
    """Add attention of two heads whose shares a function makes of queries and keys."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = (_heads(part) for part in m.qkv(x).chunk(3, -1))
        return m.out(_joined(scores(q, k) @ v))

    CASES.function(name, forward, TOKENS, qkv=partial(dense, 8, 24), out=dense, **parts)


def flash(name: str, **options: Any) -> None:
    """Add attention by PyTorch's own function."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = (_heads(part) for part in m.qkv(x).split(8, -1))
        return m.out(_joined(F.scaled_dot_product_attention(q, k, v, **options)))

    CASES.function(name, forward, TOKENS, qkv=partial(dense, 8, 24), out=dense)


CAUSAL = torch.tril(torch.ones(6, 6, dtype=torch.bool))


def _raw(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def _alibi(q: Tensor, k: Tensor) -> Tensor:
    distance = torch.arange(6)[None, :] - torch.arange(6)[:, None]
    slopes = torch.tensor([0.5, 0.25]).view(2, 1, 1)
    return (_raw(q, k) + slopes * distance.abs().neg()).softmax(-1)


def _local(q: Tensor, k: Tensor) -> Tensor:
    far = (torch.arange(6)[:, None] - torch.arange(6)[None]).abs() > 2
    return _raw(q, k).masked_fill(far, -1e4).softmax(-1)


def _cosine(q: Tensor, k: Tensor) -> Tensor:
    return (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * 4).softmax(-1)


def _linear(q: Tensor, k: Tensor) -> Tensor:
    shares = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-2, -1)
    return shares / shares.sum(-1, keepdim=True)


attends("attention", lambda q, k: _raw(q, k).softmax(-1))
attends("attention_scaled_first", lambda q, k: ((q * 0.5) @ k.mT).softmax(-1))
attends("attention_infinite_mask", lambda q, k: _raw(q, k).masked_fill(~CAUSAL, float("-inf")).softmax(-1))
attends("attention_large_mask", lambda q, k: _raw(q, k).masked_fill(~CAUSAL, -1e9).softmax(-1))
attends("attention_least_mask", lambda q, k: _raw(q, k).masked_fill(~CAUSAL, torch.finfo().min).softmax(-1))
attends("attention_added_mask", lambda q, k: (_raw(q, k) + torch.full((6, 6), float("-inf")).triu(1)).softmax(-1))
attends("attention_where_mask", lambda q, k: torch.where(CAUSAL, _raw(q, k), -1e9).softmax(-1))
attends("attention_multiplied_mask", lambda q, k: _raw(q, k).softmax(-1) * CAUSAL)
attends("attention_tril_mask", lambda q, k: _raw(q, k).masked_fill(torch.ones(6, 6).tril() == 0, -1e9).softmax(-1))
attends("attention_alibi", _alibi)
attends("attention_local", _local)
attends("attention_cosine", _cosine)
attends("attention_linear", _linear)
attends("attention_sigmoid", lambda q, k: _raw(q, k).sigmoid() / 6)
attends("attention_relu_squared", lambda q, k: F.relu(_raw(q, k)).square() / 6)
attends("attention_softmax_plus_one", lambda q, k: F.softmax(F.pad(_raw(q, k), (0, 1)), -1)[..., :-1])
attends("attention_max_subtracted", lambda q, k: _by_hand(_raw(q, k)))
attends("attention_capped", lambda q, k: (4 * torch.tanh(_raw(q, k) / 4)).softmax(-1))
attends("attention_float_softmax", lambda q, k: F.softmax(_raw(q, k), dim=-1, dtype=torch.float32))
attends("attention_by_einsum", lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k).div(2).softmax(-1))
attends("attention_by_matmul_out", lambda q, k: torch.matmul(q, k.permute(0, 1, 3, 2)).mul_(0.5).softmax(-1))
attends("attention_top_two", lambda q, k: _kept(_raw(q, k)).softmax(-1))
flash("flash")
flash("flash_causal", is_causal=True)
flash("flash_scaled", scale=0.25)
flash("flash_bool_mask", attn_mask=CAUSAL)
flash("flash_float_mask", attn_mask=torch.zeros(6, 6).masked_fill(~CAUSAL, -1e4))
flash("flash_infinite_mask", attn_mask=torch.zeros(6, 6).masked_fill(~CAUSAL, float("-inf")))
flash("flash_dropout_zero", dropout_p=0.0)


def _by_hand(scores: Tensor) -> Tensor:
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def _kept(scores: Tensor) -> Tensor:
    least = scores.topk(2, -1).values[..., -1:]
    return scores.masked_fill(scores < least, -20.0)


def _multi_query(m: Any, x: Tensor) -> Tensor:
    q = _heads(m.q(x))
    k, v = m.kv(x).unsqueeze(1).chunk(2, -1)
    return _joined(F.scaled_dot_product_attention(q, k.expand(1, 2, 6, 4), v.expand(1, 2, 6, 4)))


def _grouped_query(m: Any, x: Tensor) -> Tensor:
    q = _heads(m.q(x), 4)
    k, v = (_heads(part, 2).repeat_interleave(2, 1) for part in m.kv(x).chunk(2, -1))
    return _joined(F.scaled_dot_product_attention(q, k, v))


def _rotary(x: Tensor) -> Tensor:
    angles = torch.arange(6.0)[:, None] * (0.1 ** torch.arange(2.0))[None]
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def _rotary_attention(m: Any, x: Tensor) -> Tensor:
    q, k, v = (_heads(part) for part in m.qkv(x).chunk(3, -1))
    return _joined(F.scaled_dot_product_attention(_rotary(q), _rotary(k), v))


def _rotary_interleaved(m: Any, x: Tensor) -> Tensor:
    even, odd = m.f(x)[..., ::2], m.f(x)[..., 1::2]
    angles = torch.arange(6.0)[:, None] * (0.1 ** torch.arange(4.0))[None]
    return torch.stack(
        [even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()], -1
    ).flatten(-2)


def _rotary_complex(m: Any, x: Tensor) -> Tensor:
    pairs = torch.view_as_complex(m.f(x).reshape(1, 6, 4, 2))
    angles = torch.arange(6.0)[:, None] * torch.ones(4)[None]
    return torch.view_as_real(pairs * torch.polar(torch.ones(6, 4), angles)).flatten(2)


def _sinusoidal(m: Any, x: Tensor) -> Tensor:
    at = torch.arange(x.shape[1]).unsqueeze(1)
    rate = torch.exp(torch.arange(0, 8, 2) * (-math.log(10000.0) / 8))
    table = torch.zeros(6, 8)
    table[:, 0::2] = torch.sin(at * rate)
    table[:, 1::2] = torch.cos(at * rate)
    return m.f(x) + table


def _window_partition(m: Any, x: Tensor) -> Tensor:
    y = m.f(x).view(1, 3, 2, 8).flatten(0, 1)
    y = (y @ y.mT / 8**0.5).softmax(-1) @ y
    return y.view(1, 6, 8)


def _pooled_by_attention(m: Any, x: Tensor) -> Tensor:
    shares = m.f(x).mean(-1, keepdim=True).softmax(1)
    return (shares * x).sum(1)


def _class_token(m: Any, x: Tensor) -> Tensor:
    return m.f(torch.cat([m.token.expand(x.shape[0], -1, -1), x], 1))[:, 0]


def _time_shift(m: Any, x: Tensor) -> Tensor:
    past = F.pad(x, (0, 0, 1, -1))
    return torch.sigmoid(m.f(x * 0.6 + past * 0.4)) * m.f(past)


def _scan(m: Any, x: Tensor) -> Tensor:
    state, out = torch.zeros(1, 8), []
    for t in range(6):
        state = torch.sigmoid(m.f(x[:, t])) * state + x[:, t]
        out.append(state)
    return torch.stack(out, 1)


def _retention(m: Any, x: Tensor) -> Tensor:
    decay = 0.9 ** (torch.arange(6.0)[:, None] - torch.arange(6.0)[None]).clamp(min=0) * CAUSAL
    return (m.f(x) @ x.mT * decay) @ x


CASES.tokens(
    rotary_interleaved=_rotary_interleaved,
    rotary_complex=_rotary_complex,
    sinusoidal=_sinusoidal,
    window_partition=_window_partition,
    pooled_by_attention=_pooled_by_attention,
    time_shift=_time_shift,
    scan=_scan,
    retention=_retention,
    gram=lambda m, x: m.f(x) @ m.f(x).mT,
    bmm=lambda m, x: torch.bmm(m.f(x), x.transpose(1, 2)),
    baddbmm=lambda m, x: torch.baddbmm(torch.ones(1, 6, 6), m.f(x), x.mT, beta=0.5, alpha=2.0),
    einsum_sum=lambda m, x: torch.einsum("btc->bc", m.f(x)),
    einsum_outer=lambda m, x: torch.einsum("btc,bsc->bts", m.f(x), x),
    einsum_diagonal=lambda m, x: torch.einsum("btc,btc->bt", m.f(x), x),
    einsum_with_weight=lambda m, x: torch.einsum("btc,dc->btd", x, m.f.weight),
    einsum_ellipsis=lambda m, x: torch.einsum("...c,dc->...d", x, m.f.weight),
    tensordot=lambda m, x: torch.tensordot(m.f(x), m.f.weight, dims=([2], [1])),
    matmul_with_vector=lambda m, x: m.f(x) @ m.f.bias,
    inner=lambda m, x: torch.inner(x, m.f.weight),
    weight_first=lambda m, x: m.f.weight @ x.mT,
    cumulative_mean=lambda m, x: m.f(x).cumsum(1) / torch.arange(1, 7).view(1, 6, 1),
    shifted_difference=lambda m, x: m.f(x)[:, 1:] - m.f(x)[:, :-1],
    reversed_time=lambda m, x: torch.cat([m.f(x), m.f(x.flip(1))], -1),
    unfolded_frames=lambda m, x: m.f(x).unfold(1, 3, 1).mean(-1),
    swiglu=lambda m, x: F.silu(m.f(x)[..., :4]) * m.f(x)[..., 4:],
    glu=lambda m, x: F.glu(m.f(x), -1),
    distances=lambda m, x: torch.cdist(m.f(x), x),
    squared_distances=lambda m, x: (m.f(x)[:, :, None] - x[:, None]).square().sum(-1),
)
CASES.vectors(
    outer=lambda m, x: torch.outer(m.f(x)[0], x[0]),
    addmm=lambda m, x: torch.addmm(m.f.bias, x, m.f.weight, beta=0.5, alpha=2),
    mv=lambda m, x: torch.mv(m.f.weight, x[0]),
    dot=lambda m, x: torch.dot(m.f(x)[0], x[1]),
    kron=lambda m, x: torch.kron(m.f(x), torch.tensor([1.0, -1.0])),
    pairwise_distance=lambda m, x: F.pairwise_distance(m.f(x), x),
    bilinear_by_hand=lambda m, x: (m.f(x) * x).sum(-1, keepdim=True),
    mse_loss=lambda m, x: F.mse_loss(m.f(x), x),
    smooth_l1=lambda m, x: F.smooth_l1_loss(m.f(x), x),
    binary_cross_entropy=lambda m, x: F.binary_cross_entropy_with_logits(m.f(x), (x > 0).float()),
    chain_of_products=lambda m, x: torch.linalg.multi_dot([x, m.f.weight, m.f.weight.t()]),
)
CASES.function("bilinear", lambda m, x: m.b(x, m.f(x)), VECTOR, f=dense, b=lambda: nn.Bilinear(8, 8, 3))
CASES.function("multi_query", _multi_query, TOKENS, q=dense, kv=dense)
CASES.function("grouped_query", _grouped_query, TOKENS, q=dense, kv=lambda: dense(8, 8))
CASES.function("rotary_attention", _rotary_attention, TOKENS, qkv=partial(dense, 8, 24))
CASES.function("class_token", _class_token, TOKENS, f=dense, token=lambda: nn.Parameter(torch.randn(1, 1, 8)))
CASES.function("padding_mask_input", lambda m, x, b: (m.f(x) @ x.mT).masked_fill(b[:, None], -9.0).softmax(-1) @ x,
               TOKENS, bools(1, 6), f=dense)  # fmt: skip


def multihead(name: str, call: Callable[[Any, Tensor], Any], **options: Any) -> None:
    """Add PyTorch's own attention layer."""
    CASES.function(name, call, TOKENS, a=lambda: nn.MultiheadAttention(8, 2, batch_first=True, **options))


multihead("multihead", lambda m, x: m.a(x, x, x))
multihead("multihead_without_weights", lambda m, x: m.a(x, x, x, need_weights=False)[0])
multihead("multihead_each_weight", lambda m, x: m.a(x, x, x, average_attn_weights=False)[1])
multihead("multihead_causal", lambda m, x: m.a(x, x, x, attn_mask=~CAUSAL, need_weights=False)[0])
multihead("multihead_float_mask", lambda m, x: m.a(x, x, x, attn_mask=(~CAUSAL).float() * -10, need_weights=False)[0])
multihead("multihead_without_bias", lambda m, x: m.a(x, x, x)[0], bias=False)
multihead("multihead_added_bias", lambda m, x: m.a(x, x, x)[0], add_bias_kv=True)
multihead("multihead_zero_attention", lambda m, x: m.a(x, x, x)[0], add_zero_attn=True)
multihead("multihead_cross", lambda m, x: m.a(x[:, :2], x, x)[0])
multihead("multihead_other_sizes", lambda m, x: m.a(x, x[..., :4], x[..., 4:])[0], kdim=4, vdim=4)


def encoder(name: str, **options: Any) -> None:
    """Add PyTorch's encoder layer."""
    CASES.add(name, lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options), TOKENS)


encoder("encoder")
encoder("encoder_norm_first", norm_first=True)
encoder("encoder_gelu", activation="gelu")
encoder("encoder_function", activation=F.silu)


def _stack() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)


CASES.add("encoder_stack", _stack, TOKENS)
CASES.function("decoder", lambda m, x, y: m.d(x, y), LONG, TOKENS,
               d=lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True))  # fmt: skip


def recurrent(name: str, make: Callable[..., nn.Module], call: Callable[[Any, Tensor], Any], **options: Any) -> None:
    """Add a recurrent layer of 4 inputs and 6 units, which gets time last as its second dimension."""
    CASES.function(name, call, SIGNAL, r=lambda: make(4, 6, **{"batch_first": True, **options}))


def _all(m: Any, x: Tensor) -> Any:
    return m.r(x.transpose(1, 2))[0]


def _last(m: Any, x: Tensor) -> Any:
    return m.r(x.transpose(1, 2))[0][:, -1]


def _packed(m: Any, x: Tensor) -> Any:
    packed = nn.utils.rnn.pack_padded_sequence(x.transpose(1, 2), torch.tensor([16]), batch_first=True)
    return nn.utils.rnn.pad_packed_sequence(m.r(packed)[0], batch_first=True)[0]


for kind, layer in {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}.items():
    recurrent(f"{kind}_all", layer, _all)
    recurrent(f"{kind}_last", layer, _last)
    recurrent(f"{kind}_final_state", layer, lambda m, x: m.r(x.transpose(1, 2))[1])
    recurrent(f"{kind}_two_layers", layer, _last, num_layers=2)
    recurrent(f"{kind}_both_ways", layer, _all, bidirectional=True)
    recurrent(f"{kind}_without_bias", layer, _last, bias=False)
    recurrent(f"{kind}_time_first", layer, lambda m, x: m.r(x.permute(2, 0, 1))[0], batch_first=False)
recurrent("rnn_relu", nn.RNN, _last, nonlinearity="relu")
recurrent("lstm_projected", nn.LSTM, _last, proj_size=3)
recurrent("lstm_given_state", nn.LSTM, lambda m, x: m.r(x.mT, (torch.ones(1, 1, 6), torch.zeros(1, 1, 6)))[0])
recurrent("gru_given_state", nn.GRU, lambda m, x: m.r(x.mT, torch.full((1, 1, 6), 0.5))[0])
recurrent("lstm_packed", nn.LSTM, _packed)


def _cell_loop(m: Any, x: Tensor) -> Tensor:
    h = c = torch.zeros(1, 6)
    for t in range(5):
        h, c = m.r(x[:, :, t], (h, c))
    return h


def _gru_loop(m: Any, x: Tensor) -> Tensor:
    h, out = None, []
    for t in range(5):
        h = m.r(x[:, :, t], h)
        out.append(h)
    return torch.stack(out)


def _lstm_by_hand(m: Any, x: Tensor) -> Tensor:
    h, c = torch.zeros(1, 8), torch.zeros(1, 8)
    for t in range(5):
        i, f, g, o = (m.x(x[..., t]) + m.h(h)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return torch.cat([h, c], 1)


CASES.function("lstm_cell_loop", _cell_loop, SIGNAL, r=lambda: nn.LSTMCell(4, 6))
CASES.function("gru_cell_loop", _gru_loop, SIGNAL, r=lambda: nn.GRUCell(4, 6))
CASES.function("lstm_by_hand", _lstm_by_hand, SIGNAL, x=lambda: dense(4, 32), h=lambda: dense(8, 32))
CASES.add("lstm_alone", lambda: Written(lambda m, x: m.r(x), {"r": lambda: nn.LSTM(8, 6, batch_first=True)}), TOKENS)

CASES.function(
    "learned_queries",
    lambda m, x: F.scaled_dot_product_attention(m.q.expand(1, -1, -1), m.f(x), x),
    TOKENS,
    f=dense,
    q=lambda: nn.Parameter(torch.randn(1, 3, 8)),
)
CASES.function("vector_first", lambda m, x: m.f.bias @ m.f(x).transpose(1, 2), TOKENS, f=dense)
CASES.function(
    "rows_left_out",
    lambda m, x, b: m.f(x).masked_fill(b, -torch.inf).softmax(-1).nan_to_num(0.0),
    VECTOR,
    bools(4, 1),
    f=dense,
)
CASES.function(
    "flash_rows_left_out",
    lambda m, x: F.scaled_dot_product_attention(m.f(x), x, x, (torch.arange(6) > 1)[:, None].expand(6, 6)),
    TOKENS,
    f=dense,
)
