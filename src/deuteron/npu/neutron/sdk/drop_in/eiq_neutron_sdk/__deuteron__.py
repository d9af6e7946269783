"""Says, by being there, that the package is Deuteron's."""
