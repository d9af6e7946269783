"""Arm Ethos-U: decodes partitions of ExecuTorch's Ethos-U backend, whose command streams Vela makes."""
