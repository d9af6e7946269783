"""Embeddings with a maximum norm: a run shortens the rows that it reads, which gives the same as shorter rows."""

from collections import Counter
from typing import Any

import torch
from torch import nn


def shorten(module: nn.Module) -> bool:
    """Shorten all rows of the embeddings of a copied module that are too long; true if there are any.

    Tables that other modules share stay, because those read rows before an embedding shortens them.
    """
    parts: list[nn.Module] = [*module.modules()]
    found: list[Any] = [part for part in parts if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
    shares = Counter(id(value) for part in parts for value in part.parameters(recurse=False))
    limited = [one for one in found if one.max_norm is not None and shares[id(one.weight)] == 1]
    for one in limited:
        rows = torch.arange(one.num_embeddings)
        with torch.no_grad():
            torch.embedding_renorm_(one.weight, rows, one.max_norm, one.norm_type)
        one.max_norm = None
    return bool(limited)
