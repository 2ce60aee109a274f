#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/marked_text.h"

namespace reprise::text {

class JinjaArguments;
class JinjaList;
class JinjaMapping;
class JinjaObject;
class JinjaRun;

/// A value of a template: what JSON has, and what templates make (undefined, tuples, macros, namespaces). Cheap to
/// copy; immutable but for the attributes of namespaces. Containers nest at most kMaximumDepth deep.
class JinjaValue {
 public:
  static constexpr int kMaximumDepth = 200;

  /// No value; `what` says for messages what was looked for.
  struct Undefined {
    std::shared_ptr<const std::string> what;
  };
  struct None {};

  JinjaValue() : storage_(Undefined{}) {}
  JinjaValue(bool value) : storage_(value) {}
  JinjaValue(int64_t value) : storage_(value) {}
  JinjaValue(double value) : storage_(value) {}
  JinjaValue(MarkedText value) : storage_(std::make_shared<const MarkedText>(std::move(value))) {}
  JinjaValue(std::string value, Origin origin) : JinjaValue(MarkedText(std::move(value), origin)) {}
  JinjaValue(JinjaList value);
  JinjaValue(JinjaMapping value);
  JinjaValue(std::shared_ptr<JinjaObject> value) : storage_(std::move(value)) {}
  /// Pointers and literals would silently become booleans.
  template <typename T>
  JinjaValue(T*) = delete;

  static JinjaValue none() {
    JinjaValue value;
    value.storage_ = None{};
    return value;
  }
  static JinjaValue undefined(std::string what);

  bool is_undefined() const { return std::holds_alternative<Undefined>(storage_); }
  bool is_none() const { return std::holds_alternative<None>(storage_); }
  /// Null unless the value has that type.
  const bool* boolean() const { return std::get_if<bool>(&storage_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&storage_); }
  const double* real() const { return std::get_if<double>(&storage_); }
  const MarkedText* text() const { return pointee<std::shared_ptr<const MarkedText>>(); }
  const JinjaList* list() const { return pointee<std::shared_ptr<const JinjaList>>(); }
  const JinjaMapping* mapping() const { return pointee<std::shared_ptr<const JinjaMapping>>(); }
  JinjaObject* object() const { return pointee<std::shared_ptr<JinjaObject>>(); }
  template <typename T>
  T* object_as() const {
    return dynamic_cast<T*>(object());
  }

  /// Booleans count as 0 and 1, as in Python.
  std::optional<int64_t> as_integer() const;
  std::optional<double> as_number() const;
  /// Python's truth of the value.
  bool truthy() const;
  /// As messages name it: 'string', 'mapping', ...
  std::string_view type_name() const;
  /// Why it is undefined, for messages.
  std::string undefined_text() const;
  /// Levels of containers, 0 for anything else.
  int depth() const;

 private:
  template <typename T>
  auto pointee() const -> typename T::element_type* {
    const T* held = std::get_if<T>(&storage_);
    return held ? held->get() : nullptr;
  }

  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const MarkedText>,
               std::shared_ptr<const JinjaList>, std::shared_ptr<const JinjaMapping>, std::shared_ptr<JinjaObject>>
      storage_;
};

/// A list, a tuple, or what Python makes a generator (the result of `map`, `select` ...: true even when empty).
class JinjaList {
 public:
  enum class Kind : uint8_t { kList, kTuple, kGenerator };

  /// Throws kResourceExhausted when nested too deep.
  explicit JinjaList(std::vector<JinjaValue> elements, Kind kind = Kind::kList);

  const std::vector<JinjaValue>& elements() const { return elements_; }
  size_t size() const { return elements_.size(); }
  Kind kind() const { return kind_; }
  int depth() const { return depth_; }

 private:
  std::vector<JinjaValue> elements_;
  Kind kind_;
  int depth_ = 1;
};

/// Keys (strings, or the numbers, booleans and none of a template's literal) and values in the order of first
/// insertion.
class JinjaMapping {
 public:
  using Entry = std::pair<JinjaValue, JinjaValue>;

  JinjaMapping() = default;
  JinjaMapping(const JinjaMapping&) = delete;
  JinjaMapping(JinjaMapping&&) = default;
  JinjaMapping& operator=(JinjaMapping&&) = default;

  /// Adds or overwrites. Throws kInvalidArgument for a key of another type, kResourceExhausted when nested too deep.
  void insert(JinjaValue key, JinjaValue value);
  /// Null when absent.
  const JinjaValue* find(std::string_view key) const;
  const JinjaValue* find(const char* key) const { return find(std::string_view(key)); }
  const JinjaValue* find(const JinjaValue& key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> by_name_;  // string keys
  int depth_ = 1;
};

/// What only templates have: namespaces, `loop`, macros, methods of a value.
class JinjaObject {
 public:
  virtual ~JinjaObject() = default;
  virtual std::string_view type_name() const = 0;
  /// None when there is no such attribute.
  virtual std::optional<JinjaValue> attribute(std::string_view name) const = 0;
  virtual bool callable() const { return false; }
  /// Throws kInvalidArgument unless callable().
  virtual JinjaValue call(JinjaRun& run, JinjaArguments& arguments);
  /// Lets go of other values: see JinjaRun::keep.
  virtual void release() {}
};

/// Reads JSON text; its strings are marked as input, its objects keep their order. Throws kInvalidArgument, naming
/// `what`, for text that is not JSON, nests deeper than JinjaValue::kMaximumDepth, or has an integer beyond 64 bits.
JinjaValue jinja_value_from_json(std::string_view json, std::string_view what);

}  // namespace reprise::text
