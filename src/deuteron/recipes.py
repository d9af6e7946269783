"""ExecuTorch's export recipes for our targets; importing this module registers them."""

from deuteron.frontend.recipes import Recipe as Recipe

__all__ = ["Recipe"]
