"""The CPU's side of a build: ExecuTorch's Cortex-M backend."""
