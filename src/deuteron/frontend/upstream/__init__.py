"""The private names of PyTorch, torchao and ExecuTorch: declared in `names`, read, replaced and checked by `access`."""
