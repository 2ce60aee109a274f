// Writes tests/data/text/mini_tokenizer.jsonl: tricky texts with the ids and the decoded text that @huggingface/tokenizers
// finds for the bundled model's tokenizer. The texts are generated from a fixed seed; run it again only to add texts.
//   scripts/fetch_test_packages && node tools/generate_tokenizer_vectors.mjs
import { readFileSync, writeFileSync } from "node:fs";
import { Tokenizer } from "../build/npm/node_modules/@huggingface/tokenizers/dist/tokenizers.mjs";
import { pick, random } from "./fixed_random.mjs";

const root = new URL("../", import.meta.url);
const read = (path) => JSON.parse(readFileSync(new URL(path, root), "utf8"));
const tokenizer = new Tokenizer(read("models/mini/tokenizer.json"), read("models/mini/tokenizer_config.json"));

// Left out on purpose, because JavaScript's \s differs there from the tokenizer's: U+0085, U+180E, U+FEFF.
const fragments = [
  "Question: ", "Answer:", " how many", " apples", "\n", "\n\n", "\r\n", "\t", " ", "  ", "   \n", "\u00a0", "\u2003",
  "\u3000", "'s", "'T", "'LL", "'\u017f", "don't", "it\u2019s", "1", "23", "4567", " 8", "3.14", "1/2", "\u00bd", "\u0663",
  "\u2167", "->", "!==", "(x):\n", "$#@!x", "_x", "foo__bar", "x/y//z", "####", " = ", "<<6*7=42>>", "e\u0301", "\u00e9",
  "\u212b", "\ufb01", "\u1112\u1161\u11ab", "\ud55c", "q\u0323\u0307", "q\u0307\u0323", "\u0344", "\u0958",
  "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u041f\u0440\u0438\u0432\u0435\u0442",
  "\u4f60\u597d\u4e16\u754c", "\u3053\u3093\u306b\u3061\u306f", "\ufdfa", "\u{1f642}", "\u{1f469}\u200d\u{1f469}\u200d\u{1f467}",
  "\u{1f44d}\u{1f3fd}", "\u{1f1eb}\u{1f1f7}", "\ufffd", "\u200b", "\u0000", "\u0001", "\u007f", "<|im_start|>", "<|im_end|>",
  "<|endoftext|>", "<think>", "</think>", "<|im_start", "|>", "<<think>>", "ZzZz", "QQQQ", "....", "    ",
];

const texts = ["", " ", ...fragments];
for (let i = 0; i < 300; ++i) {
  let text = "";
  for (let n = 2 + random(8); n > 0; --n) text += pick(fragments);
  texts.push(text);
}
// Long pieces: the path with a heap. Letters of words, so that merges nest.
const letters = "etaoinshrdlucmfwypvbgkjqxz";
for (const length of [25, 26, 60, 200, 1000]) {
  let mixed = "";
  for (let i = 0; i < length; ++i) mixed += letters[random(1 + random(letters.length))];
  texts.push(mixed, pick([..."aeZ=#. \n"]).repeat(length), "question answer apples".replaceAll(" ", "").repeat(length / 25));
}
// All combining marks of the first block, one after another.
texts.push("a" + Array.from({ length: 0x70 }, (_, i) => String.fromCodePoint(0x300 + i)).join(""));

const lines = texts.map((text) => {
  const ids = tokenizer.encode(text).ids;
  const decoded = ids.length ? tokenizer.decode(ids, { skip_special_tokens: false, clean_up_tokenization_spaces: false }) : "";
  return JSON.stringify({ text, ids, decoded });
});
writeFileSync(new URL("tests/data/text/mini_tokenizer.jsonl", root), lines.join("\n") + "\n");
console.log(`${lines.length} texts`);
