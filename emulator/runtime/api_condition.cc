// Conditional tasks.
#include "emulator/runtime/api_support.h"
#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/condition.h"
#include "emulator/runtime/stream.h"

using namespace reprise::emulator;  // NOLINT(google-build-using-namespace)

aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultValue, uint32_t flag, aclmdlRICondHandle* handle) {
  EMULATOR_CALL(Capture, modelRI, defaultValue, flag, handle);
  EMULATOR_REQUIRE(modelRI);
  EMULATOR_REQUIRE(handle);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<CapturedGraph> graph;
  EMULATOR_TRY(find_graph(modelRI, graph));
  return call.result(create_condition(*graph, defaultValue, flag, handle));
}

aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t** condPtr) {
  EMULATOR_CALL(Other, handle, condPtr);
  EMULATOR_REQUIRE(handle);
  EMULATOR_REQUIRE(condPtr);
  const Lock lock(Runtime::instance().mutex());
  std::shared_ptr<Condition> condition;
  EMULATOR_TRY(find_condition(handle, condition));
  *condPtr = static_cast<uint64_t*>(condition->address);
  return call.result(ACL_SUCCESS);
}

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flag) {
  EMULATOR_CALL(Capture, params.handle, params.type, params.size, stream, flag);
  EMULATOR_REQUIRE(params.handle);
  EMULATOR_REQUIRE(params.modelRIArray);
  EMULATOR_REQUIRE(stream);
  if (flag != 0) return call.result(ACL_ERROR_RT_PARAM_INVALID, "a conditional task has no flags");
  Runtime& runtime = Runtime::instance();
  const Lock lock(runtime.mutex());
  std::shared_ptr<Stream> found;
  EMULATOR_TRY(runtime.find_stream(stream, found));
  return call.result(add_condition_task(params, *found));
}
