#include "ops/registry.h"

#include "base/error.h"
#include "base/nearest_name.h"

namespace reprise::ops {

Registry Registry::clone() const {
  Registry copy;
  for (const auto& [name, op] : ops_) copy.ops_.emplace(name, std::make_unique<OpDef>(*op));
  return copy;
}

OpDef& Registry::add(OpDef op) {
  const std::string name = op.name();
  const auto [place, added] = ops_.emplace(name, std::make_unique<OpDef>(std::move(op)));
  if (!added) throw Error(ErrorCode::kInvalidArgument, "operator '{}' is registered already", name);
  return *place->second;
}

const OpDef* Registry::find(std::string_view name) const {
  const auto place = ops_.find(name);
  return place == ops_.end() ? nullptr : place->second.get();
}

const OpDef& Registry::get(std::string_view name) const {
  const OpDef* op = find(name);
  if (op != nullptr) return *op;
  std::vector<std::string> names;
  for (const auto& [known, _] : ops_) names.push_back(known);
  const std::string nearest = nearest_name(name, names);
  Error error(ErrorCode::kNotFound, "there is no operator '{}'", name);
  if (nearest.empty()) throw error;
  throw std::move(error).remedy(fmt::format("did you mean '{}'?", nearest));
}

OpDef& Registry::get(std::string_view name) { return const_cast<OpDef&>(std::as_const(*this).get(name)); }

std::vector<const OpDef*> Registry::list() const {
  std::vector<const OpDef*> result;
  for (const auto& [_, op] : ops_) result.push_back(op.get());
  return result;
}

}  // namespace reprise::ops
