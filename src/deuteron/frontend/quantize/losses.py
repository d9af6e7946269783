"""Classification losses as sums over the classes, which int8 operators compute."""

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
    return _reduced(losses, reduction, max(losses.numel(), 1))


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
    aten.nll_loss.default: _negative_log_likelihood,
    aten.nll_loss_nd.default: _negative_log_likelihood,
    aten.nll_loss2d.default: _negative_log_likelihood,
}
"""The losses, written with other operators."""
