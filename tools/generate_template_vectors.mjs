// Writes tests/data/text/generated_templates.jsonl: 200 templates, put together at random from what chat templates are
// made of, with what @huggingface/jinja renders. The seed is fixed; run it again only to add constructs.
//   scripts/fetch_test_packages && node tools/generate_template_vectors.mjs
// Left out on purpose, because @huggingface/jinja differs there from Jinja2, which is what Hugging Face's transformers
// use: printing of lists and numbers without tojson, generators that are true when empty, undefined in arithmetic,
// text before a break or continue, which it loses, characters of two UTF-16 units, capitalize, title.
import { writeFileSync } from "node:fs";
import { Template } from "../build/npm/node_modules/@huggingface/jinja/dist/index.js";
import { pick, random } from "./fixed_random.mjs";

const variables = {
  messages: [
    { role: "system", content: " Be brief.\n" },
    { role: "user", content: "Café & 'x' \"y\", two words" },
    { role: "assistant", content: "<think>\nhm\n</think>\n\nfine", tool_calls: [
      { function: { name: "f", arguments: { city: "Oslo", n: 3, deep: [true, null, "a\"b"] } } }] },
    { role: "tool", content: "7C", name: "f" },
    { role: "user", content: "thanks" },
  ],
  tools: [{ type: "function", function: { name: "f", description: "Does f.", parameters: {
    type: "object", properties: { city: { type: "string" }, n: { type: "integer" } }, required: ["city"] } } }],
  numbers: [4, 1, 3, 1],
  words: ["pear", "apple", "fig"],
  bos_token: "<s>", eos_token: "</s>", n: 5, flag: true, nothing: null, padded: "  in the middle \n",
  add_generation_prompt: true,
};

// Each maker returns an expression of its type; `names` are loop variables in scope that hold messages.
function string(depth, names) {
  const message = names.length && random(3) ? pick(names) : `messages[${pick(["0", "1", "2", "-1", "n - 2"])}]`;
  const simple = [
    () => `${message}.role`, () => `${message}['content']`, () => `${message}.content`, () => "bos_token",
    () => "eos_token", () => "padded", () => pick(["'plain'", "\"it's\"", "'a\\n b'", "'x-y-z'", "''"]),
    () => `words[${pick(["0", "1", "-1"])}]`,
  ];
  if (depth <= 0) return pick(simple)();
  const s = () => string(depth - 1, names);
  const nested = [
    () => `(${s()} + ${s()})`, () => `(${s()} ~ ${s()})`, () => `(${s()}) | trim`, () => `(${s()} | upper)`,
    () => `(${s()} | lower)`, () => `(${s()}).strip()`, () => `(${s()}).lstrip('\\n ')`, () => `(${s()}).rstrip()`,
    () => `(${s()}).split('${pick(["-", "</think>", " ", "\\n"])}')[${pick(["0", "-1"])}]`,
    () => `(${s()}).replace('${pick(["a", "in", "\\n", " "])}', ${pick(["'_'", "''", "'(x)'"])})`,
    () => `(${s()} if ${test(depth - 1, names)} else ${s()})`, () => `(${s()})[${slice(depth)}]`,
    () => `(words | join('${pick([", ", "", "-"])}'))`, () => `(${number(depth - 1, names)} | string)`,
    () => `(${pick(["messages", "tools", "messages[2].tool_calls", "tools[0].function.parameters", "words", "numbers"])} | tojson)`,
    () => `(${pick(["tools", "messages[2]", "words"])} | tojson(indent=${pick(["2", "4"])}))`,
    () => `(missing | default(${s()}))`, () => `(${s()} | default('never'))`, () => `(${s()}).upper()`,
    () => `(words | first)`, () => `(words | last)`, () => `(words | sort | join('/'))`,
    () => `(messages | map(attribute='role') | join(' '))`,
    () => `(messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('|'))`,
    () => `(messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | join('|'))`,
    () => `(numbers | unique | join(','))`, () => `(numbers | sort | reverse | join(','))`,
    () => `(${s()} | replace('e', 'E'))`, () => `(${s()} | indent(2))`,
  ];
  return pick(nested)();
}
function slice() {
  return pick(["::-1", "1:", ":3", "1:4", "-3:", ":-1", "::2", "4:0:-2", ":"]);
}
function number(depth, names) {
  const simple = [() => "n", () => String(random(20)), () => "messages | length", () => "numbers[1]", () => "words | length"];
  if (depth <= 0) return `(${pick(simple)()})`;
  const m = () => number(depth - 1, names);
  return pick([
    () => `(${m()} + ${m()})`, () => `(${m()} - ${m()})`, () => `(${m()} * ${m()})`, () => `(${m()} % 7)`,
    () => `(${string(depth - 1, names)} | length)`, () => `('12' | int + ${m()})`, () => `(${m()} | abs)`,
    () => `(numbers | length)`, ...simple,
  ])();
}
function test(depth, names) {
  const message = names.length ? pick(names) : "messages[2]";
  const simple = [
    () => "flag", () => "nothing is none", () => "missing is defined", () => "missing is not defined", () => "not flag",
    () => "add_generation_prompt", () => `${message}.role == '${pick(["user", "assistant", "tool"])}'`,
    () => `${message}.tool_calls is defined`, () => `${message}.tool_calls`, () => `'${pick(["in", "zz"])}' in padded`,
    () => `${message}['role'] in ['user', 'tool']`, () => "'pear' not in words", () => "tools is iterable and tools",
    () => `${message}.content is string`, () => `${message} is mapping`, () => "n is number", () => "words is sequence",
    () => `${message}.content.startswith('<think>')`, () => `${message}.content.endswith('fine')`,
  ];
  if (depth <= 0) return `(${pick(simple)()})`;
  const t = () => test(depth - 1, names);
  return pick([
    () => `(${t()} and ${t()})`, () => `(${t()} or ${t()})`, () => `(not ${t()})`,
    () => `(${number(depth - 1, names)} ${pick(["<", "<=", ">", ">=", "==", "!="])} ${number(depth - 1, names)})`,
    () => `(${string(depth - 1, names)} ${pick(["==", "!="])} ${string(depth - 1, names)})`, ...simple,
  ])();
}

let counter = 0;
// Tags with random marks and white space around.
const open = (word) => `${pick(["", "", "\n", "  ", "\n  "])}{%${pick(["-", "", "-"])} ${word} ${pick(["-", "", "-"])}%}${pick(["", "\n", " "])}`;
const output = (expression) => `{{${pick(["-", ""])} ${expression} ${pick(["-", ""])}}}`;
function statements(depth, names, count) {
  let text = "";
  for (let i = 0; i < count; i++) text += statement(depth, names);
  return text;
}
function statement(depth, names) {
  const body = (more = names) => statements(depth - 1, more, 1 + random(2));
  const name = `v${counter++}`;
  const plain = [
    () => output(string(2, names)), () => output(string(1, names)), () => output(number(1, names)),
    () => pick(["text", "<|im_start|>", "\n", " - ", "{ }", "# not a comment\n"]), () => `{#${pick(["-", ""])} note ${pick(["-", ""])}#}`,
  ];
  if (depth <= 0) return pick(plain)();
  return pick([
    ...plain,
    () => `${open(`if ${test(1, names)}`)}${body()}${open("else")}${body()}${open("endif")}`,
    () => `${open(`if ${test(1, names)}`)}${body()}${open(`elif ${test(1, names)}`)}${body()}${open("endif")}`,
    () => `${open(`for ${name} in messages`)}${output(`${name}.role`)}${body([...names, name])}${open("endfor")}`,
    () => `${open(`for ${name} in messages[${slice()}]`)}${body([...names, name])}${output(pick(["loop.index", "loop.index0", "loop.revindex0", "loop.length"]))}${open("endfor")}`,
    () => `${open(`for ${name} in messages if ${name}.role == 'user'`)}${body([...names, name])}${open(`if ${pick(["loop.first", "loop.last", "not loop.last", "loop.index0 % 2 == 0"])}`)}x${open("endif")}${open("endfor")}`,
    () => `${open(`for ${name} in missing | default([])`)}x${open("else")}${body()}${open("endfor")}`,
    () => `${open(`for k${name}, ${name} in tools[0].function.parameters.properties.items()`)}${output(`k${name} ~ '=' ~ ${name}.type`)}${open("endfor")}`,
    () => `${open(`for ${name} in range(${1 + random(3)})`)}${body()}${output(name)}${open("endfor")}`,
    () => `${open(`set ${name} = ${string(1, names)}`)}${output(name)}`,
    () => `${open(`set ${name} = namespace(count=0, text='')`)}${open("for m in messages")}${open(`if ${test(0, ["m"])}`)}${open(`set ${name}.count = ${name}.count + 1`)}${open(`set ${name}.text = ${name}.text ~ m.role[0]`)}${open("endif")}${open("endfor")}${output(`${name}.count`)}${output(`${name}.text`)}`,
    () => `${open(`macro ${name}(a, b='${pick(["x", "y"])}')`)}[${output("a")}|${output("b")}]${open("endmacro")}${output(`${name}(${string(1, names)})`)}${output(`${name}(${string(0, names)}, b=${string(1, names)})`)}`,
    () => `${open(`set ${name}`)}${body()}${open("endset")}${output(`${name} | trim`)}`,
    () => `{%- for ${name} in numbers -%}{%- if ${name} == 3 -%}{%- break -%}{%- endif -%}{%- if ${name} == 1 -%}{%- continue -%}{%- endif -%}${output(name)}{%- endfor ${pick(["-", ""])}%}`,
  ])();
}

const lines = [JSON.stringify(variables)];
let skipped = 0;
while (lines.length <= 200) {
  counter = 0;
  const template = statements(3, [], 2 + random(4));
  if (template.length > 1500) continue;
  try {
    lines.push(JSON.stringify({ template, rendered: new Template(template).render(variables) }));
  } catch {
    // What does not parse or render there (a slice of white space alone, an index past the end) shows nothing here.
    skipped++;
  }
}
writeFileSync(new URL("../tests/data/text/generated_templates.jsonl", import.meta.url), lines.join("\n") + "\n");
console.log(`${lines.length - 1} templates, ${skipped} skipped`);
