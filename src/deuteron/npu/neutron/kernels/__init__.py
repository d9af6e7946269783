"""Kernels of the Neutron: catalogue, costs, selection for linking."""
