#include "text/jinja_functions.h"

#include <algorithm>
#include <array>

#include "text/jinja_operators.h"

namespace reprise::text {

namespace {

using Function = JinjaValue (*)(JinjaRun&, JinjaArguments&);

JinjaValue function_range(JinjaRun& run, JinjaArguments& arguments) {
  const bool one = arguments.positional.size() == 1;
  const int64_t start = one ? 0 : arguments.take_integer(run, 0, "", 0);
  const int64_t stop = arguments.take_integer(run, one ? 0 : 1, "", 0);
  const int64_t step = arguments.take_integer(run, 2, "", 1);
  if (arguments.positional.empty()) run.fail("range needs an end");
  if (step == 0) run.fail("the step of range is 0");
  std::vector<JinjaValue> numbers;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    run.step();
    run.charge_bytes(sizeof(JinjaValue));
    numbers.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_jinja_list(run, std::move(numbers));
}

JinjaMapping mapping_of(JinjaRun& run, JinjaArguments& arguments) {
  JinjaMapping mapping;
  if (const JinjaValue* given = arguments.take(0, "")) {
    if (!given->mapping()) run.fail("a mapping is needed, not {}", given->type_name());
    run.step(given->mapping()->size());
    for (const auto& [key, value] : given->mapping()->entries()) mapping.insert(key, value);
  }
  arguments.take_keywords();
  for (const auto& [name, value] : arguments.keywords) mapping.insert(JinjaValue(name, Origin::kTemplate), value);
  return mapping;
}

JinjaValue function_dict(JinjaRun& run, JinjaArguments& arguments) { return mapping_of(run, arguments); }

JinjaValue function_namespace(JinjaRun& run, JinjaArguments& arguments) {
  auto made = std::make_shared<JinjaNamespace>();
  const JinjaMapping mapping = mapping_of(run, arguments);
  for (const auto& [key, value] : mapping.entries()) {
    if (!key.text()) run.fail("the attributes of a namespace are named by strings");
    made->set(key.text()->bytes(), value);
  }
  run.keep(made);
  return std::shared_ptr<JinjaObject>(std::move(made));
}

JinjaValue function_raise_exception(JinjaRun& run, JinjaArguments& arguments) {
  run.fail("the template refuses the request: {}", jinja_to_text(run, arguments.require(run, 0, "message")).bytes());
}

JinjaValue function_strftime_now(JinjaRun& run, JinjaArguments& arguments) {
  const std::string& format = arguments.require_text(run, 0, "format").bytes();
  std::tm now = {};
  if (run.now) {
    now = *run.now;
  } else {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &now);
  }
  if (format.size() > 1000) run.fail("the format of strftime_now is too long");
  std::vector<char> spelled(64 * 1024);
  const size_t size = std::strftime(spelled.data(), spelled.size(), format.c_str(), &now);
  return make_jinja_text(run, MarkedText(std::string(spelled.data(), size), Origin::kTemplate));
}

constexpr std::pair<std::string_view, Function> kFunctions[] = {
    {"range", function_range},
    {"dict", function_dict},
    {"namespace", function_namespace},
    {"raise_exception", function_raise_exception},
    {"strftime_now", function_strftime_now},
};

class JinjaFunction : public JinjaObject {
 public:
  JinjaFunction(std::string_view name, Function function) : name_(name), function_(function) {}
  std::string_view type_name() const override { return "function"; }
  std::optional<JinjaValue> attribute(std::string_view) const override { return std::nullopt; }
  bool callable() const override { return true; }
  JinjaValue call(JinjaRun& run, JinjaArguments& arguments) override {
    JinjaValue result = function_(run, arguments);
    arguments.finish(run, fmt::format("the function '{}'", name_));
    return result;
  }

 private:
  std::string name_;
  Function function_;
};

class JinjaLoopMethod : public JinjaObject {
 public:
  JinjaLoopMethod(std::shared_ptr<JinjaLoop> loop, bool cycle) : loop_(std::move(loop)), cycle_(cycle) {}
  std::string_view type_name() const override { return "method"; }
  std::optional<JinjaValue> attribute(std::string_view) const override { return std::nullopt; }
  bool callable() const override { return true; }
  JinjaValue call(JinjaRun& run, JinjaArguments& arguments) override {
    return cycle_ ? loop_->cycle(run, arguments) : loop_->changed(run, arguments);
  }

 private:
  std::shared_ptr<JinjaLoop> loop_;
  bool cycle_;
};

}  // namespace

bool is_jinja_function(std::string_view name) {
  return std::any_of(std::begin(kFunctions), std::end(kFunctions),
                     [&](const auto& entry) { return entry.first == name; });
}

std::shared_ptr<JinjaObject> make_jinja_function(std::string_view name) {
  for (const auto& [candidate, function] : kFunctions) {
    if (candidate == name) return std::make_shared<JinjaFunction>(name, function);
  }
  return nullptr;
}

std::optional<JinjaValue> JinjaNamespace::attribute(std::string_view name) const {
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<JinjaValue> JinjaLoop::attribute(std::string_view name) const {
  const auto index = static_cast<int64_t>(index_);
  const auto size = static_cast<int64_t>(elements_.size());
  if (name == "index") return JinjaValue(index + 1);
  if (name == "index0") return JinjaValue(index);
  if (name == "revindex") return JinjaValue(size - index);
  if (name == "revindex0") return JinjaValue(size - index - 1);
  if (name == "first") return JinjaValue(index == 0);
  if (name == "last") return JinjaValue(index + 1 == size);
  if (name == "length") return JinjaValue(size);
  // Only recursive loops are deeper.
  if (name == "depth") return JinjaValue(int64_t{1});
  if (name == "depth0") return JinjaValue(int64_t{0});
  if (name == "previtem") {
    return index > 0 ? elements_[index_ - 1] : JinjaValue::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < size ? elements_[index_ + 1] : JinjaValue::undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed") {
    auto self = std::const_pointer_cast<JinjaLoop>(shared_from_this());
    return JinjaValue(std::make_shared<JinjaLoopMethod>(std::move(self), name == "cycle"));
  }
  return std::nullopt;
}

void JinjaLoop::release() { last_seen_.reset(); }

JinjaValue JinjaLoop::cycle(JinjaRun& run, JinjaArguments& arguments) const {
  if (arguments.positional.empty() || !arguments.keywords.empty()) run.fail("loop.cycle takes one value or more");
  return arguments.positional[index_ % arguments.positional.size()];
}

JinjaValue JinjaLoop::changed(JinjaRun& run, JinjaArguments& arguments) {
  if (!arguments.keywords.empty()) run.fail("loop.changed takes values without names");
  JinjaValue values = make_jinja_list(run, arguments.positional, JinjaList::Kind::kTuple);
  const bool differs = !last_seen_ || !jinja_equal(run, *last_seen_, values);
  // The values may hold this loop.
  if (!last_seen_) run.keep(shared_from_this());
  last_seen_ = std::move(values);
  return differs;
}

}  // namespace reprise::text
