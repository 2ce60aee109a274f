#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

/// What a request says about how it is scheduled.
struct SchedulingFields {
  int32_t priority = 0;
  std::string cache_salt;
};
SchedulingFields read_scheduling(RequestFields& fields);

/// A request to the engine for the `choice`-th output of a prompt.
engine::Request make_engine_request(const std::vector<int32_t>& prompt, const SamplingFields& sampling, int32_t choice,
                                    const SchedulingFields& scheduling, const std::string& label);

/// Reads the fields that OpenAI's requests have, and SGLang's additions to them. What a request leaves open comes from
/// `defaults`, else it is 1 for temperature and top_p, and off for the rest.
SamplingFields read_openai_sampling(RequestFields& fields, const load::GenerationConfig& defaults, int32_t vocabulary);

/// Reads `sampling_params` of SGLang's native requests, with max_new_tokens, and nothing else.
SamplingFields read_native_sampling(const Json& value, const std::string& path, int32_t vocabulary);

/// Throws RequestError (400) when fewer tokens are allowed than `min_tokens` asks for; `most` is what the request calls
/// the former.
void check_min_tokens(const RequestFields& fields, const SamplingFields& sampling, std::string_view most);

/// Throws RequestError (400) for values out of range, naming the field as the request has it.
void check_sampling(const SamplingFields& sampling, int32_t vocabulary);

}  // namespace reprise::server
