"""Asks a running server the held-out questions and prints how many it answers right, by kind.

    bulkhead serve &
    python3 data.py --tokenizer DIR/tokenizer.json --length 200 --count 500 --out questions-200.jsonl
    python3 ask.py questions-200.jsonl

An answer is right when it is the expected text, whole and nothing else. Needs the standard library only.
"""

import argparse
import collections
import concurrent.futures
import json
import urllib.request


def ask(url, question):
    body = {"model": "bulkhead", "messages": question["messages"], "temperature": 0, "max_tokens": 24}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        answer = json.load(response)
    return answer["choices"][0]["message"]["content"].strip(), answer["usage"]["prompt_tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="+", help="files of JSON lines, as data.py writes them")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--wrong", type=int, default=0, help="print so many wrong answers")
    args = parser.parse_args()
    for path in args.questions:
        with open(path) as lines:
            questions = [json.loads(line) for line in lines]
        right, asked, tokens = collections.Counter(), collections.Counter(), 0
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for question, (answer, count) in zip(questions, pool.map(lambda q: ask(args.url, q), questions)):
                kind = question["kind"]
                asked[kind] += 1
                tokens += count
                if answer == question["answer"]:
                    right[kind] += 1
                elif args.wrong > 0:
                    args.wrong -= 1
                    print(f"  {kind}: expected {question['answer']!r}, got {answer!r}")
        print(f"{path}: {len(questions)} questions of {tokens / len(questions):.0f} tokens on average")
        for kind in sorted(asked):
            print(f"  {kind:20} {right[kind] / asked[kind]:.3f} of {asked[kind]}")


if __name__ == "__main__":
    main()
