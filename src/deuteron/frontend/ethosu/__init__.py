"""Arm Ethos-U's side of a build: ExecuTorch's unmodified Arm backend, and Vela."""
