// Uses the page of `reprise serve` as people do, with mouse and keyboard, on wide and narrow screens.
//   node page_browser.mjs PACKAGES CHROMIUM REPRISE MODEL [SCREENSHOTS]
// With SCREENSHOTS, a directory, pictures of the page are left there.
import assert from "node:assert/strict";
import {spawn} from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";

const [packages, executablePath, reprise, model, screenshots] = process.argv.slice(2);
const {chromium} = createRequire(path.resolve(packages, "package.json"))("playwright-core");
const pageFile = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../src/server/page/page.html");
const question = "Ada has 15 coins and gives 6 of them to Qian. How many coins are left?";
const cleanups = [];

/** A running `reprise serve`: {url, port, stop()}. */
async function serve(directory, ...options) {
  const port0 = options.includes("--port") ? [] : ["--port", "0"];
  const child = spawn(reprise, ["serve", "-m", directory, "--log-level", "error", ...port0, ...options],
    {stdio: ["ignore", "pipe", "inherit"]});
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const stop = () => { child.kill("SIGKILL"); return ended; };
  cleanups.push(stop);
  let said = "";
  for await (const piece of child.stdout) {
    said += piece;
    if (said.includes("ready to roll")) break;
  }
  const port = Number(/:(\d+)\n/.exec(said)[1]);
  return {url: `http://127.0.0.1:${port}/`, port, stop};
}

const state = {
  state: "ready", failure: "", model: "scripted", chat: true, mode: "full", running: 1, waiting: 0, max_running: 4,
  kv_tokens_used: 500, kv_tokens_cached: 0, kv_tokens_capacity: 1000, tokens_per_second: 12.5,
  gap_milliseconds_median: 0.01, captures: 1, recaptures: 0, capture_seconds: 0.01, finished_requests: 7,
  step_counts: {decode: {replayed: 2, above_largest_bucket: 1, mode: 1}, prefill: {prefill: 1}}, last_index: 4,
  steps: [["prefill", "prefill", 1, 30, 0], ["decode", "replayed", 1, 1, 1], ["decode", "above_largest_bucket", 3, 3, 0],
    ["decode", "mode", 1, 1, 0], ["decode", "replayed", 2, 2, 4]].map(([kind, reason, sequences, tokens, bucket], index) =>
    ({index, kind, reason, sequences, tokens, bucket, milliseconds: 1 + index, gap_milliseconds: 0.02})),
};

/** The page with a server whose answers `chat` writes, piece by piece: {url, requests}. */
async function script(chat) {
  const requests = [];
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    if (request.url === "/") {
      response.setHeader("Content-Type", "text/html").end(fs.readFileSync(pageFile));
    } else if (request.url.startsWith("/state")) {
      const after = Number(/after=(-?\d+)/.exec(request.url)[1]);
      response.end(JSON.stringify({...state, steps: state.steps.filter((step) => step.index > after)}));
    } else {
      const asked = {path: request.url, body: JSON.parse(body), closed: false};
      response.on("close", () => { asked.closed = !response.writableEnded; });
      requests.push(asked);
      await chat(response, (delta, finish = null) =>
        response.write(`data: ${JSON.stringify({choices: [{index: 0, delta, finish_reason: finish}]})}\n\n`));
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => { server.closeAllConnections(); server.close(); });
  return {url: `http://127.0.0.1:${server.address().port}/`, requests};
}

const browser = await chromium.launch({executablePath, args: ["--no-sandbox"]});
cleanups.push(() => browser.close());

/** A page of its own that notes what should not be: errors, and requests to elsewhere. */
async function open(url, options = {}) {
  const page = await browser.newPage({viewport: {width: 1200, height: 800}, ...options});
  page.setDefaultTimeout(15000);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) page.faults.push(request.url());
  });
  await page.goto(url);
  return page;
}
async function picture(page, name) {
  if (screenshots) await page.screenshot({path: path.join(screenshots, name)});
}
const status = (page, text) => page.locator("#status", {hasText: text}).waitFor();
const answers = (page) => page.locator(".turn.assistant .note");
const lastText = (page) => page.locator(".turn.assistant .text").last().textContent();
const focused = (page) => page.evaluate(() => document.activeElement.id);

/** Types a message and waits for the end of the answer. */
async function ask(page, text) {
  const before = await answers(page).count();
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
  await answers(page).nth(before).waitFor();
  return lastText(page);
}
async function direct(server, messages) {
  const response = await fetch(server.url + "v1/chat/completions",
    {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({model: "x", messages})});
  return (await response.json()).choices[0].message.content;
}

const tests = {
  async "a chat needs the keyboard only, and says what the API says"() {
    const server = await serve(model, "--served-model-name", "mini");
    const page = await open(server.url);
    await status(page, "ready");
    assert.equal(await page.locator("#model").textContent(), "mini");
    assert.equal(await focused(page), "message");
    await page.keyboard.type("one");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("two");
    assert.equal(await page.locator("#message").inputValue(), "one\ntwo");
    await page.locator("#message").fill("");
    const first = await ask(page, question);
    assert.equal(first, await direct(server, [{role: "user", content: question}]));
    assert.match(first, /#### 9/);
    assert.match(await answers(page).last().textContent(), /^\d+ tokens, first after \d+ ms, [\d.,]+ tokens\/s$/);
    assert.equal(await focused(page), "message");
    const again = await ask(page, question);
    assert.equal(again, await direct(server, [{role: "user", content: question}, {role: "assistant", content: first},
      {role: "user", content: question}]));
    await page.locator("#reset").click();
    assert.equal(await page.locator(".turn").count(), 0);
    assert.equal(await ask(page, question), first);

    // The steps of these answers, by keyboard and by mouse.
    await page.locator("#strip span[data-how=replayed]").nth(20).waitFor();
    await page.locator("#strip").focus();
    const step = () => page.locator("#step").textContent();
    const last = await step();
    assert.match(last, /^Step \d+, decode: replayed from a captured graph, graph of 1; 1 sequence, [\d.]+ ms/);
    await page.keyboard.press("ArrowLeft");
    assert.notEqual(await step(), last);
    await page.keyboard.press("End");
    assert.equal(await step(), last);
    await page.keyboard.press("Home");
    assert.match(await step(), /^Step \d+, /);
    assert.equal(await page.locator("#strip [aria-selected=true]").count(), 1);
    await page.keyboard.press("Escape");
    assert.equal(await step(), "");
    await page.locator("#message").focus();
    await page.locator("#strip span").nth(5).hover();
    assert.match(await step(), /^Step \d+, /);
    await picture(page, "page.png");
    assert.match(await page.locator("#legend").textContent(), /decode replayed: \d+/);
    assert.match(await page.locator("#kv").textContent(), /% of [\d,]+ tokens/);
    assert.deepEqual(page.faults, []);
    await server.stop();
  },

  async "every control is reached by Tab"() {
    const page = await open((await script(() => {})).url);
    await status(page, "ready");
    const reached = new Set();
    for (let i = 0; i < 12; ++i) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.tagName));
    }
    for (const control of ["send", "reset", "SUMMARY", "strip", "log", "message"]) assert.ok(reached.has(control), control);
    await page.locator("form summary").focus();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assert.equal(await focused(page), "system");
    // Every field has a name.
    for (const field of await page.locator("textarea, input, select").all()) {
      assert.ok(await field.evaluate((element) => element.labels.length > 0));
    }
  },

  async "reasons of eager steps are told in words"() {
    const page = await open((await script(() => {})).url);
    await page.locator("#strip span[data-how=fallback]").hover();
    assert.match(await page.locator("#step").textContent(), /more sequences than the largest captured batch; 3 sequences/);
    await page.locator("#strip span[data-how=eager]").hover();
    assert.match(await page.locator("#step").textContent(), /run eagerly, as the mode says/);
    await page.locator("#strip span[data-how=prefill]").hover();
    assert.match(await page.locator("#step").textContent(), /a prompt was read.*30 prompt tokens of 1 sequence/);
    assert.match(await page.locator("#legend").textContent(), /decode above largest bucket: 1/);
    assert.equal(await page.locator("#kv").textContent(), "50.0 % of 1,000 tokens");
  },

  async "thinking is apart from the answer, and Escape stops it"() {
    const server = await script(async (response, write) => {
      write({role: "assistant", content: ""});
      write({reasoning_content: "I add, "});
      write({reasoning_content: "and carry."});
      write({content: "<b>4"});
      // The rest never comes.
    });
    const page = await open(server.url);
    await status(page, "ready");
    await page.keyboard.type("2+2?");
    await page.keyboard.press("Enter");
    await page.locator(".turn.assistant .text", {hasText: "<b>4"}).waitFor();
    assert.equal(await page.locator(".turn.assistant details .text").textContent(), "I add, and carry.");
    assert.ok(await page.locator("#stop").isVisible());
    await page.keyboard.press("Escape");
    await page.locator(".note", {hasText: "stopped"}).waitFor();
    assert.ok(await page.locator("#send").isVisible());
    for (let i = 0; i < 100 && !server.requests[0].closed; ++i) await new Promise((resolve) => setTimeout(resolve, 50));
    assert.ok(server.requests[0].closed, "the server is told");
    // What was said stays in the conversation; settings reach the server.
    await page.locator("form summary").click();
    await page.locator("#system").fill("Be brief.");
    await page.locator("#temperature").fill("0.5");
    await page.locator("#limit").fill("7");
    await page.locator("#thinking").selectOption("false");
    await page.locator("#message").focus();
    await page.keyboard.type("and 3+3?");
    await page.keyboard.press("Enter");
    await page.locator("#stop").click();
    await page.locator(".note", {hasText: "stopped"}).nth(1).waitFor();
    const {body} = server.requests[1];
    assert.deepEqual(body.messages.map((message) => [message.role, message.content]),
      [["system", "Be brief."], ["user", "2+2?"], ["assistant", "<b>4"], ["user", "and 3+3?"]]);
    assert.deepEqual([body.temperature, body.max_tokens, body.chat_template_kwargs], [0.5, 7, {enable_thinking: false}]);
    assert.deepEqual(page.faults, []);
  },

  async "failures are told, and the message is not lost"() {
    let answer = 0;
    const server = await script(async (response, write) => {
      switch (answer++) {
        case 0:
          return response.writeHead(503).end(JSON.stringify({error: {message: "The request queue is full."}}));
        case 1:
          response.write(`data: ${JSON.stringify({error: {message: "The step failed."}})}\n\n`);
          return response.end();
        default:
          write({content: "half an ans"});
          await new Promise((resolve) => setTimeout(resolve, 200));
          return response.destroy();
      }
    });
    const page = await open(server.url);
    await status(page, "ready");
    for (const fault of ["The request queue is full.", "The step failed."]) {
      await page.keyboard.type("hello");
      await page.keyboard.press("Enter");
      await page.locator(".note.fault", {hasText: fault}).waitFor();
      for (let i = 0; i < 100 && await page.locator("#message").inputValue() !== "hello"; ++i) await page.waitForTimeout(20);
      assert.equal(await page.locator("#message").inputValue(), "hello");
      await page.locator("#message").fill("");
    }
    await page.keyboard.type("hello");
    await page.keyboard.press("Enter");
    await page.locator(".note.fault").nth(2).waitFor();
    assert.equal(await lastText(page), "half an ans");
    assert.equal(server.requests[2].body.messages.length, 1);
  },

  async "a narrow screen shows everything without scrolling sideways"() {
    const server = await serve(model, "--served-model-name", "mini");
    const page = await open(server.url, {viewport: {width: 360, height: 740}, hasTouch: true, isMobile: true});
    await status(page, "ready");
    await page.locator("#message").tap();
    assert.match(await ask(page, question), /#### 9/);
    await page.locator("#strip span[data-how=replayed]").nth(10).waitFor();
    for (const width of [360, 320, 700]) {
      await page.setViewportSize({width, height: 740});
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${width}`);
      for (const part of ["#status", "#strip", "#message", "#send", "#running"]) {
        const box = await page.locator(part).boundingBox();
        assert.ok(box.width > 0 && box.x >= 0 && box.x + box.width <= width + 1, `${part} at ${width}`);
      }
    }
    await page.setViewportSize({width: 360, height: 740});
    await page.evaluate(() => window.scrollTo(0, 0));
    await picture(page, "page_narrow.png");
    await server.stop();
  },

  async "a server that goes away is told, and one that comes back is used"() {
    const first = await serve(model, "--served-model-name", "mini");
    const page = await open(first.url, {colorScheme: "dark"});
    await status(page, "ready");
    await ask(page, question);
    await page.locator("#strip span").nth(10).waitFor();
    await first.stop();
    await status(page, "unreachable");
    assert.match(await page.locator("#alarm").textContent(), /does not answer. Trying again/);
    await page.keyboard.type("anybody there?");
    await page.keyboard.press("Enter");
    await page.locator(".note.fault", {hasText: "failed"}).waitFor();
    await page.locator("#message").fill("");
    await picture(page, "page_unreachable.png");
    const second = await serve(model, "--port", String(first.port));
    await status(page, "ready");
    assert.ok(await page.locator("#alarm").isHidden());
    await page.locator("#strip span").first().waitFor({state: "detached"});
    assert.match(await ask(page, question), /./);
    await page.locator("#strip span[data-how=replayed]").first().waitFor();
    await second.stop();
  },

  async "a key is asked for and kept"() {
    const server = await serve(model, "--api-key", "secret");
    const page = await open(server.url);
    await page.locator("#alarm", {hasText: "asks for an API key"}).waitFor();
    await page.locator("form summary").click();
    await page.locator("#key").fill("secret");
    await page.keyboard.press("Tab");
    await status(page, "ready");
    await page.locator("#message").focus();
    assert.match(await ask(page, question), /#### 9/);
    await page.reload();
    await status(page, "ready");
    await server.stop();
  },

  async "a model without a template continues texts"() {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
    cleanups.push(() => fs.rmSync(directory, {recursive: true}));
    for (const name of fs.readdirSync(model)) {
      if (name !== "tokenizer_config.json") fs.copyFileSync(path.join(model, name), path.join(directory, name));
    }
    const server = await serve(directory);
    const page = await open(server.url);
    await page.locator("#hint", {hasText: "has no chat template"}).waitFor();
    assert.ok(await page.locator("#system").isHidden());
    assert.match(await ask(page, `Question: ${question} Answer:`), /#### 9/);
    await server.stop();
  },
};

let failed = 0;
for (const [name, run] of Object.entries(tests)) {
  try {
    await run();
    console.log(`ok: ${name}`);
  } catch (error) {
    ++failed;
    console.log(`FAILED: ${name}\n${error.stack}`);
  }
}
for (const cleanup of cleanups.reverse()) await cleanup();
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
