#pragma once

#include <source_location>
#include <string_view>

#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// A stretch of model code whose operators run under other circumstances; ends with the object or with close(). Scopes
/// of a method nest, and end before the method does: what breaks this is a graph break that names the line where the
/// scope was opened.
class Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  /// An error of the end is kept for the end of the method.
  ~Scope();
  /// Ends the scope now. Does nothing when it has ended. Throws kGraphBreak when one that was opened later is still
  /// open.
  void close();
  /// For dispatchers, when they end before the scope does.
  void detach() { dispatcher_ = nullptr; }

 protected:
  explicit Scope(ForwardContext& context) : dispatcher_(&context.dispatcher) {}
  void enter(const ScopeChange& change, std::source_location where);

 private:
  Dispatcher* dispatcher_;
  std::source_location where_;
};

/// See stream().
class StreamScope final : public Scope {
 public:
  StreamScope(ForwardContext& context, std::string_view name, std::source_location where);
};

/// See limit_core_num().
class CoreLimitScope final : public Scope {
 public:
  CoreLimitScope(ForwardContext& context, device::CoreLimit limit, std::source_location where);
};

/// Operators that are called while the result lives run on a side stream, beside those of the method's own stream:
///
///   ops::record_event(context, "x_ready");
///   {
///     const auto side = ops::stream(context, "side");
///     ops::wait_event(context, "x_ready");
///     y = ops::silu(context, x);
///     ops::record_event(context, "y_ready");
///   }
///   z = ops::mul(context, x, x);  // may run at the same time
///   ops::wait_event(context, "y_ready");
///   z = ops::add(context, z, y);
///
/// Streams are known by name within a method. What one stream makes or writes, another one may use only behind an
/// event: a graph without it is refused. All side streams begin behind what was queued before the method, and what
/// comes after the method waits for them. `name`: letters, digits, '_' and '.'; kInvalidArgument for others.
[[nodiscard]] StreamScope stream(ForwardContext& context, std::string_view name,
                                 std::source_location where = std::source_location::current());

/// Launches while the result lives use at most this many cores of each kind; 0 vector cores: not limited on their own.
/// Scopes nest, the innermost holds, on side streams too. Throws kInvalidArgument for fewer than 1 matrix core, and for
/// more than the device has (in a graph: when it runs). Results do not change.
[[nodiscard]] CoreLimitScope limit_core_num(ForwardContext& context, int matrix_cores, int vector_cores = 0,
                                            std::source_location where = std::source_location::current());

/// Marks the work so far of the current stream by a name (as of streams). A second record moves the mark.
void record_event(ForwardContext& context, std::string_view name,
                  std::source_location where = std::source_location::current());
/// Later operators of the current stream run behind the mark. Throws kInvalidArgument when the method has not recorded
/// it.
void wait_event(ForwardContext& context, std::string_view name,
                std::source_location where = std::source_location::current());

/// What graphs hold in place of the calls above: operators without tensors that act on the stream they stand on.
/// record_event and wait_event by name; set_core_limit for the launches behind it, (0, 0): the limit from outside.
void register_scopes(Registry& registry);

}  // namespace reprise::ops
