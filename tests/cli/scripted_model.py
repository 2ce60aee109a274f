"""A model that says what a test wants it to: each token has one successor, so a prompt's last character chooses which
script is spoken. It is a Qwen3 of one layer that adds nothing: the head maps the embedding of a token to the next."""
import json
import math
import random
import struct

# At the end of a script: no logit behind it is a number, so the request fails there.
FAILURE = "<|failure|>"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", FAILURE]
MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
HIDDEN = 128


def byte_alphabet():
    """GPT-2's characters for bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in alphabet:
            alphabet[byte] = chr(256 + len(alphabet) - len(printable))
    return alphabet


ALPHABET = byte_alphabet()


def spelled(chunk):
    data = chunk if isinstance(chunk, bytes) else chunk.encode()
    return "".join(ALPHABET[byte] for byte in data)


class Vocabulary:
    def __init__(self):
        self.tokens = {ALPHABET[byte]: byte for byte in range(256)}
        self.size = 256
        self.added = {}
        for text in SPECIAL + MARKERS:
            self.added[text] = self.size
            self.size += 1

    def word(self, word):
        """The id of a word of a script; one of its own, unless it is a single byte or a marker."""
        if word in self.added:
            return self.added[word]
        name = spelled(word)
        if name not in self.tokens:
            self.tokens[name] = self.size
            self.size += 1
        return self.tokens[name]


def write_safetensors(path, tensors):
    header, offset, blobs = {}, 0, []
    for name, (shape, values) in tensors.items():
        blob = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def weights(vocabulary, successors, failure):
    chance = random.Random(7)
    embedding = [[chance.choice((-1.0, 1.0)) for _ in range(HIDDEN)] for _ in range(vocabulary)]
    embedding[failure] = [math.nan] * HIDDEN
    head = [[0.0] * HIDDEN for _ in range(vocabulary)]
    for token, successor in successors.items():
        for i, value in enumerate(embedding[token]):
            head[successor][i] += value
    flat = lambda rows: [value for row in rows for value in row]
    zeros = lambda *shape: (list(shape), [0.0] * (shape[0] * shape[1]))
    ones = lambda size: ([size], [1.0] * size)
    layer = "model.layers.0."
    return {
        "model.embed_tokens.weight": ([vocabulary, HIDDEN], flat(embedding)),
        layer + "input_layernorm.weight": ones(HIDDEN),
        layer + "post_attention_layernorm.weight": ones(HIDDEN),
        layer + "self_attn.q_proj.weight": zeros(32, HIDDEN),
        layer + "self_attn.k_proj.weight": zeros(32, HIDDEN),
        layer + "self_attn.v_proj.weight": zeros(32, HIDDEN),
        layer + "self_attn.o_proj.weight": zeros(HIDDEN, 32),
        layer + "self_attn.q_norm.weight": ones(32),
        layer + "self_attn.k_norm.weight": ones(32),
        layer + "mlp.gate_proj.weight": zeros(64, HIDDEN),
        layer + "mlp.up_proj.weight": zeros(64, HIDDEN),
        layer + "mlp.down_proj.weight": zeros(HIDDEN, 64),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": ([vocabulary, HIDDEN], flat(head)),
    }


def write_model(directory, scripts, chat_template=None):
    """`scripts`: last character of a prompt -> what is said then, token by token (texts, or bytes of a part of a
    character); the end token follows. Each word may be said at one place only."""
    vocabulary = Vocabulary()
    successors = {}
    end = vocabulary.added["<|im_end|>"]
    for last, words in scripts.items():
        token = last.encode()[-1]
        for word in words if words[-1] == FAILURE else [*words, "<|im_end|>"]:
            if token in successors:
                raise ValueError(f"{word!r} follows something that is said at another place as well")
            successors[token] = vocabulary.word(word)
            token = successors[token]
    directory.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": HIDDEN, "head_dim": 32,
              "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 64,
              "vocab_size": vocabulary.size, "max_position_embeddings": 4096, "tie_word_embeddings": False,
              "torch_dtype": "float32", "eos_token_id": end, "rms_norm_eps": 1e-6}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": end, "do_sample": False}))
    added = [{"id": number, "content": text, "special": text in SPECIAL, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False} for text, number in vocabulary.added.items()]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocabulary.tokens, "merges": []}}
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    template = {} if chat_template is None else {"chat_template": chat_template}
    (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", **template}))
    write_safetensors(directory / "model.safetensors", weights(vocabulary.size, successors, vocabulary.added[FAILURE]))
    return directory
