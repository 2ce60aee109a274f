#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request.h"
#include "load/generation_config.h"
#include "server/request_fields.h"

namespace reprise::server {

/// What a request says about how its tokens are chosen, apart from how many there may be.
struct SamplingFields {
  engine::SamplingParameters parameters;
  int32_t choices = 1;  ///< n: so many outputs for each prompt
  bool skip_special_tokens = true;
};

/// Reads the fields that OpenAI's requests have, and SGLang's additions to them. What a request leaves open comes from
/// `defaults`, else it is 1 for temperature and top_p, and off for the rest.
SamplingFields read_openai_sampling(RequestFields& fields, const load::GenerationConfig& defaults, int32_t vocabulary);

/// Reads `sampling_params` of SGLang's native requests, with max_new_tokens, and nothing else.
SamplingFields read_native_sampling(const Json& value, const std::string& path, int32_t vocabulary);

/// Throws RequestError (400) for values out of range, naming the field as the request has it.
void check_sampling(const SamplingFields& sampling, int32_t vocabulary);

/// The parameters of the i-th of n outputs: those with a seed have one of their own each, seed + i.
engine::SamplingParameters parameters_of_choice(const SamplingFields& sampling, int32_t choice);

}  // namespace reprise::server
