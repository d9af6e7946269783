"""The TFLite interpreter under the name that it had before it was called LiteRT."""
