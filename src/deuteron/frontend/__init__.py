"""From a PyTorch module to a `.pte`: loading, quantising, partitioning; PyTorch and ExecuTorch live here."""
