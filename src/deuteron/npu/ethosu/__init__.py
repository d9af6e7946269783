"""Arm Ethos-U: what a partition of ExecuTorch's Ethos-U backend contains, decoded. Its command stream is Vela's."""
