#include "ops/scopes.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace reprise::ops {
namespace {

void infer_nothing(const OpCall& /*call*/, std::span<TensorMeta> /*outputs*/) {}

}  // namespace

void Dispatcher::scope(const ScopeChange& /*change*/, std::source_location /*where*/) {
  throw Error(ErrorCode::kUnsupported, "this dispatcher knows no streams, events and core limits");
}

void Scope::enter(const ScopeChange& change, std::source_location where) {
  where_ = where;
  dispatcher_->scope(change, where);
}

void Scope::close() {
  if (Dispatcher* dispatcher = std::exchange(dispatcher_, nullptr)) dispatcher->scope(ExitScope{this, false}, where_);
}

Scope::~Scope() {
  if (dispatcher_ == nullptr) return;
  try {
    dispatcher_->scope(ExitScope{this, true}, where_);
  } catch (const std::exception& error) {
    log_error("a scope could not be closed: {}", error.what());
  }
}

StreamScope::StreamScope(ForwardContext& context, std::string_view name, std::source_location where) : Scope(context) {
  enter(EnterStream{this, name}, where);
}

CoreLimitScope::CoreLimitScope(ForwardContext& context, device::CoreLimit limit, std::source_location where)
    : Scope(context) {
  enter(EnterCoreLimit{this, limit}, where);
}

StreamScope stream(ForwardContext& context, std::string_view name, std::source_location where) {
  return StreamScope(context, name, where);
}

CoreLimitScope limit_core_num(ForwardContext& context, int matrix_cores, int vector_cores, std::source_location where) {
  return CoreLimitScope(context, {matrix_cores, vector_cores}, where);
}

void record_event(ForwardContext& context, std::string_view name, std::source_location where) {
  context.dispatcher.scope(RecordEvent{name}, where);
}

void wait_event(ForwardContext& context, std::string_view name, std::source_location where) {
  context.dispatcher.scope(WaitEvent{name}, where);
}

void register_scopes(Registry& registry) {
  const Traits traits{.rounding = Rounding::kNone, .control = true};
  registry.add(OpDef("record_event(*, str event) -> ()", traits, infer_nothing, nullptr));
  registry.add(OpDef("wait_event(*, str event) -> ()", traits, infer_nothing, nullptr));
  registry.add(OpDef("set_core_limit(*, int matrix_cores, int vector_cores) -> ()", traits, infer_nothing, nullptr));
}

}  // namespace reprise::ops
