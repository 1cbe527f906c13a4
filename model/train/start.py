"""The weights that training starts from.

A small transformer that starts at random spends millions of tokens before heads find each other. This start points them:
in the first layer two heads look one and two tokens back and two fetch the latest name and the latest kind of fact into
slots of the residual stream; in the second layer two heads look for the start of a code whose slots equal those of the
asker, and one for the code's next character. They do this badly and nothing else; the other heads, the feed-forward parts
and two more layers start at random. All of it is trained.
"""
import torch

import net
import phrases
from names import NAMES

# Residual dimensions with a meaning at the start; what a token is, is spread over the dimensions below FREE.
FREE, AFTER_CODE, CODE, KIND, NAME, ALWAYS = 240, 251, 252, 253, 254, 255
MARK, SCALE = 4.0, 0.5


def classes(tokens):
    """For each token the dimension that marks its class, or None."""
    kinds = {k.split()[0] for k in phrases.KINDS}
    found = []
    for token in tokens:
        word = token.lstrip("\u0120")
        if word in NAMES:
            found.append(NAME)
        elif word.lower() in kinds and len(word) > 1:
            found.append(KIND)
        else:
            found.append(CODE if len(token) == 1 and (token.isdigit() or "A" <= token <= "Z") else None)
    return found


def embed(model, tokens):
    """Spellings of one word (with a space, with a capital) start near to each other."""
    shared = {}
    for i, (token, mark) in enumerate(zip(tokens, classes(tokens))):
        word = token.lstrip("\u0120")
        word = word.lower() if len(word) > 1 else word
        if word not in shared:
            shared[word] = torch.randn(FREE)
        row = torch.zeros(model.config.width)
        row[:FREE] = 0.9 * shared[word] + 0.44 * torch.randn(FREE)
        row[ALWAYS] = MARK
        if mark:
            row[mark] = MARK
        model.embed.weight[i] = SCALE * row


class Head:
    """Views of one head's rows and columns, and the rotary angles of its pairs."""

    def __init__(self, model, layer, index):
        c, at = model.config, model.layers[layer]
        rows = slice(index * c.head, (index + 1) * c.head)
        self.q, self.k, self.v, self.o = at.q.weight[rows], at.k.weight[rows], at.v.weight[rows], at.o.weight[:, rows]
        self.angle = c.base ** -(torch.arange(c.head // 2) * 2 / c.head)

    def quiet(self):
        """Turns the random start down, so that what is added counts."""
        self.q *= 0.25
        self.k *= 0.25
        return self

    def agree(self, pairs, q_dim, k_dim, gain, back=0, sign=1.0):
        """Adds to the score of tokens marked k_dim for askers marked q_dim, most of all those `back` tokens before."""
        for i in pairs:
            turn = -self.angle[i] * back
            self.q[2 * i, q_dim] += gain * turn.cos()
            self.q[2 * i + 1, q_dim] += gain * turn.sin()
            self.k[2 * i, k_dim] += sign * gain

    def match(self, pairs, q_slot, k_slot, gain):
        """Adds to the score of tokens whose k_slot (width, 64) holds what the asker's q_slot does."""
        rows = [d for i in pairs for d in (2 * i, 2 * i + 1)]
        mix = orthonormal(q_slot.shape[1], len(rows)).T
        self.q[rows] += gain * mix @ q_slot.T
        self.k[rows] += gain * mix @ k_slot.T

    def carry(self, source, target, gain):
        """What is attended to is read by source (width, 64) and written by target."""
        self.v.copy_(source.T)
        self.o.copy_(SCALE * gain * target)


def orthonormal(height, count):
    return torch.linalg.qr(torch.randn(height, count))[0]


def slot(config):
    """A random subspace of what tokens are."""
    basis = torch.zeros(config.width, config.head)
    basis[:FREE] = orthonormal(FREE, config.head)
    return basis


def gathering(model):
    """The first layer; returns how it reads, and where it writes, the token before, the name and the kind."""
    sources, slots = [slot(model.config) for _ in range(4)], [slot(model.config) for _ in range(4)]
    for index, back in ((0, 1), (1, 2)):
        head = Head(model, 0, index).quiet()
        head.agree(range(0, 8), ALWAYS, ALWAYS, 1.9, back)
    # The head that looks one token back also says whether a code character stands there.
    sources[0][:, -1], slots[0][:, -1] = 0, 0
    sources[0][CODE, -1] = slots[0][AFTER_CODE, -1] = 1
    for index, mark in ((2, NAME), (3, KIND)):
        head = Head(model, 0, index).quiet()
        head.agree(range(20, 32), ALWAYS, mark, 0.7)
        head.agree(range(4, 9), ALWAYS, ALWAYS, 1.05)
    for index in range(4):
        Head(model, 0, index).carry(sources[index], slots[index], 1.5)
    return sources, slots


def recalling(model, sources, slots):
    """The second layer: two heads for a code's start, one for its next character."""
    for index in (0, 1):
        head = Head(model, 1, index).quiet()
        head.match(range(15, 24), slots[2], slots[2], 2.0)
        head.match(range(24, 32), slots[3], slots[3], 2.0)
        head.agree(range(12, 15), ALWAYS, CODE, 3.0)
        head.agree(range(12, 15), ALWAYS, AFTER_CODE, 2.5, sign=-1.0)
    head = Head(model, 1, 2).quiet()
    head.match(range(15, 24), slots[2], slots[2], 2.0)
    head.match(range(24, 32), sources[0], slots[0], 2.0)
    head.agree(range(12, 15), CODE, AFTER_CODE, 1.8)
    for index in range(3):
        what = slot(model.config)
        Head(model, 1, index).carry(what, what, 1.5)


@torch.no_grad()
def create(config, tokens):
    model = net.Net(config)
    for layer in model.layers:
        for p in layer.parameters():
            if p.ndim == 2:
                p.normal_(0, p.shape[1] ** -0.5)
        layer.k.weight.copy_(layer.q.weight)
        layer.o.weight.zero_()
        layer.down.weight.zero_()
    model.norm.weight.fill_(0.1)
    embed(model, tokens)
    recalling(model, *gathering(model))
    return model
