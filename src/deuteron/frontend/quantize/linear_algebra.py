"""Functions of small matrices, and covariances, as sums of products."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

aten = torch.ops.aten

MOST_ROWS = 3
"""The number of rows up to which determinants and inverses are written as their formulas."""


def cross(x: Any, y: Any, dim: int | None = None) -> Any:
    """Return the cross product along a dimension of three elements, the first of these if none is given."""
    if dim is None:
        dim = -1 if 3 not in x.shape else [*x.shape].index(3)
    (a, b, c), (d, e, f) = x.split(1, dim), y.split(1, dim)
    return torch.cat([b * f - c * e, c * d - a * f, a * e - b * d], dim)


def _determinant(x: Any) -> Any:
    if x.shape[-1] == 1:
        return x[..., 0, 0]
    if x.shape[-1] == 2:
        return x[..., 0, 0] * x[..., 1, 1] - x[..., 0, 1] * x[..., 1, 0]
    first, second, third = x.unbind(-2)
    return (first * cross(second, third, -1)).sum(-1)


def _inverse(x: Any) -> Any:
    """Return the adjugate, divided by the determinant."""
    if x.shape[-1] == 1:
        return 1 / x
    if x.shape[-1] == 2:
        (a, b), (c, d) = (row.split(1, -1) for row in x.split(1, -2))
        return torch.cat([torch.cat([d, -b], -1), torch.cat([-c, a], -1)], -2) / (a * d - b * c)
    divisor = _determinant(x).unsqueeze(-1).unsqueeze(-1)
    first, second, third = x.unbind(-2)
    return torch.stack([cross(second, third, -1), cross(third, first, -1), cross(first, second, -1)], -1) / divisor


def _solution(x: Any, y: Any, *, left: bool = True) -> Any:
    inverse = _inverse(x)
    if y.dim() == 1 or y.shape == x.shape[:-1]:
        return (inverse @ y.unsqueeze(-1)).squeeze(-1)
    return inverse @ y if left else y @ inverse


def covariance(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Compute `torch.cov`, in which PyTorch looks at values of its weights and of its divisor."""
    rows = x if x.dim() == 2 else x.reshape(1, -1)
    rows = rows if rows.is_floating_point() or rows.is_complex() else rows.float()
    given = [one for one in (fweights, aweights) if one is not None]
    if not given:
        rest = rows - rows.mean(1, keepdim=True)
        products, count = rest @ rest.conj().t(), max(rows.shape[1] - correction, 0)
    else:
        weights = given[0] if len(given) == 1 else given[0] * given[1]
        total = weights.sum()
        rest = rows - (rows * weights).sum(1, keepdim=True) / total
        lost = correction if aweights is None else correction * (weights * aweights).sum() / total
        products, count = (rest * weights) @ rest.conj().t(), total - lost
    return (products / count).squeeze()


def correlation(x: Any) -> Any:
    """Compute `torch.corrcoef`."""
    products = covariance(x)
    if not products.dim():
        return products / products
    deviations = products.diagonal().sqrt()
    return (products / deviations.unsqueeze(1) / deviations).clamp(-1, 1)


FORMS: Mapping[object, Callable[..., Any]] = {
    **dict.fromkeys((aten.det.default, aten.linalg_det.default), _determinant),
    **dict.fromkeys((aten.inverse.default, aten.linalg_inv.default), _inverse),
    aten.linalg_solve.default: _solution,
}
"""Functions of matrices of at most `MOST_ROWS` rows, written with other operators."""
