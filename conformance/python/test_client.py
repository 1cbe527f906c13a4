"""OpenAI's official Python client against a server of Bulkhead.

BULKHEAD_URL is its address, as http://127.0.0.1:8080, and BULKHEAD_KEY a key, where the server has keys.
"""

import os

import openai
import pytest

MODEL = "bulkhead"
URL = os.environ.get("BULKHEAD_URL")
KEY = os.environ.get("BULKHEAD_KEY")

pytestmark = pytest.mark.skipif(not URL, reason="BULKHEAD_URL is not set: no server to test")

HELLO = dict(
    model=MODEL,
    messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}],
    max_tokens=8,
    temperature=0,
)


@pytest.fixture
def client():
    with openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY or "none", max_retries=0, timeout=60) as c:
        yield c


def test_create(client):
    got = client.chat.completions.create(**HELLO, n=2, logprobs=True, top_logprobs=2, user="somebody", metadata={"a": "b"}, store=False)
    assert got.id.startswith("chatcmpl-") and got.object == "chat.completion" and got.created > 0
    assert [c.index for c in got.choices] == [0, 1]
    for c in got.choices:
        assert c.message.role == "assistant" and c.message.refusal is None and c.message.tool_calls is None
        assert c.finish_reason in ("stop", "length")
        assert c.logprobs.content and all(len(t.top_logprobs) == 2 and t.logprob <= 0 for t in c.logprobs.content)
    assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens
    assert 0 <= got.usage.prompt_tokens_details.cached_tokens < got.usage.prompt_tokens
    assert got.usage.completion_tokens_details.reasoning_tokens == 0


def test_nothing_beside_the_specification(client):
    """The client keeps fields that it does not know; of a chat there are none."""
    got = client.chat.completions.create(**HELLO)
    assert not got.model_extra and not got.choices[0].model_extra and not got.choices[0].message.model_extra
    assert got.choices[0].logprobs is None


def test_stream(client):
    whole = client.chat.completions.create(**HELLO)
    chunks = list(client.chat.completions.create(**HELLO, stream=True, stream_options={"include_usage": True}))
    assert {c.id for c in chunks} == {chunks[0].id} and {c.object for c in chunks} == {"chat.completion.chunk"}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(c.usage is None for c in chunks[:-1]) and chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    text = "".join(c.choices[0].delta.content or "" for c in chunks[:-1])
    assert text == whole.choices[0].message.content
    reasons = [c.choices[0].finish_reason for c in chunks[:-1]]
    assert reasons[-1] == whole.choices[0].finish_reason and set(reasons[:-1]) == {None}


def test_stream_helper(client):
    with client.chat.completions.stream(**HELLO) as stream:
        for _ in stream:
            pass
        final = stream.current_completion_snapshot
    assert final.choices[0].message.content == client.chat.completions.create(**HELLO).choices[0].message.content


def test_completion(client):
    got = client.completions.create(model=MODEL, prompt=["The river", "The mill"], max_tokens=3, logprobs=2, n=1, seed=1)
    assert [c.index for c in got.choices] == [0, 1] and got.object == "text_completion" and got.id.startswith("cmpl-")
    lp = got.choices[0].logprobs
    assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.top_logprobs) == len(lp.text_offset) > 0


def test_models(client):
    models = client.models.list().data
    assert client.models.retrieve(models[0].id).id == models[0].id
    with pytest.raises(openai.NotFoundError) as e:
        client.models.retrieve("gpt-4o")
    assert e.value.code == "model_not_found"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "change, error, code, param",
    [
        ({"max_tokens": 1 << 30}, openai.BadRequestError, "context_length_exceeded", "messages"),
        ({"messages": [{"role": "user", "content": "word " * 100_000}]}, openai.BadRequestError, "context_length_exceeded", "messages"),
        ({"temperature": 3}, openai.BadRequestError, "invalid_request", "temperature"),
        ({"model": "gpt-4o"}, openai.NotFoundError, "model_not_found", "model"),
        ({"response_format": {"type": "json_object"}}, openai.BadRequestError, "unsupported_parameter", "response_format.type"),
        ({"extra_body": {"rid": "mine"}}, openai.BadRequestError, "forbidden_parameter", "rid"),
        ({"extra_body": {"regex": "a"}}, openai.BadRequestError, "unsupported_parameter", "regex"),
    ],
)
def test_errors(client, change, error, code, param, stream):
    with pytest.raises(error) as e:
        list(client.chat.completions.create(**(HELLO | change), stream=stream))
    assert e.value.code == code and e.value.param == param and e.value.type == "invalid_request_error"
    assert e.value.request_id


def test_no_route(client):
    with pytest.raises(openai.NotFoundError) as e:
        client.responses.create(model=MODEL, input="Hello")
    assert e.value.code == "unknown_url"


@pytest.mark.skipif(not KEY, reason="BULKHEAD_KEY is not set: a server without keys takes any")
def test_authentication():
    with openai.OpenAI(base_url=f"{URL}/v1", api_key="sk-not-a-key-of-anybody", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as e:
            client.chat.completions.create(**HELLO)
    assert e.value.code == "invalid_api_key"


def test_abort(client):
    """A client that leaves in mid-stream disturbs nobody: the next request is answered."""
    for _ in range(3):
        stream = client.chat.completions.create(**(HELLO | {"max_tokens": 500}), stream=True, extra_body={"ignore_eos": True})
        for _ in zip(range(3), stream):
            pass
        stream.close()
    assert client.chat.completions.create(**HELLO).choices
