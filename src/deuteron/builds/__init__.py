"""What a build is: its manifest, options and files, free of PyTorch."""
