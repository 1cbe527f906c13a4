"""A byte-level BPE whose merges are made so that names are one token and codes are one token a character.

Merges are learned inside words first; only then is a leading space joined, and only to whole words. So a capital or a
digit never joins a space or its neighbour, and a code is spelled the same way wherever it stands.

    python tokenizer.py OUT.json        trains and writes {"tokens": [...], "merges": [...]}
"""
import collections
import json
import sys

import regex

import phrases
from names import NAMES

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIALS = [END_OF_TEXT, IM_START, IM_END]

# GPT-2's pre-tokenizer, which llama.cpp calls "gpt-2".
SPLIT = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

EXTRA = """system user assistant number numbers code codes key name place and or but not with from into about over under
after before when where which while because would could should must may might can cannot do does did done have has had
be been being was were are is am it its they them their he she his her we our us you your i my me this that these those
there here what who why how all any some many much more most very too also only just then now again never always often
one two three four five six seven eight nine ten first last next new old good bad big small long short high low
""".split()


def byte_chars():
    """GPT-2's table from bytes to printable characters."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for b in range(256):
        if b in keep:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


BYTES = byte_chars()
SPACE = BYTES[32]


def spell(text):
    return "".join(BYTES[b] for b in text.encode("utf-8"))


def words():
    """Each word of the generator's language with a weight; names and kinds must become one token."""
    texts = phrases.FACTS + phrases.LISTED + phrases.QUESTIONS + phrases.MENTIONED + phrases.HAS_KIND
    texts += phrases.MENTIONS + phrases.OPENERS + phrases.SYSTEMS + phrases.FILLERS + phrases.KINDS
    texts += [phrases.UNKNOWN, phrases.ACKNOWLEDGED, "Yes.", "No."] + NAMES
    for asks, answer in phrases.SMALLTALK:
        texts += asks + [answer]
    count = collections.Counter()
    for text in texts:
        for placeholder in ("{n}", "{k}", "{c}"):
            text = text.replace(placeholder, "")
        for piece in SPLIT.findall(text):
            piece = piece.strip()
            if regex.fullmatch(r"\p{L}+|'s", piece):
                count[piece] += 1
    for word in EXTRA:
        count[word] += 1
    for kind in phrases.KINDS:
        for word in kind.split():
            count[word.capitalize()] += 1
    return count


def train():
    """Merges the most frequent pair until every word is one token, then joins the space to whole words."""
    count = words()
    spelled = {w: list(spell(w)) for w in count}
    merges = []
    while True:
        pairs = collections.Counter()
        for w, parts in spelled.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += count[w]
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        for w, parts in spelled.items():
            i = 0
            while i + 1 < len(parts):
                if (parts[i], parts[i + 1]) == best:
                    parts[i:i + 2] = ["".join(best)]
                i += 1
    for w in sorted(count):
        # A space joined to a lone capital would spell a code differently at its start; "I" is the exception.
        if w == "'s" or (len(w) == 1 and w != "I" and w.isupper()):
            continue
        merges.append((SPACE, spell(w)))
    tokens = SPECIALS + [BYTES[b] for b in range(256)]
    for a, b in merges:
        if a + b not in tokens:
            tokens.append(a + b)
    return {"tokens": tokens, "merges": [a + " " + b for a, b in merges]}


class Tokenizer:
    """Encodes as llama.cpp does with tokenizer.ggml.pre "gpt-2"; words are cached, so it is fast enough to train from."""

    def __init__(self, trained):
        self.tokens = trained["tokens"]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.rank = {tuple(m.split(" ")): i for i, m in enumerate(trained["merges"])}
        self.cache = {}
        self.eot, self.start, self.end = (self.ids[s] for s in SPECIALS)

    def word(self, piece):
        if piece in self.cache:
            return self.cache[piece]
        parts = list(spell(piece))
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda p: self.rank.get(p, 1 << 30))
            if best not in self.rank:
                break
            i = 0
            while i + 1 < len(parts):
                if (parts[i], parts[i + 1]) == best:
                    parts[i:i + 2] = ["".join(best)]
                i += 1
        ids = [self.ids[p] for p in parts]
        if len(self.cache) < 50000:
            self.cache[piece] = ids
        return ids

    def encode(self, text):
        return [i for piece in SPLIT.findall(text) for i in self.word(piece)]

    def decode(self, ids):
        back = {c: b for b, c in BYTES.items()}
        text = "".join(self.tokens[i] for i in ids if i > self.end)
        return bytes(back[c] for c in text).decode("utf-8", "replace")

    def header(self, role):
        """What opens a message: <|im_start|>, the role, a line break."""
        return [self.start] + self.encode(role + "\n")

    def message(self, role, content):
        return [self.start] + self.encode(role + "\n" + content) + [self.end] + self.encode("\n")

    def prompt(self, messages):
        """The chat template of the GGUF, with the generation prompt."""
        ids = [i for m in messages for i in self.message(m["role"], m["content"])]
        return ids + self.header("assistant")


def load(path):
    with open(path) as f:
        return Tokenizer(json.load(f))


if __name__ == "__main__":
    trained = train()
    with open(sys.argv[1], "w") as f:
        json.dump(trained, f, ensure_ascii=False)
    t = Tokenizer(trained)
    for name in NAMES:
        assert len(t.encode(name)) == 1 and len(t.encode(" " + name)) == 1, name
    print(len(t.tokens), "tokens,", len(trained["merges"]), "merges")
