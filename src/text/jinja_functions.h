#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_arguments.h"
#include "text/jinja_run.h"
#include "text/jinja_value.h"

namespace reprise::text {

/// range, dict, namespace, raise_exception and strftime_now: what a template can call without having made it.
bool is_jinja_function(std::string_view name);
/// Null for an unknown name.
std::shared_ptr<JinjaObject> make_jinja_function(std::string_view name);

/// The one thing whose attributes a template can set.
class JinjaNamespace : public JinjaObject {
 public:
  std::string_view type_name() const override { return "namespace"; }
  std::optional<JinjaValue> attribute(std::string_view name) const override;
  void release() override { attributes_.clear(); }
  void set(const std::string& name, JinjaValue value) { attributes_[name] = std::move(value); }

 private:
  std::map<std::string, JinjaValue, std::less<>> attributes_;
};

/// `loop` of one running loop.
class JinjaLoop : public JinjaObject, public std::enable_shared_from_this<JinjaLoop> {
 public:
  explicit JinjaLoop(std::vector<JinjaValue> elements) : elements_(std::move(elements)) {}

  std::string_view type_name() const override { return "loop"; }
  std::optional<JinjaValue> attribute(std::string_view name) const override;
  void release() override;

  const std::vector<JinjaValue>& elements() const { return elements_; }
  void go_to(size_t index) { index_ = index; }
  /// `loop.cycle(a, b ...)` and `loop.changed(value)`.
  JinjaValue cycle(JinjaRun& run, JinjaArguments& arguments) const;
  JinjaValue changed(JinjaRun& run, JinjaArguments& arguments);

 private:
  std::vector<JinjaValue> elements_;
  size_t index_ = 0;
  std::optional<JinjaValue> last_seen_;
};

}  // namespace reprise::text
