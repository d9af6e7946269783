"""Rewrites float models for quantization, and quantizes them after training or with training."""
