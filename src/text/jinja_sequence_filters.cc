#include <algorithm>

#include "text/jinja_filters.h"
#include "text/jinja_operators.h"
#include "text/jinja_tests.h"
#include "text/jinja_text.h"

namespace reprise::text {

namespace {

using Value = JinjaValue;
using Values = std::vector<JinjaValue>;
constexpr auto kGenerator = JinjaList::Kind::kGenerator;

Value filter_length(JinjaRun& run, const Value& value, JinjaArguments&) {
  if (const MarkedText* text = value.text()) return static_cast<int64_t>(count_characters(text->bytes()));
  if (const JinjaMapping* mapping = value.mapping()) return static_cast<int64_t>(mapping->size());
  if (value.is_undefined()) return int64_t{0};
  const JinjaList* list = value.list();
  if (!list || list->kind() == kGenerator) run.fail("{} has no length", value.type_name());
  return static_cast<int64_t>(list->size());
}

Value filter_default(JinjaRun&, const Value& value, JinjaArguments& arguments) {
  const Value* otherwise = arguments.take(0, "default_value");
  const bool also_false = arguments.take_flag(1, "boolean", false);
  if (!value.is_undefined() && (!also_false || value.truthy())) return value;
  return otherwise ? *otherwise : Value(std::string(), Origin::kTemplate);
}

Value filter_list(JinjaRun& run, const Value& value, JinjaArguments&) {
  return make_jinja_list(run, jinja_elements(run, value));
}

Value filter_first(JinjaRun& run, const Value& value, JinjaArguments&) {
  const Values elements = jinja_elements(run, value);
  return elements.empty() ? Value::undefined("the sequence is empty, it has no first element") : elements.front();
}

Value filter_last(JinjaRun& run, const Value& value, JinjaArguments&) {
  const Values elements = jinja_elements(run, value);
  return elements.empty() ? Value::undefined("the sequence is empty, it has no last element") : elements.back();
}

/// `a.b.0` of a value, as the filters' attributes are written; `otherwise` stands for whatever is missing on the way.
Value attribute_of(JinjaRun& run, const Value& value, const Value& path, const Value* otherwise = nullptr) {
  if (path.as_integer()) {
    Value found = jinja_item(run, value, path);
    return otherwise && found.is_undefined() ? *otherwise : found;
  }
  if (!path.text()) run.fail("an attribute is to be a string or an integer, not {}", path.type_name());
  Value found = value;
  std::string_view rest = path.text()->bytes();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    const bool index = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    const Value key = index ? Value(static_cast<int64_t>(std::stoll(part))) : Value(part, Origin::kTemplate);
    found = jinja_item(run, found, key);
    if (otherwise && found.is_undefined()) found = *otherwise;
    if (dot == std::string_view::npos) return found;
    rest.remove_prefix(dot + 1);
  }
}

Value filter_join(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const Value* given = arguments.take(0, "d");
  const MarkedText separator = given ? jinja_to_text(run, *given) : MarkedText();
  const Value* attribute = arguments.take(1, "attribute");
  MarkedText joined;
  bool first = true;
  for (const Value& element : jinja_elements(run, value)) {
    if (!first) joined.append(separator);
    first = false;
    joined.append(
        jinja_to_text(run, attribute && !attribute->is_none() ? attribute_of(run, element, *attribute) : element));
    run.check_size(joined.size());
  }
  return make_jinja_text(run, std::move(joined));
}

Value items_of(JinjaRun& run, const Value& value, JinjaList::Kind kind) {
  Values items;
  if (value.is_undefined()) return make_jinja_list(run, std::move(items), kind);
  if (!value.mapping()) run.fail("a mapping is needed, not {}", value.type_name());
  for (const auto& [key, entry] : value.mapping()->entries()) {
    items.push_back(make_jinja_list(run, {key, entry}, JinjaList::Kind::kTuple));
  }
  return make_jinja_list(run, std::move(items), kind);
}

Value filter_items(JinjaRun& run, const Value& value, JinjaArguments&) { return items_of(run, value, kGenerator); }

/// What values are compared by when case does not count.
Value without_case(JinjaRun& run, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.text()) return value;
  return make_jinja_text(run, lower(*value.text()));
}

/// Sorts by keys: a stable merge sort, so that an order that contradicts itself does no harm.
Values sort_by(JinjaRun& run, const Values& values, const Values& keys, bool reverse) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<size_t> merged(order.size());
  const auto after = [&](size_t a, size_t b) {
    return reverse ? jinja_less(run, keys[a], keys[b]) : jinja_less(run, keys[b], keys[a]);
  };
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size());
      const size_t end = std::min(begin + 2 * width, order.size());
      size_t left = begin;
      size_t right = middle;
      for (size_t i = begin; i < end; ++i) {
        const bool takes_right = left == middle || (right < end && after(order[left], order[right]));
        merged[i] = order[takes_right ? right++ : left++];
      }
    }
    order.swap(merged);
  }
  Values sorted;
  for (const size_t index : order) sorted.push_back(values[index]);
  return sorted;
}

Value filter_dictsort(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const bool case_sensitive = arguments.take_flag(0, "case_sensitive", false);
  const MarkedText* by = arguments.take_text(run, 1, "by");
  const bool reverse = arguments.take_flag(2, "reverse", false);
  const bool by_value = by && by->bytes() == "value";
  if (by && !by_value && by->bytes() != "key") run.fail("dictsort sorts by 'key' or 'value'");
  const Value items = items_of(run, value, JinjaList::Kind::kList);
  Values keys;
  for (const Value& item : items.list()->elements()) {
    keys.push_back(without_case(run, item.list()->elements()[by_value ? 1 : 0], case_sensitive));
  }
  return make_jinja_list(run, sort_by(run, items.list()->elements(), keys, reverse));
}

Value filter_sort(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const bool reverse = arguments.take_flag(0, "reverse", false);
  const bool case_sensitive = arguments.take_flag(1, "case_sensitive", false);
  const Value* attribute = arguments.take(2, "attribute");
  const Values values = jinja_elements(run, value);
  Values keys;
  for (const Value& element : values) {
    const bool has_attribute = attribute && !attribute->is_none();
    if (has_attribute && attribute->text() && attribute->text()->bytes().find(',') != std::string::npos) {
      run.raise(ErrorCode::kUnsupported, "sorting by several attributes is not supported");
    }
    keys.push_back(without_case(run, has_attribute ? attribute_of(run, element, *attribute) : element, case_sensitive));
  }
  return make_jinja_list(run, sort_by(run, values, keys, reverse));
}

Value filter_unique(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const bool case_sensitive = arguments.take_flag(0, "case_sensitive", false);
  const Value* attribute = arguments.take(1, "attribute");
  Values kept;
  Values keys;
  for (const Value& element : jinja_elements(run, value)) {
    Value key = attribute && !attribute->is_none() ? attribute_of(run, element, *attribute) : element;
    key = without_case(run, key, case_sensitive);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& seen) { return jinja_equal(run, seen, key); })) continue;
    keys.push_back(std::move(key));
    kept.push_back(element);
  }
  return make_jinja_list(run, std::move(kept), kGenerator);
}

Value filter_reverse(JinjaRun& run, const Value& value, JinjaArguments&) {
  if (value.text()) {
    return jinja_slice(run, value, Value::none(), Value::none(), Value(int64_t{-1}));
  }
  Values elements = jinja_elements(run, value);
  std::reverse(elements.begin(), elements.end());
  return make_jinja_list(run, std::move(elements), kGenerator);
}

template <bool kLargest>
Value filter_extreme(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const bool case_sensitive = arguments.take_flag(0, "case_sensitive", false);
  const Value* attribute = arguments.take(1, "attribute");
  Value best = Value::undefined("the sequence is empty, it has no smallest or largest element");
  Value best_key;
  bool first = true;
  for (const Value& element : jinja_elements(run, value)) {
    Value key = attribute && !attribute->is_none() ? attribute_of(run, element, *attribute) : element;
    key = without_case(run, key, case_sensitive);
    if (first || (kLargest ? jinja_less(run, best_key, key) : jinja_less(run, key, best_key))) {
      best = element;
      best_key = std::move(key);
    }
    first = false;
  }
  return best;
}

Value filter_sum(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const Value* attribute = arguments.take(0, "attribute");
  const Value* start = arguments.take(1, "start");
  Value sum = start ? *start : Value(int64_t{0});
  for (const Value& element : jinja_elements(run, value)) {
    const bool has_attribute = attribute && !attribute->is_none();
    sum = jinja_binary(run, JinjaOperator::kAdd, sum, has_attribute ? attribute_of(run, element, *attribute) : element);
  }
  return sum;
}

Value filter_batch(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  const int64_t size = arguments.take_integer(run, 0, "linecount", 0);
  const Value* fill = arguments.take(1, "fill_with");
  if (size <= 0) run.fail("batch needs a positive number");
  Values batches;
  Values batch;
  const auto width = static_cast<size_t>(size);
  for (const Value& element : jinja_elements(run, value)) {
    if (batch.size() == width) batches.push_back(make_jinja_list(run, std::exchange(batch, {})));
    batch.push_back(element);
  }
  if (!batch.empty()) {
    if (fill && !fill->is_none()) {
      run.step(width - batch.size());
      batch.resize(width, *fill);
    }
    batches.push_back(make_jinja_list(run, std::move(batch)));
  }
  return make_jinja_list(run, std::move(batches), kGenerator);
}

Value filter_attr(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  // Jinja2 looks at attributes only, not at a mapping's keys.
  const std::string& name = arguments.require_text(run, 0, "name").bytes();
  const JinjaObject* object = value.object();
  if (auto found = object ? object->attribute(name) : std::nullopt) return *std::move(found);
  return Value::undefined(fmt::format("the {} has no attribute '{}'", value.type_name(), name));
}

/// The arguments from `first` on, for the filter or test that another filter runs; they count as taken.
JinjaArguments arguments_from(JinjaArguments& arguments, size_t first) {
  JinjaArguments rest;
  for (size_t i = first; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
    arguments.take(i, "");
  }
  rest.keywords = arguments.keywords;
  arguments.take_keywords();
  return rest;
}

Value filter_map(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  Values mapped;
  const bool by_attribute = arguments.positional.empty();
  if (by_attribute) {
    const Value& attribute = arguments.require(run, 0, "attribute");
    const Value* otherwise = arguments.take(1, "default");
    for (const Value& element : jinja_elements(run, value)) {
      mapped.push_back(attribute_of(run, element, attribute, otherwise));
    }
    return make_jinja_list(run, std::move(mapped), kGenerator);
  }
  const std::string name = arguments.require_text(run, 0, "").bytes();
  const JinjaArguments rest = arguments_from(arguments, 1);
  for (const Value& element : jinja_elements(run, value)) {
    JinjaArguments own = rest;
    mapped.push_back(apply_jinja_filter(run, name, element, own));
  }
  return make_jinja_list(run, std::move(mapped), kGenerator);
}

template <bool kByAttribute, bool kKeeps>
Value filter_select(JinjaRun& run, const Value& value, JinjaArguments& arguments) {
  Value attribute;
  if (kByAttribute) attribute = arguments.require(run, 0, "");
  const size_t at = kByAttribute ? 1 : 0;
  const MarkedText* test = arguments.take_text(run, at, "");
  const JinjaArguments rest = arguments_from(arguments, at + 1);
  Values kept;
  for (const Value& element : jinja_elements(run, value)) {
    const Value tested = kByAttribute ? attribute_of(run, element, attribute) : element;
    JinjaArguments own = rest;
    const bool holds = test ? apply_jinja_test(run, test->bytes(), tested, own) : tested.truthy();
    if (holds == kKeeps) kept.push_back(element);
  }
  return make_jinja_list(run, std::move(kept), kGenerator);
}

constexpr std::pair<std::string_view, JinjaFilter> kSequenceFilters[] = {
    {"length", filter_length},
    {"count", filter_length},
    {"default", filter_default},
    {"d", filter_default},
    {"list", filter_list},
    {"first", filter_first},
    {"last", filter_last},
    {"join", filter_join},
    {"items", filter_items},
    {"dictsort", filter_dictsort},
    {"sort", filter_sort},
    {"unique", filter_unique},
    {"reverse", filter_reverse},
    {"min", filter_extreme<false>},
    {"max", filter_extreme<true>},
    {"sum", filter_sum},
    {"batch", filter_batch},
    {"attr", filter_attr},
    {"map", filter_map},
    {"select", filter_select<false, true>},
    {"reject", filter_select<false, false>},
    {"selectattr", filter_select<true, true>},
    {"rejectattr", filter_select<true, false>},
};

}  // namespace

JinjaFilter find_jinja_sequence_filter(std::string_view name) {
  for (const auto& [candidate, filter] : kSequenceFilters) {
    if (candidate == name) return filter;
  }
  return nullptr;
}

}  // namespace reprise::text
