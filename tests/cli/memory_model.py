"""A small model for commands about memory: two convolutions and a linear layer."""

MODEL = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 16, 3, padding=1)
        self.c = nn.Linear(16, 10)

    def forward(self, x):
        x = self.a(x).relu()
        x = self.b(x).relu()
        return self.c(x.mean((2, 3)))


def net():
    torch.manual_seed(0)
    return Net(), (torch.randn(1, 3, 16, 16),), [(torch.randn(1, 3, 16, 16),)]
"""
