#include "text/jinja_methods.h"

#include <algorithm>
#include <functional>

#include "text/jinja_operators.h"
#include "text/jinja_string_methods.h"

namespace reprise::text {

namespace {

using MappingMethod = JinjaValue (*)(JinjaRun&, const JinjaMapping&, JinjaArguments&);
using ListMethod = JinjaValue (*)(JinjaRun&, const JinjaList&, JinjaArguments&);

JinjaValue mapping_get(JinjaRun& run, const JinjaMapping& mapping, JinjaArguments& arguments) {
  const JinjaValue& key = arguments.require(run, 0, "key");
  const JinjaValue* otherwise = arguments.take(1, "default");
  if (const JinjaValue* found = mapping.find(key)) return *found;
  return otherwise ? *otherwise : JinjaValue::none();
}

JinjaValue mapping_items(JinjaRun& run, const JinjaMapping& mapping, JinjaArguments&) {
  std::vector<JinjaValue> items;
  run.step(mapping.size());
  for (const auto& [key, value] : mapping.entries()) {
    items.push_back(make_jinja_list(run, {key, value}, JinjaList::Kind::kTuple));
  }
  return make_jinja_list(run, std::move(items));
}

JinjaValue mapping_keys(JinjaRun& run, const JinjaMapping& mapping, JinjaArguments&) {
  std::vector<JinjaValue> keys;
  for (const auto& [key, value] : mapping.entries()) keys.push_back(key);
  return make_jinja_list(run, std::move(keys));
}

JinjaValue mapping_values(JinjaRun& run, const JinjaMapping& mapping, JinjaArguments&) {
  std::vector<JinjaValue> values;
  for (const auto& [key, value] : mapping.entries()) values.push_back(value);
  return make_jinja_list(run, std::move(values));
}

JinjaValue mapping_copy(JinjaRun& run, const JinjaMapping& mapping, JinjaArguments&) {
  JinjaMapping copy;
  run.step(mapping.size());
  run.charge_bytes(mapping.size() * 2 * sizeof(JinjaValue));
  for (const auto& [key, value] : mapping.entries()) copy.insert(key, value);
  return copy;
}

JinjaValue list_count(JinjaRun& run, const JinjaList& list, JinjaArguments& arguments) {
  const JinjaValue& wanted = arguments.require(run, 0, "value");
  return static_cast<int64_t>(std::count_if(list.elements().begin(), list.elements().end(),
                                            [&](const auto& element) { return jinja_equal(run, element, wanted); }));
}

JinjaValue list_index(JinjaRun& run, const JinjaList& list, JinjaArguments& arguments) {
  const JinjaValue& wanted = arguments.require(run, 0, "value");
  for (size_t i = 0; i < list.size(); ++i) {
    if (jinja_equal(run, list.elements()[i], wanted)) return static_cast<int64_t>(i);
  }
  run.fail("the value is not in the list");
}

JinjaValue list_copy(JinjaRun& run, const JinjaList& list, JinjaArguments&) {
  return make_jinja_list(run, list.elements(), list.kind());
}

constexpr std::pair<std::string_view, MappingMethod> kMappingMethods[] = {
    {"get", mapping_get},       {"items", mapping_items}, {"keys", mapping_keys},
    {"values", mapping_values}, {"copy", mapping_copy},
};
constexpr std::pair<std::string_view, ListMethod> kListMethods[] = {
    {"count", list_count},
    {"index", list_index},
    {"copy", list_copy},
};

template <typename Table>
auto find_in_table(const Table& table, std::string_view name) -> decltype(table[0].second) {
  for (const auto& [candidate, method] : table) {
    if (candidate == name) return method;
  }
  return nullptr;
}

}  // namespace

JinjaValue JinjaMethod::call(JinjaRun& run, JinjaArguments& arguments) {
  JinjaValue result;
  if (const MarkedText* text = receiver_.text()) {
    run.step_through(text->size());
    result = find_jinja_string_method(name_)(run, *text, arguments);
  } else if (const JinjaMapping* mapping = receiver_.mapping()) {
    result = find_in_table(kMappingMethods, name_)(run, *mapping, arguments);
  } else {
    result = find_in_table(kListMethods, name_)(run, *receiver_.list(), arguments);
  }
  arguments.finish(run, fmt::format("the method '{}'", name_));
  return result;
}

bool is_jinja_method(std::string_view name) {
  return find_jinja_string_method(name) || find_in_table(kMappingMethods, name) || find_in_table(kListMethods, name) ||
         name == "cycle" || name == "changed";
}

bool has_jinja_method(const JinjaValue& value, std::string_view name) {
  if (value.text()) return find_jinja_string_method(name) != nullptr;
  if (value.mapping()) return find_in_table(kMappingMethods, name) != nullptr;
  const JinjaList* list = value.list();
  return list && list->kind() != JinjaList::Kind::kGenerator && find_in_table(kListMethods, name);
}

JinjaValue make_jinja_method(const JinjaValue& value, std::string_view name) {
  return JinjaValue(std::make_shared<JinjaMethod>(value, std::string(name)));
}

std::string_view refused_jinja_method(std::string_view name) {
  static constexpr std::string_view kChanging[] = {"append", "extend",  "insert", "pop",        "popitem", "remove",
                                                   "clear",  "reverse", "sort",   "setdefault", "update"};
  if (std::find(std::begin(kChanging), std::end(kChanging), name) != std::end(kChanging)) {
    return "templates cannot change lists and mappings";
  }
  if (name == "format" || name == "format_map") return "use '~' or join";
  return {};
}

}  // namespace reprise::text
