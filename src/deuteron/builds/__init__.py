"""Build directories: manifest, options and files, free of PyTorch."""
