#pragma once

#include <string>
#include <string_view>

#include "text/jinja_arguments.h"
#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

/// Methods of strings, mappings and lists, with Python's meaning; those that change their object are not among them, as
/// in Hugging Face's sandbox.

/// A method bound to its value: what `text.strip` is before it is called.
class JinjaMethod : public JinjaObject {
 public:
  JinjaMethod(JinjaValue receiver, std::string name) : receiver_(std::move(receiver)), name_(std::move(name)) {}
  std::string_view type_name() const override { return "method"; }
  std::optional<JinjaValue> attribute(std::string_view) const override { return std::nullopt; }
  bool callable() const override { return true; }
  JinjaValue call(JinjaRun& run, JinjaArguments& arguments) override;

 private:
  JinjaValue receiver_;
  std::string name_;
};

/// Whether any type, or the value's, has the method.
bool is_jinja_method(std::string_view name);
bool has_jinja_method(const JinjaValue& value, std::string_view name);
JinjaValue make_jinja_method(const JinjaValue& value, std::string_view name);
/// Why a method that Python has is left out; empty for an unknown one.
std::string_view refused_jinja_method(std::string_view name);

}  // namespace reprise::text
