"""Muon for the matrices (momentum, then the nearest orthogonal matrix), AdamW for embedding and norms.

The orthogonalisation of all matrices of one shape is one batched product.
"""
import torch

# Five steps of the quintic iteration, Keller Jordan's coefficients.
A, B, C = 3.4445, -4.7750, 2.0315


def orthogonal(g, steps=5):
    """Roughly the orthogonal factor of each matrix of the batch g."""
    tall = g.shape[-2] > g.shape[-1]
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = A * x + (B * s + C * s @ s) @ x
    return x.mT if tall else x


class Muon:
    def __init__(self, params, momentum=0.95):
        self.params, self.momentum = params, momentum
        self.buffers = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self, lr, decay):
        groups = {}
        for p, buffer in zip(self.params, self.buffers):
            buffer.lerp_(p.grad, 1 - self.momentum)
            wide = p.shape[0] <= p.shape[1]
            g = p.grad.lerp(buffer, self.momentum)
            groups.setdefault((min(p.shape), max(p.shape)), []).append((p, wide, g if wide else g.mT))
        for group in groups.values():
            for (p, wide, _), u in zip(group, orthogonal(torch.stack([g for _, _, g in group]))):
                u = u if wide else u.mT
                p.mul_(1 - lr * decay).add_(u, alpha=-lr * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)

    def state_dict(self):
        return {"buffers": self.buffers}

    def load_state_dict(self, state):
        for mine, saved in zip(self.buffers, state["buffers"]):
            mine.copy_(saved)
