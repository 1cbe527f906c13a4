"""The four figures: held-out questions answered right, fact present and absent, at 200 and at 1,500 prompt tokens.

    python evaluate.py --dir DIR [--checkpoint FILE] [--count 500] [--lengths 200 1500] [--dull 0]

An answer is right when greedy decoding gives exactly the expected tokens and then the end of the message. Greedy text
equals the expected one when every token of it is the best one given those before, so one pass over prompt and answer
decides. Weights are rounded to Q8_0 first, as in the GGUF.
"""
import argparse
import copy
import os

import gguf
import torch

import data
import net
import tokenizer as tok


def q8_0(w):
    """Rounds to Q8_0 and back with the quantiser that writes the GGUF."""
    kind = gguf.GGMLQuantizationType.Q8_0
    return torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(w.detach().numpy(), kind), kind))


@torch.no_grad()
def rounded(model):
    """A copy with every matrix as Q8_0 has it."""
    model = copy.deepcopy(model).eval()
    for p in model.parameters():
        if p.ndim == 2:
            p.copy_(q8_0(p))
    return model


@torch.no_grad()
def right(model, t, question):
    """Whether greedy decoding gives the expected answer and ends."""
    prompt = t.prompt(question["messages"])
    answer = t.encode(question["answer"]) + [t.end]
    x = model(torch.tensor([prompt + answer]))[0, len(prompt) - 1:-1]
    return bool((model.logits(x).argmax(-1) == torch.tensor(answer)).all())


def figures(model, t, seed, count, length, dull=0.0):
    """Shares of right answers by kind of question; `absent` is all absent ones, absent_other_kind the harder part."""
    model, tally = rounded(model), {}
    for q in data.questions(seed, t, count, length, dull):
        kinds = [q["kind"]] + (["absent"] if q["kind"] == "absent_other_kind" else [])
        ok = right(model, t, q)
        for kind in kinds:
            n, good = tally.get(kind, (0, 0))
            tally[kind] = n + 1, good + ok
    return {kind: round(good / n, 3) for kind, (n, good) in sorted(tally.items())}


def load(path):
    saved = torch.load(path, weights_only=True)
    model = net.Net(net.Config(**saved["config"]))
    model.load_state_dict(saved["model"])
    return model, saved


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--checkpoint")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--lengths", type=int, nargs="+", default=[200, 1500])
    parser.add_argument("--dull", type=float, default=0.0, help="share of codes of one to four different characters")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, saved = load(args.checkpoint or os.path.join(args.dir, "checkpoint.pt"))
    t = tok.load(os.path.join(args.dir, "tokenizer.json"))
    print("step", saved["step"], "tokens", saved["tokens"])
    for length in args.lengths:
        print(length, figures(model, t, args.seed, args.count, length, args.dull), flush=True)
