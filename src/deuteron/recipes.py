"""ExecuTorch's export recipes for our targets; importing this module puts them into ExecuTorch's registry."""

from deuteron.frontend.recipes import Recipe as Recipe

__all__ = ["Recipe"]
