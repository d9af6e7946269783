"""The NPU's side of a build: ExecuTorch's NXP backend."""
