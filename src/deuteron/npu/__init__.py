"""NPU families."""
