"""From a PyTorch module to a `.pte`: loading, quantizing, partitioning; PyTorch and ExecuTorch live here."""
