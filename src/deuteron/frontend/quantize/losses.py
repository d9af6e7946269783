"""Losses with operators that int8 has: those of classes are sums over the classes."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

aten = torch.ops.aten

_MEAN = 1
"""The number of the reduction `mean`; 0 is none, 2 the sum."""


def _negative_log_likelihood(
    logs: Any, target: Any, weight: Any = None, reduction: int = _MEAN, ignore_index: int = -100
) -> Any:
    return _of_classes(_classes_last(logs), target, weight, reduction, ignore_index, 0.0)


def _cross_entropy(
    scores: Any,
    target: Any,
    weight: Any = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    logs = _classes_last(scores).log_softmax(-1)
    if not target.is_floating_point():
        return _of_classes(logs, target, weight, reduction, ignore_index, label_smoothing)
    losses = _smoothed(logs, _classes_last(target), weight, label_smoothing, 1)
    return _of_all(losses, reduction)


def _of_classes(logs: Any, target: Any, weight: Any, reduction: int, ignore_index: int, label_smoothing: float) -> Any:
    """Return the losses of the class numbers in `target`; the mean weighs each by its class, and ignores some."""
    is_kept = target != ignore_index
    is_target = ((target.unsqueeze(-1) == torch.arange(logs.shape[-1])) & is_kept.unsqueeze(-1)).to(logs.dtype)
    losses = _smoothed(logs, is_target, weight, label_smoothing, is_kept.to(logs.dtype))
    weights = is_target if weight is None else is_target * weight
    return _reduced(losses, reduction, _sum(weights) if reduction == _MEAN else 1)


def _smoothed(logs: Any, shares: Any, weight: Any, label_smoothing: float, is_kept: Any) -> Any:
    """Return the losses of shares of the classes, and of equal shares, which have another range in int8."""
    logs = logs if weight is None else logs * weight
    losses = -(logs * shares).sum(-1)
    if not label_smoothing:
        return losses
    return losses * (1 - label_smoothing) - logs.mean(-1) * is_kept * label_smoothing


def _margin(x: Any, target: Any, p: float = 1, margin: float = 1, weight: Any = None, reduction: int = _MEAN) -> Any:
    """Return the mean excess of other classes over the class in `target`, less a margin."""
    is_target = target.unsqueeze(-1) == torch.arange(x.shape[-1])
    own = (x * is_target.to(x.dtype)).sum(-1, keepdim=True)
    losses = torch.where(is_target, 0.0, (margin - own + x).clamp(min=0) ** p)
    factors = 1 if weight is None else (is_target * weight).sum(-1, keepdim=True)
    return _of_all((losses * factors).mean(-1), reduction)


def _ranking(x: Any, y: Any, target: Any, margin: float = 0.0, reduction: int = _MEAN) -> Any:
    return _of_all((margin - target * (x - y)).clamp(min=0), reduction)


def _hinge(x: Any, target: Any, margin: float = 1.0, reduction: int = _MEAN) -> Any:
    excess = torch.where(target != 1, (margin - x).clamp(min=0), 0.0)
    return _of_all(excess + torch.where(target != -1, x, 0.0), reduction)


def _of_cosines(x: Any, y: Any, target: Any, margin: float = 0.0, reduction: int = _MEAN) -> Any:
    x, y = (one / one.norm(dim=-1, keepdim=True).clamp(min=1e-6) for one in (x, y))
    cosines = (x * y).sum(-1)
    losses = torch.where(target == 1, 1 - cosines, torch.where(target == -1, (cosines - margin).clamp(min=0), 0.0))
    return _of_all(losses, reduction)


def _poisson(x: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    losses = x.exp() - target * x if log_input else x - target * (x + eps).log()
    if full:  # Stirling's approximation of the logarithm of a factorial
        large = target.clamp(min=1)
        losses = losses + torch.where(target > 1, large * large.log() - large + 0.5 * (2 * math.pi * large).log(), 0.0)
    return _of_all(losses, reduction)


def _of_all(losses: Any, reduction: int) -> Any:
    return _reduced(losses, reduction, max(losses.numel(), 1))


def _reduced(losses: Any, reduction: int, count: Any) -> Any:
    if reduction == 0:
        return losses
    return _sum(losses) / count if reduction == _MEAN else _sum(losses)


def _sum(x: Any) -> Any:
    return x.sum([*range(x.dim())]) if x.dim() else x


def _classes_last(x: Any) -> Any:
    """Return scores with the classes, which are dimension 1 of samples, as the last dimension."""
    return x.movedim(1, -1) if x.dim() > 2 else x


FORMS: Mapping[object, Callable[..., Any]] = {
    aten.cross_entropy_loss.default: _cross_entropy,
    aten.cosine_embedding_loss.default: _of_cosines,
    aten.hinge_embedding_loss.default: _hinge,
    aten.margin_ranking_loss.default: _ranking,
    aten.multi_margin_loss.default: _margin,
    aten.poisson_nll_loss.default: _poisson,
    aten.nll_loss.default: _negative_log_likelihood,
    aten.nll_loss_nd.default: _negative_log_likelihood,
    aten.nll_loss2d.default: _negative_log_likelihood,
}
"""The losses, written with other operators."""
