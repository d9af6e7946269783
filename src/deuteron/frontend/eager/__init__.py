"""The user's module as it runs in eager PyTorch: its outputs, its state, and whether an exported graph equals it."""
