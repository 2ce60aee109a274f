#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

/// The arguments of a filter, test, function or method. Each is taken by place or name; finish() refuses what was not.
class JinjaArguments {
 public:
  std::vector<JinjaValue> positional;
  std::vector<std::pair<std::string, JinjaValue>> keywords;

  /// Null when it is not given; an empty `name` can only be given by place. Takes the place either way.
  const JinjaValue* take(size_t index, std::string_view name);
  const JinjaValue* take_named(std::string_view name);
  /// The given one; throws when there is none.
  const JinjaValue& require(const JinjaRun& run, size_t index, std::string_view name);
  /// Null when it is not given or none; throws for another type.
  const MarkedText* take_text(const JinjaRun& run, size_t index, std::string_view name);
  const MarkedText& require_text(const JinjaRun& run, size_t index, std::string_view name);
  int64_t take_integer(const JinjaRun& run, size_t index, std::string_view name, int64_t otherwise);
  bool take_flag(size_t index, std::string_view name, bool otherwise);
  /// All keywords are taken by the caller itself.
  void take_keywords() { taken_.assign(keywords.size(), true); }
  void finish(const JinjaRun& run, std::string_view what);

 private:
  size_t places_ = 0;
  std::vector<bool> taken_;  // of the keywords
};

}  // namespace reprise::text
