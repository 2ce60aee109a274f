#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/api_context.h"
#include "server/prompts.h"
#include "server/sampling_fields.h"

namespace reprise::server {

/// One prompt of a request to /generate.
struct GenerateItem {
  Prompt prompt;
  SamplingFields sampling;
  /// The id of its output, and behind it the one that the client gave a list as a whole.
  std::vector<std::string> names;
  bool logprobs = false;
  int32_t logprob_start = -1;  ///< first token of the prompt with log probabilities; -1: none of it
  int32_t top_logprobs = 0;

  /// The same for one of `n` outputs: each has an id of its own.
  std::vector<std::string> names_of(int32_t choice) const;
};

struct GenerateRequest {
  std::vector<GenerateItem> items;
  SchedulingFields scheduling;
  std::string input_key;  ///< where the prompts stand: "text" or "input_ids"
  bool batch = false;     ///< the answer is a list
  bool stream = false;
  bool text_in_logprobs = false;

  size_t choices() const;
};

/// Reads and checks a body of /generate. Throws RequestError for faults of it.
GenerateRequest read_generate_request(const ApiContext& context, const Json& body, const std::string& request_id);

}  // namespace reprise::server
