// What Vercel's AI SDK, which checks each event against a schema, gets from running servers:
//   node ai_sdk_client.mjs PACKAGES URL_OF_MINI URL_OF_SCRIPTED URL_OF_ODD ODD_TEXT
// Writes one line 'N passed, N failed'.
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';

const [packages, miniUrl, scriptedUrl, oddUrl, oddText] = process.argv.slice(2);
const fetched = createRequire(packages + '/');
const { createOpenAICompatible } = fetched('@ai-sdk/openai-compatible');
const { APICallError, generateText, jsonSchema, stepCountIs, streamText, tool } = fetched('ai');
const open = (url, options = {}) => createOpenAICompatible({
  name: 'reprise', apiKey: 'sk-test', baseURL: url + '/v1', includeUsage: true, ...options });
const mini = open(miniUrl);
const scripted = open(scriptedUrl);
const question = 'Question: Ann has 3 pens and buys 4. How many pens has she?\nAnswer:';
const settings = { maxRetries: 0, temperature: 0, maxOutputTokens: 20 };
const asked = { ...settings, messages: [{ role: 'user', content: 'How many?' }] };
const weather = {
  get_weather: tool({
    description: 'Tells the weather.',
    inputSchema: jsonSchema({ type: 'object', properties: { city: { type: 'string' } } }),
    execute: async ({ city }) => `rain in ${city}` }) };

// All parts of a stream; faults are parts as well.
async function partsOf(options) {
  const parts = [];
  const stream = streamText({ ...options, onError() {} });
  for await (const part of stream.fullStream) parts.push(part);
  return parts;
}
const textOf = (parts, type = 'text-delta') =>
  parts.filter((part) => part.type === type).map((part) => part.text).join('');

// The network may cut a stream anywhere: here it does behind every `size` bytes, inside of characters and line ends.
function inPiecesOf(size) {
  return async (...request) => {
    const answer = await fetch(...request);
    const cut = new TransformStream({
      transform(bytes, controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
      } });
    return new Response(answer.body.pipeThrough(cut), { status: answer.status, headers: answer.headers });
  };
}

const checks = {
  async 'completes, whole and as a stream'() {
    const model = mini.completionModel('mini');
    const whole = await generateText({ ...settings, model, prompt: question });
    const parts = await partsOf({ ...settings, model, prompt: question });
    const end = parts.at(-1);
    assert.ok(whole.text.length > 0);
    assert.equal(textOf(parts), whole.text);
    assert.equal(end.finishReason, whole.finishReason);
    assert.ok(whole.usage.outputTokens > 0);
    assert.deepEqual([end.totalUsage.inputTokens, end.totalUsage.outputTokens],
                     [whole.usage.inputTokens, whole.usage.outputTokens]);
  },
  async 'chats, whole and as a stream'() {
    const model = mini.chatModel('mini');
    const whole = await generateText({ ...asked, model });
    const parts = await partsOf({ ...asked, model });
    const end = parts.at(-1);
    assert.equal(textOf(parts), whole.text);
    assert.equal(whole.finishReason, 'length');
    assert.equal(end.finishReason, 'length');
    assert.equal(end.totalUsage.outputTokens, 20);
    assert.deepEqual([end.totalUsage.inputTokens, end.totalUsage.totalTokens],
                     [whole.usage.inputTokens, whole.usage.totalTokens]);
    const { response } = parts.find((part) => part.type === 'finish-step');
    assert.equal(response.modelId, 'mini');
    assert.ok(Math.abs(response.timestamp - Date.now()) < 60_000);
    assert.notEqual(response.id, whole.response.id);
  },
  async 'gets reasoning beside the answer'() {
    const model = scripted.chatModel('scripted');
    const whole = await generateText({ ...asked, maxOutputTokens: 100, tools: weather, model });
    assert.equal(whole.reasoningText, 'hm, the weather');
    assert.equal(whole.text, 'I ask for it.');
    const parts = await partsOf({ ...asked, maxOutputTokens: 100, tools: weather, model });
    assert.equal(textOf(parts, 'reasoning-delta'), whole.reasoningText);
    assert.equal(textOf(parts), whole.text);
    const order = parts.map((part) => part.type);
    assert.ok(order.lastIndexOf('reasoning-delta') < order.indexOf('text-start'));
    assert.ok(order.lastIndexOf('text-delta') < order.indexOf('tool-call'));
  },
  async 'calls tools and brings back what they say'() {
    const options = { ...asked, maxOutputTokens: 100, model: scripted.chatModel('scripted'), tools: weather,
                      stopWhen: stepCountIs(2) };
    const whole = await generateText(options);
    assert.equal(whole.steps.length, 2);
    for (const step of whole.steps) {
      assert.equal(step.finishReason, 'tool-calls');
      assert.deepEqual(step.toolCalls.map((call) => [call.toolName, call.input]), [['get_weather', { city: 'Köln' }]]);
      assert.deepEqual(step.toolResults.map((result) => result.output), ['rain in Köln']);
    }
    // What the first step said and what the tool answered were part of the second prompt.
    assert.ok(whole.steps[1].usage.inputTokens > whole.steps[0].usage.inputTokens + 20);
    const parts = await partsOf(options);
    assert.deepEqual(parts.filter((part) => part.type === 'error'), []);
    assert.deepEqual(parts.filter((part) => part.type === 'tool-result').map((part) => part.output),
                     ['rain in Köln', 'rain in Köln']);
    const calls = parts.filter((part) => part.type === 'tool-call').map((part) => part.toolCallId);
    assert.equal(new Set(calls).size, 2);
  },
  async 'gets errors as such'() {
    const wrong = { ...asked, temperature: -1, model: mini.chatModel('mini') };
    const failure = await generateText(wrong).catch((error) => error);
    assert.ok(APICallError.isInstance(failure), failure.stack);
    assert.equal(failure.statusCode, 400);
    assert.equal(failure.isRetryable, false);
    assert.equal(failure.data.error.param, 'temperature');
    assert.equal(failure.message, failure.data.error.message);
    const streamed = await partsOf(wrong);
    const { error } = streamed.find((part) => part.type === 'error');
    assert.equal(error.message, failure.message);
    const unknown = await generateText({ ...asked, model: mini.chatModel('mini'),
                                         providerOptions: { reprise: { banana: 1 } } }).catch((error) => error);
    assert.equal(unknown.data.error.code, 'unknown_parameter');
  },
  async 'gets a failure in the middle of a stream'() {
    const messages = [{ role: 'user', content: 'Fail!' }];
    const parts = await partsOf({ ...settings, messages, model: open(oddUrl).chatModel('odd') });
    assert.equal(textOf(parts), 'This goes well until');
    const faults = parts.filter((part) => part.type === 'error');
    assert.equal(faults.length, 1);
    assert.match(faults[0].error.message, /logit/);
    assert.equal(faults[0].error.type, 'server_error');
    assert.equal(parts.find((part) => part.type === 'finish-step').finishReason, 'error');
  },
  async 'reads odd texts, wherever a stream is cut'() {
    const prompt = 'Odd?\n';
    const messages = [{ role: 'user', content: prompt }];
    const limit = { ...settings, maxOutputTokens: 200 };
    const whole = await generateText({ ...limit, messages, model: open(oddUrl).chatModel('odd') });
    assert.equal(whole.text, JSON.parse(oddText));
    for (const size of [1, 2, 3, 5, 64, 100_000]) {
      const odd = open(oddUrl, { fetch: inPiecesOf(size) });
      for (const model of [odd.chatModel('odd'), odd.completionModel('odd')]) {
        const parts = await partsOf({ ...limit, messages, model });
        assert.deepEqual(parts.filter((part) => part.type === 'error'), []);
        assert.equal(textOf(parts), JSON.parse(oddText));
        assert.equal(parts.at(-1).totalUsage.outputTokens, whole.usage.outputTokens);
      }
    }
  },
  async 'leaves in the middle of a stream'() {
    const control = new AbortController();
    const stream = streamText({ ...asked, maxOutputTokens: 1900, abortSignal: control.signal, onError() {},
                                providerOptions: { reprise: { ignore_eos: true } }, model: mini.chatModel('mini') });
    const types = [];
    for await (const part of stream.fullStream) {
      types.push(part.type);
      if (part.type === 'text-delta') control.abort();
    }
    assert.equal(types.at(-1), 'abort');
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
