#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/api_context.h"
#include "server/request_fields.h"

namespace reprise::server {

/// Most requests that one HTTP request may make.
inline constexpr size_t kMostRequestsAtOnce = 4096;

/// One prompt of a request.
struct Prompt {
  std::string text;  ///< as it was sent; decoded, when token ids were sent
  std::vector<int32_t> ids;
};

/// Reads a text, a list of texts, a list of token ids or a list of such lists. Texts are prompts as they are: control
/// tokens in them are recognised. Throws RequestError (400), naming `key`.
std::vector<Prompt> read_prompts(const ApiContext& context, const Json& value, const std::string& key);

/// Throws RequestError (400) for an empty prompt, ids beyond the vocabulary, and a prompt that leaves no room for
/// `new_tokens`.
void check_prompt(const ApiContext& context, const std::vector<int32_t>& ids, int64_t new_tokens,
                  const std::string& key);

}  // namespace reprise::server
