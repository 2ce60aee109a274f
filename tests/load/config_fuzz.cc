#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "load/generation_config.h"
#include "load/model_config.h"
#include "load/rope_table.h"

// Parses arbitrary bytes as a config.json and as a generation_config.json. Only reprise::Error may come out, and what
// is accepted must keep the promises of ModelConfig.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const reprise::load::ModelConfig config = reprise::load::ModelConfig::parse(text);
    if (config.head_dim < 2 || config.head_dim % 2 != 0 || config.num_key_value_heads < 1 ||
        config.num_attention_heads % config.num_key_value_heads != 0 || config.hidden_size < 1) {
      std::abort();
    }
    if (reprise::load::inverse_frequencies(config.rope, config.head_dim).size() * 2 !=
        static_cast<size_t>(config.head_dim)) {
      std::abort();
    }
  } catch (const reprise::Error&) {
    // A refusal is the right answer to most inputs.
  }
  try {
    reprise::load::GenerationConfig::parse(text);
  } catch (const reprise::Error&) {
  }
  return 0;
}
