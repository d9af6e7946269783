"""Embeddings with a maximum norm: a run shortens the rows that it reads, which gives the same as shorter rows."""

from collections import Counter
from typing import Any, cast

import torch
from torch import nn

from deuteron.errors import UnsupportedError

ONCE = "shorten the table once, with `torch.renorm(table, 2, 0, max_norm)`, and leave out `max_norm`"


def shorten(module: nn.Module) -> bool:
    """Shorten all rows of the embeddings of a copied module that are too long; true if there are any.

    Raises:
        UnsupportedError: another module shares the table: it reads rows before an embedding shortens them.
    """
    parts = cast("list[tuple[str, nn.Module]]", [*cast(Any, module).named_modules()])
    found: list[tuple[str, Any]] = [
        (name, one) for name, one in parts if isinstance(one, nn.Embedding | nn.EmbeddingBag)
    ]
    shares = Counter(id(value) for _, part in parts for value in part.parameters(recurse=False))
    limited = [(name, one) for name, one in found if one.max_norm is not None]
    for name, one in limited:
        rows, before = torch.arange(one.num_embeddings), one.weight.detach().clone()
        with torch.no_grad():
            torch.embedding_renorm_(one.weight, rows, one.max_norm, one.norm_type)
        if shares[id(one.weight)] > 1 and not torch.equal(before, one.weight):
            raise UnsupportedError(
                "each run shortens rows of a table that another layer shares, to `max_norm`",
                where=f"[{name}] {type(one).__name__}",
                hint=ONCE,
            )
        one.max_norm = None
    return bool(limited)
