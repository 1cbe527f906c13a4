"""Trains the built-in model on the cores of one machine that may be busy, and can be stopped and started at any time.

    python train.py --dir DIR [--cores 2] [--steps N] [--compile]

DIR holds tokenizer.json, control.json (read again while it runs, see CONTROL), checkpoint.pt and train.log.

One process leads: it owns the weights and steps the optimisers. The others only compute gradients of small batches, from
the weights as they find them, and lay them down; the leader computes batches too and steps when enough have come together,
whoever made them. So a core that other programs want slows nobody but itself, which lockstep would not give. The price
is that a helper's gradient may be one step old, and that the order of the data is not the same in two runs.
"""
import argparse
import datetime
import json
import os
import random
import signal
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ.setdefault("KMP_BLOCKTIME", "0")

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F

import data
import evaluate
import net
import start
import tokenizer as tok
from muon import Muon

# What control.json may set. `batch` is the tokens of one gradient, `gradients` how many make a step, `lengths` the mix of
# documents, `yesno` the share of yes/no turns; `decay` the steps between which both rates fall linearly to a tenth.
CONTROL = {
    "muon": 0.01, "adam": 2e-3, "weight_decay": 0.01, "warmup": 100, "decay": None, "batch": 2048, "gradients": 2,
    "yesno": 0.05, "lengths": {"256": 5, "512": 2, "1024": 1, "2048": 1}, "save_seconds": 180, "eval_seconds": 420, "eval_count": 60,
    "eval_lengths": [200, 1500],
}


def control(directory):
    settings = dict(CONTROL)
    path = os.path.join(directory, "control.json")
    if os.path.exists(path):
        with open(path) as f:
            settings.update(json.load(f))
    return settings


def rate(settings, step):
    """The factor on both learning rates at this step."""
    factor = min(1.0, (step + 1) / settings["warmup"])
    if settings["decay"]:
        start, end = settings["decay"]
        factor *= 1 - 0.9 * min(1.0, max(0.0, (step - start) / (end - start)))
    return factor


def batch(t, settings, rng):
    """Documents of one length that together have settings["batch"] tokens: ids and weights."""
    lengths = settings["lengths"]
    length = int(rng.choices(list(lengths), list(lengths.values()))[0])
    docs = [data.document(rng, t, length, settings["yesno"]) for _ in range(max(1, settings["batch"] // length))]
    return torch.tensor([i for i, _ in docs]), torch.tensor([w for _, w in docs])


def loss_of(model, forward, ids, weights):
    """Weighted cross-entropy, the head applied only where a target counts; and the plain loss of first answer tokens
    that are a code, not knowing, or other (nan where there is none)."""
    x, targets, w = forward(ids)[:, :-1], ids[:, 1:], weights[:, 1:]
    at = w > 0
    losses = F.cross_entropy(model.logits(x[at]), targets[at], reduction="none")
    w = w[at]
    plain = losses.detach()
    firsts = [plain[w == f].mean() for f in (data.FIRST_CODE, data.FIRST_UNKNOWN, data.FIRST_OTHER)]
    return (losses * w).sum() / w.sum(), torch.stack(firsts)


class Gradients:
    """Computes gradients of one batch after another, in one process."""

    def __init__(self, args, model, t, seed):
        self.args, self.model, self.t, self.rng = args, model, t, random.Random(seed)
        self.compiled = torch.compile(model, dynamic=False) if args.compile else model
        self.settings, self.count = None, 0

    def next(self):
        """Adds a batch's gradient to the parameters' grad; returns the length and its losses."""
        if self.count % 20 == 0:
            self.settings = control(self.args.dir)
        self.count += 1
        ids, weights = batch(self.t, self.settings, self.rng)
        # Each length compiles for itself, which takes half a minute and pays for the short ones only.
        forward = self.compiled if ids.shape[1] <= 512 else self.model
        loss, firsts = loss_of(self.model, forward, ids, weights)
        loss.backward()
        return ids.shape[1], torch.cat([loss.detach()[None], firsts])


class Mailbox:
    """What leader and one helper share: the leader's weights, and the sum of the helper's gradients not yet taken."""

    def __init__(self, context, size):
        self.weights, self.gradient = torch.zeros(size).share_memory_(), torch.zeros(size).share_memory_()
        # Length and losses of each gradient in the sum; the first number says how many there are.
        self.count, self.reports = torch.zeros(1).share_memory_(), torch.zeros(16, 5).share_memory_()
        self.lock = context.Lock()

    def put(self, gradient, length, losses):
        with self.lock:
            n = int(self.count)
            if n < len(self.reports):
                self.gradient.add_(gradient)
                self.reports[n] = torch.cat([torch.tensor([float(length)]), losses])
                self.count += 1

    def take(self):
        """The sum and its reports, and empties the box."""
        with self.lock:
            gradient, reports = self.gradient.clone(), self.reports[:int(self.count)].clone()
            self.gradient.zero_()
            self.count.zero_()
        return gradient, reports


def split(flat, params):
    return [f.view_as(p) for f, p in zip(flat.split([p.numel() for p in params]), params)]


def help_out(args, box, number, seed):
    """A helper's life: copy the weights, compute, lay down."""
    torch.set_num_threads(1)
    t = tok.load(os.path.join(args.dir, "tokenizer.json"))
    model = net.Net(net.Config(vocab=len(t.tokens)))
    params = list(model.parameters())
    gradients = Gradients(args, model, t, "%s helper %d" % (seed, number))
    while os.getppid() != 1:
        with box.lock, torch.no_grad():
            for p, w in zip(params, split(box.weights, params)):
                p.copy_(w)
        length, losses = gradients.next()
        box.put(torch.cat([p.grad.flatten() for p in params]), length, losses)
        model.zero_grad()


class Leader:
    """Owns weights, optimisers, checkpoint and log."""

    def __init__(self, args):
        self.args = args
        self.t = tok.load(os.path.join(args.dir, "tokenizer.json"))
        self.path = os.path.join(args.dir, "checkpoint.pt")
        torch.manual_seed(args.seed)
        self.config = net.Config(vocab=len(self.t.tokens))
        self.model = start.create(self.config, self.t.tokens)
        self.params = list(self.model.parameters())
        matrices = self.model.matrices()
        rest = [p for p in self.params if not any(p is m for m in matrices)]
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW(rest, lr=1e-3, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
        self.step = self.tokens = 0
        self.seconds = 0.0
        if os.path.exists(self.path):
            self.restore()
        seed = "%d %d" % (args.seed, self.step)
        self.gradients = Gradients(args, self.model, self.t, seed + " leader")
        self.boxes = self.hire(seed)
        self.losses = {}

    def hire(self, seed):
        """Starts the helpers, who find the weights in their mailboxes."""
        context = mp.get_context("spawn")
        boxes = [Mailbox(context, sum(p.numel() for p in self.params)) for _ in range(self.args.cores - 1)]
        for number, box in enumerate(boxes):
            self.post(box)
            context.Process(target=help_out, args=(self.args, box, number, seed), daemon=True).start()
        return boxes

    def post(self, box):
        with box.lock, torch.no_grad():
            torch.cat([p.flatten() for p in self.params], out=box.weights)

    def restore(self):
        saved = torch.load(self.path, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.muon.load_state_dict(saved["muon"])
        self.adam.load_state_dict(saved["adam"])
        self.step, self.tokens, self.seconds = saved["step"], saved["tokens"], saved["seconds"]

    def save(self, path):
        state = {"model": self.model.state_dict(), "muon": self.muon.state_dict(), "adam": self.adam.state_dict(),
                 "step": self.step, "tokens": self.tokens, "seconds": self.seconds, "config": vars(self.config)}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)

    def log(self, text):
        line = "%s %s" % (datetime.datetime.now().strftime("%H:%M:%S"), text)
        print(line, flush=True)
        with open(os.path.join(self.args.dir, "train.log"), "a") as f:
            f.write(line + "\n")

    def note(self, length, losses):
        self.losses.setdefault(length, []).append(losses)
        self.tokens += self.gradients.settings["batch"]

    def gather(self):
        """Fills grad with the mean of enough gradients, the helpers' among them; returns the settings in force."""
        self.model.zero_grad()
        count = 0
        while True:
            self.note(*self.gradients.next())
            count += 1
            for box in self.boxes:
                gradient, reports = box.take()
                count += len(reports)
                for report in reports:
                    self.note(int(report[0]), report[1:])
                for p, g in zip(self.params, split(gradient, self.params)):
                    p.grad.add_(g)
            if count >= self.gradients.settings["gradients"]:
                for p in self.params:
                    p.grad.div_(count)
                return self.gradients.settings

    def advance(self):
        """One step."""
        begun = time.time()
        settings = self.gather()
        factor = rate(settings, self.step)
        self.adam.param_groups[0]["lr"] = settings["adam"] * factor
        self.adam.step()
        self.muon.step(settings["muon"] * factor, settings["weight_decay"])
        for box in self.boxes:
            self.post(box)
        self.step += 1
        self.seconds += time.time() - begun
        return settings

    def check(self, settings):
        """Saves a numbered checkpoint and logs the figures on a few held-out questions, rounded as they will be."""
        self.save(os.path.join(self.args.dir, "step-%06d.pt" % self.step))
        for length in settings["eval_lengths"]:
            count = settings["eval_count"] if length <= 512 else settings["eval_count"] // 2
            self.log("eval %d: %s" % (length, json.dumps(evaluate.figures(self.model, self.t, 11, count, length))))

    def loop(self):
        saved = checked = since = time.time()
        begun = self.tokens
        self.log("start at step %d, %d tokens, %.0f s" % (self.step, self.tokens, self.seconds))
        signal.signal(signal.SIGTERM, lambda *_: setattr(self.args, "steps", self.step + 1))
        while self.step < self.args.steps:
            settings = self.advance()
            if self.step % 25 == 0:
                text = " | ".join("%d: %s" % (l, " ".join("%.3f" % x for x in torch.stack(v).nanmean(0)))
                                  for l, v in sorted(self.losses.items()))
                self.log("step %d %.2fM tokens, %.0f a second; loss, first code, unknown, other: %s"
                         % (self.step, self.tokens / 1e6, (self.tokens - begun) / (time.time() - since), text))
                self.losses, since, begun = {}, time.time(), self.tokens
            if time.time() - saved > settings["save_seconds"]:
                self.save(self.path)
                saved = time.time()
            if time.time() - checked > settings["eval_seconds"]:
                self.check(settings)
                checked = time.time()
        self.save(self.path)
        self.log("stop at step %d" % self.step)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10 ** 9)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    Leader(args).loop()
