#include "text/jinja_value.h"

#include <algorithm>

#include "base/error.h"
#include "text/jinja_run.h"

namespace reprise::text {

namespace {

int checked_depth(int depth) {
  if (depth > JinjaValue::kMaximumDepth) {
    throw Error(ErrorCode::kResourceExhausted, "lists and mappings nested more than {} deep",
                JinjaValue::kMaximumDepth);
  }
  return depth;
}

}  // namespace

JinjaValue::JinjaValue(JinjaList value) : storage_(std::make_shared<const JinjaList>(std::move(value))) {}
JinjaValue::JinjaValue(JinjaMapping value) : storage_(std::make_shared<const JinjaMapping>(std::move(value))) {}

JinjaValue JinjaValue::undefined(std::string what) {
  JinjaValue value;
  value.storage_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

std::optional<int64_t> JinjaValue::as_integer() const {
  if (const int64_t* value = integer()) return *value;
  if (const bool* value = boolean()) return *value ? 1 : 0;
  return std::nullopt;
}

std::optional<double> JinjaValue::as_number() const {
  if (const double* value = real()) return *value;
  if (const auto value = as_integer()) return static_cast<double>(*value);
  return std::nullopt;
}

bool JinjaValue::truthy() const {
  if (const auto number = as_number()) return *number != 0;
  if (const MarkedText* value = text()) return !value->empty();
  if (const JinjaList* value = list()) return value->size() > 0 || value->kind() == JinjaList::Kind::kGenerator;
  if (const JinjaMapping* value = mapping()) return value->size() > 0;
  return object() != nullptr;
}

std::string_view JinjaValue::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (boolean()) return "boolean";
  if (integer()) return "integer";
  if (real()) return "float";
  if (text()) return "string";
  if (mapping()) return "mapping";
  if (const JinjaList* value = list()) {
    if (value->kind() == JinjaList::Kind::kTuple) return "tuple";
    return value->kind() == JinjaList::Kind::kGenerator ? "generator" : "list";
  }
  return object()->type_name();
}

std::string JinjaValue::undefined_text() const {
  const auto* value = std::get_if<Undefined>(&storage_);
  return value && value->what ? *value->what : "the value is undefined";
}

int JinjaValue::depth() const {
  if (const JinjaList* value = list()) return value->depth();
  if (const JinjaMapping* value = mapping()) return value->depth();
  return 0;
}

JinjaValue JinjaObject::call(JinjaRun& run, JinjaArguments&) { run.fail("a {} cannot be called", type_name()); }

JinjaList::JinjaList(std::vector<JinjaValue> elements, Kind kind) : elements_(std::move(elements)), kind_(kind) {
  for (const JinjaValue& element : elements_) depth_ = std::max(depth_, element.depth() + 1);
  checked_depth(depth_);
}

void JinjaMapping::insert(JinjaValue key, JinjaValue value) {
  const bool scalar = key.text() || key.as_number() || key.is_none();
  if (!scalar) throw Error(ErrorCode::kInvalidArgument, "a {} cannot be a mapping's key", key.type_name());
  depth_ = checked_depth(std::max(depth_, value.depth() + 1));
  if (const JinjaValue* present = find(key)) {
    // The entries are this object's own, found through its read-only face.
    const_cast<JinjaValue&>(*present) = std::move(value);
    return;
  }
  if (const MarkedText* name = key.text()) by_name_.emplace(name->bytes(), entries_.size());
  entries_.emplace_back(std::move(key), std::move(value));
}

const JinjaValue* JinjaMapping::find(std::string_view key) const {
  const auto found = by_name_.find(std::string(key));
  return found == by_name_.end() ? nullptr : &entries_[found->second].second;
}

const JinjaValue* JinjaMapping::find(const JinjaValue& key) const {
  if (const MarkedText* name = key.text()) return find(name->bytes());
  if (by_name_.size() == entries_.size()) return nullptr;
  for (const auto& [candidate, value] : entries_) {
    const bool equal =
        candidate.as_number() ? candidate.as_number() == key.as_number() : candidate.is_none() && key.is_none();
    if (equal) return &value;
  }
  return nullptr;
}

}  // namespace reprise::text
