"""Chats about facts, made from a seed.

A chat is a context (facts among fillers, in a system message, a user message or several turns) and questions on it.
Training documents ask many questions of one context; an evaluation prompt asks one, at a given length.

Held out: a hash of (name, kind, code) puts one triple in sixteen aside. Training never states such a fact; evaluation
states and asks nothing else. The seeds differ as well.

    python data.py --tokenizer tokenizer.json --seed 7 --count 500 --length 200 --out questions.jsonl

writes held-out questions, `count` present and `count` absent, as {"messages", "answer", "kind", "tokens"}.
"""
import argparse
import json
import random
import zlib

import phrases
import tokenizer as tok
from names import NAMES

UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
LENGTHS = [5] * 6 + [4, 6, 6, 7, 8]


def held_out(name, kind, code):
    return zlib.crc32(("%s|%s|%s" % (name, kind, code)).encode()) % 16 == 0


def new_code(rng, name, kind, held, dull):
    """A random string whose triple is held out or not, as asked. It never starts with I, which is a word.

    dull is the share of codes of few different characters, in which what comes next does not follow from the last one.
    """
    while True:
        chars = DIGITS if kind in phrases.NUMERIC and rng.random() < 0.5 else UPPER + DIGITS
        if rng.random() < dull:
            chars = rng.sample(chars, rng.choice([1, 2, 3, 4]))
        code = "".join(rng.choice(chars) for _ in range(rng.choice(LENGTHS)))
        if code[0] != "I" and held_out(name, kind, code) == held:
            return code


class Chat:
    """One chat under construction: its messages, and what they state and name."""

    def __init__(self, rng, t, held, dull):
        self.rng, self.t, self.held, self.dull = rng, t, held, dull
        self.messages, self.facts, self.mentioned = [], {}, set()
        self.kinds = rng.sample(phrases.KINDS, rng.choice([1, 2, 2, 3, 4, 6, 8]))
        # A chat mostly draws its names from a few, so that one name gets several kinds.
        self.names = rng.sample(NAMES, rng.choice([4, 8, 16, 60, len(NAMES)]))

    def new_fact(self):
        """A fact that the chat does not hold yet, or None when its names and kinds are used up."""
        for _ in range(20):
            name = self.rng.choice(self.names)
            if self.facts and self.rng.random() < 0.3:
                name = self.rng.choice(list(self.facts))[0]
            kind = self.rng.choice(self.kinds)
            if (name, kind) not in self.facts:
                self.facts[name, kind] = new_code(self.rng, name, kind, self.held, self.dull)
                return name, kind
        return None

    def say(self, wording, key):
        name, kind = key
        if wording.startswith("{k}"):
            kind = kind[0].upper() + kind[1:]
        return wording.format(n=name, k=kind, c=self.facts[key])

    def mention(self):
        name = self.rng.choice(self.names if self.rng.random() < 0.7 else NAMES)
        self.mentioned.add(name)
        return self.rng.choice(phrases.MENTIONS).format(n=name)

    def size(self, text):
        return len(self.t.encode(" " + text))

    def context(self, budget):
        """Text of about `budget` tokens, with one fact at least if it has room for one."""
        rng = self.rng
        listed = rng.random() < 0.35
        wording = rng.choice(phrases.LISTED) if listed else None
        style = rng.random()
        most, share = 10 ** 6, 1.0
        if style < 0.4:
            most = rng.choice([1, 1, 1, 2, 3, 4])
        elif style < 0.75:
            share = rng.uniform(0.1, 0.6)
        fillers = [rng.choice(phrases.FILLERS)] if rng.random() < 0.35 else phrases.FILLERS
        mentions = rng.choice([0, 0, 0.1, 0.3]) if len(fillers) > 1 else rng.choice([0, 0, 0.05])
        facts, rest, used = [], [], 0
        room = budget * share
        while len(facts) < most and used < room:
            key = self.new_fact()
            if key is None:
                break
            facts.append(self.say(wording or rng.choice(phrases.FACTS), key))
            used += self.size(facts[-1])
        while used < budget:
            rest.append(self.mention() if rng.random() < mentions else rng.choice(fillers))
            used += self.size(rest[-1])
        if facts and rng.random() < 0.03:
            facts, rest = [facts[0]] * max(1, int(budget / self.size(facts[0]))), []
            self.facts = {k: c for k, c in list(self.facts.items())[:1]}
        if listed and rng.random() < 0.6:
            at = rng.randint(0, len(rest))
            block = "\n".join(([rng.choice(phrases.OPENERS)] if rng.random() < 0.5 else []) + facts)
            parts = [" ".join(rest[:at]), block, " ".join(rest[at:])]
            return "\n".join(p for p in parts if p)
        sentences = facts + rest
        rng.shuffle(sentences)
        if rng.random() < 0.25:
            sentences.insert(0, rng.choice(phrases.OPENERS))
        return ("\n" if listed else " ").join(sentences)

    def question(self, present):
        """The text of a question and its answer, of the kind asked for where the chat allows it."""
        rng = self.rng
        if present and self.facts:
            key = rng.choice(list(self.facts))
            return self.say_question(key), self.facts[key]
        stated = list(self.facts)
        for _ in range(50):
            style = rng.random()
            name = rng.choice(self.names if style > 0.8 else NAMES)
            kind = rng.choice(self.kinds)
            if style < 0.5 and stated:
                # The name is there with another kind of fact; that kind is, if possible, there with another name.
                name = rng.choice(stated)[0]
                if rng.random() < 0.4:
                    kind = rng.choice(phrases.KINDS)
            elif style < 0.6 and self.mentioned:
                name = rng.choice(sorted(self.mentioned))
            if (name, kind) not in self.facts:
                return self.say_question((name, kind)), phrases.UNKNOWN
        while True:
            key = rng.choice(NAMES), rng.choice(phrases.KINDS)
            if key not in self.facts:
                return self.say_question(key), phrases.UNKNOWN

    def say_question(self, key):
        name, kind = key
        wording = self.rng.choice(phrases.QUESTIONS)
        if wording.startswith("{k}"):
            kind = kind[0].upper() + kind[1:]
        return wording.format(n=name, k=kind)

    def warmup(self):
        """A yes/no turn on whether a name, or a kind of fact of a name, was there."""
        rng = self.rng
        yes = rng.random() < 0.5
        named = {n for n, _ in self.facts} | self.mentioned
        if self.facts and rng.random() < 0.5:
            key = rng.choice(list(self.facts))
            if not yes:
                missing = [k for k in phrases.KINDS if (key[0], k) not in self.facts]
                key = key[0], rng.choice(missing)
            return rng.choice(phrases.HAS_KIND).format(n=key[0], k=key[1]), "Yes." if yes else "No."
        if not named:
            yes = False
        name = rng.choice(sorted(named)) if yes else rng.choice(NAMES)
        return rng.choice(phrases.MENTIONED).format(n=name), "Yes." if name in named else "No."

    def add(self, role, text):
        self.messages.append({"role": role, "content": text})

    def open(self, budget):
        """Lays the context down; returns text that the next user message must begin with, or ""."""
        rng = self.rng
        place = rng.random()
        if place < 0.3:
            text = self.context(budget)
            if rng.random() < 0.3:
                text = rng.choice(phrases.SYSTEMS) + rng.choice([" ", "\n"]) + text
            self.add("system", text)
            return ""
        if rng.random() < 0.25:
            self.add("system", rng.choice(phrases.SYSTEMS))
        if place < 0.75:
            return self.context(budget)
        turns = rng.choice([1, 1, 2, 3, 4])
        for _ in range(turns):
            self.add("user", self.context(budget / turns - 12))
            self.add("assistant", phrases.ACKNOWLEDGED)
        return ""

    def ask(self, text, before):
        joint = self.rng.choice([" ", " ", "\n", "\n\n"])
        text = typed(self.rng, text)
        self.add("user", before + joint + text if before else text)


def typed(rng, text):
    """The text as people type it: now and then a greeting before it, a small letter first or nothing at its end."""
    if rng.random() < 0.05:
        text = rng.choice(phrases.GREETINGS) + " " + text
    first = text.split()[0].removesuffix("'s")
    if rng.random() < 0.08 and first != "I" and first not in NAMES:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.06:
        text = text[:-1]
    elif rng.random() < 0.06:
        text += " " + rng.choice(phrases.ENDINGS)
    return text


def smalltalk(rng):
    asks, answer = rng.choice(phrases.SMALLTALK + [phrases.TOO_MUCH])
    return rng.choice(asks), answer


def document(rng, t, length, yesno=0.05):
    """A training document: ids and loss weights, both `length` long. yesno is the share of yes/no turns."""
    chat = Chat(rng, t, held=False, dull=0.08)
    roll = rng.random()
    if roll < 0.05:
        before = ""
        if rng.random() < 0.3:
            chat.add("system", rng.choice(phrases.SYSTEMS))
    else:
        low, high = (0.1, 0.65) if length <= 256 else (0.1, 0.85)
        before = chat.open(max(16, rng.uniform(low, high) * length - 16))
    present, talk = rng.choice([0.4, 0.58, 0.58, 0.75]), 0.5 if roll < 0.05 else 0.08
    ids, weights = [], []
    emitted = 0
    while True:
        if emitted and rng.random() < 0.06:
            key = chat.new_fact()
            if key is not None:
                before = chat.say(rng.choice(phrases.FACTS), key)
                if rng.random() < 0.5:
                    chat.add("user", before)
                    chat.add("assistant", phrases.ACKNOWLEDGED)
                    before = ""
        roll = rng.random()
        if roll < yesno:
            text, answer = chat.warmup()
        elif roll < yesno + talk:
            text, answer = smalltalk(rng)
        else:
            text, answer = chat.question(rng.random() < present)
        chat.ask(text, before)
        before = ""
        chat.add("assistant", answer)
        for m in chat.messages[emitted:]:
            i, w = weigh(rng, t, m)
            ids += i
            weights += w
        emitted = len(chat.messages)
        if len(ids) >= length:
            return ids[:length], weights[:length]


# Weights of targets: one prompt token in five, and the first token of an answer that is a code, not knowing, or other.
PROMPT_WEIGHT, PROMPT_SHARE = 0.25, 0.2
FIRST_CODE, FIRST_UNKNOWN, FIRST_OTHER = 3.0, 2.5, 2.0


def weigh(rng, t, message):
    """A message's ids and the weight of each as a target: answers count, what cannot be foretold does not."""
    ids, answer = t.message(message["role"], message["content"]), message["content"]
    weights = [PROMPT_WEIGHT if rng.random() < PROMPT_SHARE and i not in chance(t) else 0.0 for i in ids]
    if message["role"] != "assistant":
        return ids, weights
    head = len(t.header("assistant"))
    weights[head:-1] = [1.0] * (len(ids) - head - 1)
    if answer == phrases.UNKNOWN:
        weights[head:-1] = [FIRST_UNKNOWN] + [0.2] * (len(ids) - head - 2)
    elif answer != phrases.ACKNOWLEDGED:
        weights[head] = FIRST_CODE if " " not in answer and answer[-1] != "." else FIRST_OTHER
    return ids, weights


def chance(t):
    """Ids that are drawn at random in prompts: names, characters of codes, the space before a code."""
    if not hasattr(t, "chance"):
        t.chance = {t.encode(s + n)[0] for n in NAMES for s in ("", " ")}
        t.chance |= {t.ids[c] for c in UPPER + DIGITS} | {t.ids[tok.SPACE]}
    return t.chance


def prompt(rng, t, length, present, dull=0.0):
    """One held-out question whose prompt has `length` tokens or at most 5 % fewer."""
    while True:
        chat = Chat(rng, t, held=True, dull=dull)
        before = chat.open(max(10, length - rng.randint(20, 60)))
        if present and not chat.facts:
            continue
        text, answer = chat.question(present)
        chat.ask(text, before)
        size = len(t.prompt(chat.messages))
        if 0.95 * length <= size <= length:
            hard = not present and any(" " + n in text or text.startswith(n) for n, _ in chat.facts)
            kind = "present" if present else "absent_other_kind" if hard else "absent"
            return {"messages": chat.messages, "answer": answer, "kind": kind, "tokens": size}


def questions(seed, t, count, length, dull=0.0):
    rng = random.Random("held-out %d %d" % (seed, length))
    return [prompt(rng, t, length, present, dull) for present in (True, False) for _ in range(count)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    with open(args.out, "w") as f:
        for q in questions(args.seed, tok.load(args.tokenizer), args.count, args.length):
            f.write(json.dumps(q) + "\n")
