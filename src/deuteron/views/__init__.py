"""One module per question to a build."""
