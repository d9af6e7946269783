"""Cuts graphs into stripes of rows that run depth first, before another compiler or runtime gets them."""
