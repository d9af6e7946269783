"""Rewrites float models for quantisation, and quantises them after training or with training."""
