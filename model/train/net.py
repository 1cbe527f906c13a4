"""The model: llama's architecture, with the rotary pairs adjacent as GGUF's llama has them, so q and k export as they are.

The rotary base is a hundred million: with 32 pairs a head and 2,048 positions, half of the pairs hardly turn, and a
question can be matched with a fact by what it is wherever it stands; the others tell places apart.
"""
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Config:
    vocab: int = 2283
    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 4
    head: int = 64
    hidden: int = 384
    base: float = 1e8
    window: int = 2048
    eps: float = 1e-5


def rotary(config, length):
    """Cosines and sines, (length, head/2), in double precision first."""
    pair = torch.arange(0, config.head, 2, dtype=torch.float64) / config.head
    angle = torch.arange(length, dtype=torch.float64)[:, None] * config.base ** -pair
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """Turns adjacent pairs of x (batch, length, heads, head)."""
    pairs = x.unflatten(-1, (-1, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.attn_norm, self.ffn_norm = Norm(c.width, c.eps), Norm(c.width, c.eps)
        self.q = nn.Linear(c.width, c.heads * c.head, bias=False)
        self.k = nn.Linear(c.width, c.kv_heads * c.head, bias=False)
        self.v = nn.Linear(c.width, c.kv_heads * c.head, bias=False)
        self.o = nn.Linear(c.heads * c.head, c.width, bias=False)
        self.gate = nn.Linear(c.width, c.hidden, bias=False)
        self.up = nn.Linear(c.width, c.hidden, bias=False)
        self.down = nn.Linear(c.hidden, c.width, bias=False)

    def forward(self, x, cos, sin):
        c, (b, t, _) = self.c, x.shape
        y = self.attn_norm(x)
        q = rotate(self.q(y).view(b, t, c.heads, c.head), cos, sin).transpose(1, 2)
        k = rotate(self.k(y).view(b, t, c.kv_heads, c.head), cos, sin).transpose(1, 2)
        v = self.v(y).view(b, t, c.kv_heads, c.head).transpose(1, 2)
        if c.kv_heads != c.heads:
            k, v = (z.repeat_interleave(c.heads // c.kv_heads, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = Norm(config.width, config.eps)
        cos, sin = rotary(config, config.window)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def matrices(self):
        """What Muon trains and Q8_0 rounds, embedding aside."""
        return [p for layer in self.layers for p in layer.parameters() if p.ndim == 2]

    def forward(self, ids):
        """The last layer's normed output; the tied head is applied by logits, only where it is wanted."""
        x = self.embed(ids)
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)

    def logits(self, x):
        return x @ self.embed.weight.T
