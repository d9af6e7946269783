"""Quantization and lowering for the CPU, over ExecuTorch's Cortex-M backend."""
