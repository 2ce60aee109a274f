#include "device/ascend/acl_features.h"

namespace reprise::device::ascend {

std::string_view name_of(Feature feature) {
  switch (feature) {
    case Feature::kRuntime:
      return "runtime";
    case Feature::kVersion:
      return "version of the runtime";
    case Feature::kErrorText:
      return "texts of errors";
    case Feature::kCoreCount:
      return "number of cores";
    case Feature::kTimedWait:
      return "waits with a time limit";
    case Feature::kStreamAbort:
      return "aborting streams";
    case Feature::kStopOnFailure:
      return "stopping streams at the first failure";
    case Feature::kHostFunction:
      return "host functions in streams";
    case Feature::kResourceCount:
      return "counts of free streams and events";
    case Feature::kCoreLimit:
      return "core limits of streams";
    case Feature::kOwnKernels:
      return "launches of own kernels";
    case Feature::kValueWait:
      return "external events by words of memory";
    case Feature::kExternalEvent:
      return "external events of the runtime";
    case Feature::kGraph:
      return "captured graphs";
    case Feature::kTaskUpdate:
      return "updates of captured launches";
    case Feature::kGraphDump:
      return "the runtime's dump of graphs";
    case Feature::kOperators:
      return "operators";
    case Feature::kRepeatableExecutor:
      return "repeatable executors of operators";
  }
  return "unknown";
}

std::string_view without(Feature feature) {
  switch (feature) {
    case Feature::kRuntime:
      return "there is no device";
    case Feature::kVersion:
      return "the version is not told";
    case Feature::kErrorText:
      return "errors are told by their codes";
    case Feature::kCoreCount:
      return "core limits are bounded by 24 cube and 48 vector cores";
    case Feature::kTimedWait:
      return "waiting threads ask again and again";
    case Feature::kStreamAbort:
      return "a stream that hangs cannot be ended";
    case Feature::kStopOnFailure:
      return "a stream goes on after a failure";
    case Feature::kHostFunction:
      return "host functions are refused";
    case Feature::kResourceCount:
      return "limits of streams and events are taken from the device's name";
    case Feature::kCoreLimit:
      return "core limits are refused";
    case Feature::kOwnKernels:
      return "only operators run";
    case Feature::kValueWait:
      return "external events of the runtime are used, where there are any";
    case Feature::kExternalEvent:
      return "external events are words of memory, where streams can wait for them";
    case Feature::kGraph:
      return "steps run eagerly";
    case Feature::kTaskUpdate:
      return "graphs with host-tiled operators run eagerly or in pieces";
    case Feature::kGraphDump:
      return "dumps hold what was recorded at capture alone";
    case Feature::kOperators:
      return "there are no kernels";
    case Feature::kRepeatableExecutor:
      return "each call makes its executor anew";
  }
  return "";
}

}  // namespace reprise::device::ascend
