// OpenAI's official Node client against a server of Bulkhead. BULKHEAD_URL is its address, as http://127.0.0.1:8080, and
// BULKHEAD_KEY a key, where the server has keys.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.BULKHEAD_URL;
const key = process.env.BULKHEAD_KEY;
const skip = url ? false : 'BULKHEAD_URL is not set: no server to test';
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key || 'none', maxRetries: 0, timeout: 60_000 });

const hello = {
  model: 'bulkhead',
  messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hello there' }],
  max_tokens: 8,
  temperature: 0,
};

test('create', { skip }, async () => {
  const got = await client.chat.completions.create({ ...hello, n: 2, logprobs: true, top_logprobs: 2 });
  assert.match(got.id, /^chatcmpl-/);
  assert.equal(got.object, 'chat.completion');
  assert.deepEqual(got.choices.map((c) => c.index), [0, 1]);
  for (const c of got.choices) {
    assert.equal(c.message.role, 'assistant');
    assert.equal(c.message.refusal, null);
    assert.equal(c.logprobs.content[0].top_logprobs.length, 2);
    assert.ok(['stop', 'length'].includes(c.finish_reason));
  }
  assert.equal(got.usage.total_tokens, got.usage.prompt_tokens + got.usage.completion_tokens);
  assert.equal(typeof got.usage.prompt_tokens_details.cached_tokens, 'number');
});

test('stream', { skip }, async () => {
  const whole = await client.chat.completions.create(hello);
  const stream = await client.chat.completions.create({ ...hello, stream: true, stream_options: { include_usage: true } });
  let text = '', finish = null, usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('stream helper', { skip }, async () => {
  const runner = client.chat.completions.stream(hello);
  const final = await runner.finalChatCompletion();
  assert.equal(typeof final.choices[0].message.content, 'string');
});

test('completion', { skip }, async () => {
  const got = await client.completions.create({ model: 'bulkhead', prompt: ['The river', 'The mill'], max_tokens: 3, echo: true });
  assert.equal(got.object, 'text_completion');
  assert.ok(got.choices[1].text.startsWith('The mill'));
});

test('models', { skip }, async () => {
  const models = (await client.models.list()).data;
  assert.equal((await client.models.retrieve(models[0].id)).id, models[0].id);
});

const errors = [
  ['over the window', { max_tokens: 2 ** 30 }, OpenAI.BadRequestError, 'context_length_exceeded', 'messages'],
  ['out of range', { temperature: 3 }, OpenAI.BadRequestError, 'invalid_request', 'temperature'],
  ['another model', { model: 'gpt-4o' }, OpenAI.NotFoundError, 'model_not_found', 'model'],
  ['not yet', { tools: [{ type: 'function', function: { name: 'f' } }] }, OpenAI.BadRequestError, 'unsupported_parameter', 'tools'],
  ['a control field', { kv_transfer_params: {} }, OpenAI.BadRequestError, 'forbidden_parameter', 'kv_transfer_params'],
];
for (const [name, change, type, code, param] of errors) {
  for (const stream of [false, true]) {
    test(`error: ${name}, stream ${stream}`, { skip }, async () => {
      await assert.rejects(client.chat.completions.create({ ...hello, ...change, stream }), (e) => {
        assert.ok(e instanceof type, `${e}`);
        assert.equal(e.code, code);
        assert.equal(e.param, param);
        assert.ok(e.requestID);
        return true;
      });
    });
  }
}

test('error: no such route', { skip }, async () => {
  await assert.rejects(client.responses.create({ model: 'bulkhead', input: 'Hello' }), (e) => e instanceof OpenAI.NotFoundError && e.code === 'unknown_url');
});

test('error: authentication', { skip: skip || (key ? false : 'BULKHEAD_KEY is not set: a server without keys takes any') }, async () => {
  const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'sk-not-a-key-of-anybody', maxRetries: 0 });
  await assert.rejects(stranger.chat.completions.create(hello), (e) => e instanceof OpenAI.AuthenticationError && e.code === 'invalid_api_key');
});

test('abort', { skip }, async () => {
  for (let i = 0; i < 3; i++) {
    const stream = await client.chat.completions.create({ ...hello, max_tokens: 500, ignore_eos: true, stream: true });
    let n = 0;
    for await (const _ of stream) if (++n === 3) stream.controller.abort();
    assert.ok(n >= 3);
  }
  assert.ok((await client.chat.completions.create(hello)).choices.length);
});
