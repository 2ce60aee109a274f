// What OpenAI's client gets from running servers:
//   node openai_client.mjs PACKAGES URL_OF_MINI URL_OF_SCRIPTED URL_OF_ODD ODD_TEXT
// Writes one line 'N passed, N failed'.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const [packages, miniUrl, scriptedUrl, oddUrl, oddText] = process.argv.slice(2);
const OpenAI = createRequire(packages + '/')('openai');
const open = (url, options = {}) => new OpenAI({ apiKey: 'sk-test', baseURL: url + '/v1', maxRetries: 0, ...options });
const mini = open(miniUrl);
const scripted = open(scriptedUrl);
const odd = open(oddUrl);
const question = 'Question: Ann has 3 pens and buys 4. How many pens has she?\nAnswer:';
const messages = [{ role: 'user', content: 'How many?' }];
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: {} } } }];

const checks = {
  async 'lists and gets models'() {
    const ids = [];
    for await (const model of mini.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ['mini']);
    assert.equal((await mini.models.retrieve('mini')).id, 'mini');
  },
  async 'completes, whole and as a stream'() {
    const whole = await mini.completions.create({ model: 'mini', prompt: question, max_tokens: 20 });
    let text = '';
    let last;
    const stream = await mini.completions.create({
      model: 'mini', prompt: question, max_tokens: 20, stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) {
      text += chunk.choices[0]?.text ?? '';
      last = chunk;
    }
    assert.equal(text, whole.choices[0].text);
    assert.equal(last.usage.completion_tokens, whole.usage.completion_tokens);
  },
  async 'chats, whole and as a stream'() {
    const whole = await mini.chat.completions.create({ model: 'mini', messages, max_tokens: 20 });
    assert.equal(whole.choices[0].message.role, 'assistant');
    const stream = mini.beta.chat.completions.stream({ model: 'mini', messages, max_tokens: 20 });
    let text = '';
    stream.on('content', (delta) => { text += delta; });
    const final = await stream.finalChatCompletion();
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(final.choices[0].message.content, text);
    assert.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
  },
  async 'gets several choices in one stream'() {
    const request = { model: 'mini', messages, max_tokens: 20, n: 2, temperature: 1, seed: 3 };
    const whole = await mini.chat.completions.create(request);
    const texts = ['', ''];
    const roles = [[], []];
    for await (const chunk of await mini.chat.completions.create({ ...request, stream: true })) {
      for (const { index, delta } of chunk.choices) {
        texts[index] += delta.content ?? '';
        roles[index].push(delta.role);
      }
    }
    assert.deepEqual(texts, whole.choices.map((choice) => choice.message.content));
    assert.notEqual(texts[0], texts[1]);
    for (const [first, ...others] of roles) {
      assert.equal(first, 'assistant');
      assert.deepEqual(others.filter((role) => role), []);
    }
  },
  async 'gets log probabilities'() {
    const answer = await mini.chat.completions.create({
      model: 'mini', messages, max_tokens: 3, logprobs: true, top_logprobs: 2 });
    assert.equal(answer.choices[0].logprobs.content.length, 3);
    assert.equal(answer.choices[0].logprobs.content[0].top_logprobs.length, 2);
  },
  async 'gets tool calls, whole and as a stream'() {
    const whole = await scripted.chat.completions.create({ model: 'scripted', messages, tools });
    const call = whole.choices[0].message.tool_calls[0];
    assert.equal(whole.choices[0].finish_reason, 'tool_calls');
    assert.equal(call.function.name, 'get_weather');
    assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Köln' });
    const stream = scripted.beta.chat.completions.stream({ model: 'scripted', messages, tools });
    const final = await stream.finalChatCompletion();
    assert.deepEqual(final.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
    // The result goes back with the call's id.
    const next = await scripted.chat.completions.create({
      model: 'scripted', tools,
      messages: [...messages, whole.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'rain' }] });
    assert.equal(next.choices[0].message.role, 'assistant');
  },
  async 'gets errors as such'() {
    const wrong = await mini.chat.completions.create({ model: 'mini', messages: [] }).catch((error) => error);
    assert.ok(wrong instanceof OpenAI.BadRequestError);
    assert.equal(wrong.param, 'messages');
    const unknown = await mini.completions.create({ model: 'mini', prompt: 'a', banana: 1 }).catch((error) => error);
    assert.ok(unknown instanceof OpenAI.BadRequestError);
    assert.equal(unknown.code, 'unknown_parameter');
    const missing = await mini.models.retrieve('other').catch((error) => error);
    assert.ok(missing instanceof OpenAI.NotFoundError);
    assert.equal(missing.code, 'model_not_found');
  },
  async 'gets a failure in the middle of a stream'() {
    const ask = [{ role: 'user', content: 'Fail!' }];
    const stream = await odd.chat.completions.create({ model: 'odd', messages: ask, stream: true });
    let text = '';
    const failure = await (async () => {
      for await (const chunk of stream) text += chunk.choices[0].delta.content ?? '';
    })().catch((error) => error);
    assert.equal(text, 'This goes well until');
    assert.ok(failure instanceof OpenAI.APIError, failure?.stack);
    assert.equal(failure.error.type, 'server_error');
    assert.match(failure.error.message, /logit/);
  },
  async 'reads odd texts'() {
    const ask = [{ role: 'user', content: 'Odd?\n' }];
    const whole = await odd.chat.completions.create({ model: 'odd', messages: ask });
    assert.equal(whole.choices[0].message.content, JSON.parse(oddText));
    const final = await odd.beta.chat.completions.stream({ model: 'odd', messages: ask }).finalChatCompletion();
    assert.equal(final.choices[0].message.content, JSON.parse(oddText));
    let text = '';
    const stream = await odd.completions.create({ model: 'odd', prompt: 'Odd?\n', max_tokens: 100, stream: true });
    for await (const chunk of stream) text += chunk.choices[0]?.text ?? '';
    assert.equal(text, JSON.parse(oddText));
  },
  async 'leaves in the middle of a stream'() {
    const stream = await mini.completions.create({
      model: 'mini', prompt: question, max_tokens: 1900, ignore_eos: true, stream: true });
    for await (const chunk of stream) {
      assert.equal(chunk.object, 'text_completion');
      break;
    }
    assert.ok(stream.controller.signal.aborted);
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
  } catch (error) {
    ++failed;
    console.error(`${name}: ${error.stack}`);
  }
}
console.log(`${Object.keys(checks).length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
