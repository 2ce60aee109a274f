#include "ops/scope_stack.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "ops/scopes.h"

namespace reprise::ops {

std::string source_text(const std::source_location& where) {
  const std::string_view path = where.file_name();
  return fmt::format("{}:{}", path.substr(path.find_last_of('/') + 1), where.line());
}

void ScopeStack::check_name(std::string_view name, std::string_view what) {
  const auto allowed = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; };
  if (!name.empty() && std::all_of(name.begin(), name.end(), allowed)) return;
  throw Error(ErrorCode::kInvalidArgument, "'{}' cannot be the name of {}", name,
              what == "event" ? "an event" : "a stream")
      .remedy("names have letters, digits, '_' and '.'");
}

void ScopeStack::enter_stream(Scope* scope, int32_t stream, std::source_location where) {
  open_.push_back({scope, "stream scope", stream, core_limit(), where});
}

void ScopeStack::enter_core_limit(Scope* scope, device::CoreLimit limit, int cores, std::source_location where) {
  const auto refuse = [&](const char* what, int value, int least) {
    Error error(ErrorCode::kInvalidArgument, "{}: a limit of {} {} cores, expected at least {}", source_text(where),
                value, what, least);
    if (cores == 0) throw error;
    throw std::move(error).remedy(fmt::format("the device has {}", cores));
  };
  const int most = cores == 0 ? INT32_MAX : cores;
  if (limit.matrix_cores < 1 || limit.matrix_cores > most) refuse("matrix", limit.matrix_cores, 1);
  if (limit.vector_cores < 0 || limit.vector_cores > most) refuse("vector", limit.vector_cores, 0);
  open_.push_back({scope, "core limit scope", stream(), limit, where});
}

void ScopeStack::exit(const ExitScope& change) {
  const auto place =
      std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.scope == change.scope; });
  if (place == open_.end()) return;
  if (place + 1 == open_.end()) {
    open_.pop_back();
    return;
  }
  const Open& inner = open_.back();
  Error error = Error(ErrorCode::kGraphBreak, "{}: a {} is closed before the {} that was opened inside it at {}",
                      source_text(place->where), place->what, inner.what, source_text(inner.where))
                    .remedy("close scopes in the reverse order of their opening");
  open_.erase(place);
  if (!change.in_destructor) throw error;
  if (!fault_) fault_ = std::move(error);
}

void ScopeStack::finish() {
  std::optional<Error> fault = std::exchange(fault_, std::nullopt);
  if (!fault && !open_.empty()) {
    const Open& open = open_.back();
    fault = Error(ErrorCode::kGraphBreak, "{}: a {} is still open at the end of the method", source_text(open.where),
                  open.what)
                .remedy("close it in the method, best by the end of the block that opens it");
  }
  detach();
  if (fault) throw *fault;
}

void ScopeStack::detach() {
  for (const Open& open : open_) open.scope->detach();
  open_.clear();
}

}  // namespace reprise::ops
