#include "text/jinja_arguments.h"

#include <algorithm>

namespace reprise::text {

const JinjaValue* JinjaArguments::take(size_t index, std::string_view name) {
  places_ = std::max(places_, index + 1);
  return index < positional.size() ? &positional[index] : take_named(name);
}

const JinjaValue* JinjaArguments::take_named(std::string_view name) {
  taken_.resize(keywords.size());
  for (size_t i = 0; i < keywords.size(); ++i) {
    if (name.empty() || keywords[i].first != name) continue;
    taken_[i] = true;
    return &keywords[i].second;
  }
  return nullptr;
}

const JinjaValue& JinjaArguments::require(const JinjaRun& run, size_t index, std::string_view name) {
  const JinjaValue* value = take(index, name);
  if (!value) run.fail("the argument '{}' is missing", name);
  return *value;
}

const MarkedText* JinjaArguments::take_text(const JinjaRun& run, size_t index, std::string_view name) {
  const JinjaValue* value = take(index, name);
  if (!value || value->is_none()) return nullptr;
  if (!value->text()) run.fail("the argument '{}' is to be a string, not {}", name, value->type_name());
  return value->text();
}

const MarkedText& JinjaArguments::require_text(const JinjaRun& run, size_t index, std::string_view name) {
  const MarkedText* text = take_text(run, index, name);
  if (!text) run.fail("the argument '{}' is missing", name);
  return *text;
}

int64_t JinjaArguments::take_integer(const JinjaRun& run, size_t index, std::string_view name, int64_t otherwise) {
  const JinjaValue* value = take(index, name);
  if (!value || value->is_none()) return otherwise;
  const auto integer = value->as_integer();
  if (!integer) run.fail("the argument '{}' is to be an integer, not {}", name, value->type_name());
  return *integer;
}

bool JinjaArguments::take_flag(size_t index, std::string_view name, bool otherwise) {
  const JinjaValue* value = take(index, name);
  return value ? value->truthy() : otherwise;
}

void JinjaArguments::finish(const JinjaRun& run, std::string_view what) {
  if (positional.size() > places_) run.fail("{} takes at most {} arguments, not {}", what, places_, positional.size());
  taken_.resize(keywords.size());
  for (size_t i = 0; i < keywords.size(); ++i) {
    if (!taken_[i]) run.fail("{} takes no argument '{}' here", what, keywords[i].first);
  }
}

}  // namespace reprise::text
