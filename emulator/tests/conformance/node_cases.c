/* Cases 46 to 50: the tasks of a graph one by one, and graphs with conditions. */
#include <string.h>

#include "conformance.h"

/* A forked graph: two kernels and a value write on the origin, one kernel on the side. */
static aclmdlRI capture_fork(aclrtStream origin, int32_t* words) {
  aclrtStream side = new_stream();
  aclrtEvent fork = new_event();
  aclrtEvent join = new_event();
  begin_capture(origin);
  launch_add(words, 1, origin);
  OK(aclrtRecordEvent(fork, origin));
  OK(aclrtStreamWaitEvent(side, fork));
  launch_add(words + 1, 1, side);
  OK(aclrtRecordEvent(join, side));
  OK(aclrtStreamWaitEvent(origin, join));
  launch_add(words, 10, origin);
  OK(aclrtValueWrite(words + 2, 1, 0, origin));
  return end_capture(origin);
}

static void lists_streams(void) {
  aclrtStream origin = new_stream();
  aclmdlRI graph = capture_fork(origin, new_words(8));
  uint32_t count = 0;
  OK(aclmdlRIGetStreams(graph, NULL, &count));
  CHECK(count == 2);
  aclrtStream streams[4] = {NULL};
  uint32_t room = 1;
  EXPECT(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, aclmdlRIGetStreams(graph, streams, &room));
  room = 4;
  OK(aclmdlRIGetStreams(graph, streams, &room));
  CHECK(room == 2 && streams[0] && streams[1] && streams[0] != streams[1]);
  EXPECT_ERROR(aclmdlRIGetStreams(NULL, NULL, &count));
  EXPECT_ERROR(aclmdlRIGetStreams(graph, streams, NULL));
  OK(aclmdlRIDestroy(graph));
}

static void lists_tasks(void) {
  aclrtStream origin = new_stream();
  aclmdlRI graph = capture_fork(origin, new_words(8));
  aclrtStream streams[2];
  uint32_t stream_count = 2;
  OK(aclmdlRIGetStreams(graph, streams, &stream_count));
  int kernels = 0, writes = 0;
  for (uint32_t i = 0; i < stream_count; ++i) {
    uint32_t count = 0;
    OK(aclmdlRIGetTasksByStream(streams[i], NULL, &count));
    CHECK(count >= 1 && count <= 16);
    aclmdlRITask tasks[16];
    uint32_t room = count - 1;
    EXPECT(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, aclmdlRIGetTasksByStream(streams[i], tasks, &room));
    room = 16;
    OK(aclmdlRIGetTasksByStream(streams[i], tasks, &room));
    CHECK(room == count);
    uint32_t before = 0;
    for (uint32_t k = 0; k < count; ++k) {
      aclmdlRITaskType type;
      uint32_t sequence = 0;
      OK(aclmdlRITaskGetType(tasks[k], &type));
      OK(aclmdlRITaskGetSeqId(tasks[k], &sequence));
      CHECK(k == 0 || sequence > before);
      before = sequence;
      kernels += type == ACL_MODEL_RI_TASK_KERNEL;
      writes += type == ACL_MODEL_RI_TASK_VALUE_WRITE;
    }
    EXPECT_ERROR(aclmdlRIGetTasksByStream(streams[i], tasks, NULL));
  }
  CHECK(kernels == 3 && writes == 1);
  EXPECT_ERROR(aclmdlRITaskGetType(NULL, NULL));
  OK(aclmdlRIDestroy(graph));
}

/* A graph on one stream that adds 1 and 10 to a word; its tasks are the two kernels. */
static aclmdlRI capture_two(aclrtStream stream, int32_t* words, aclmdlRITask tasks[2]) {
  begin_capture(stream);
  launch_add(words, 1, stream);
  launch_add(words, 10, stream);
  aclmdlRI graph = end_capture(stream);
  aclrtStream inner;
  uint32_t count = 1;
  OK(aclmdlRIGetStreams(graph, &inner, &count));
  count = 2;
  OK(aclmdlRIGetTasksByStream(inner, tasks, &count));
  CHECK(count == 2);
  return graph;
}

static void changes_kernels_task_by_task(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  aclmdlRITask tasks[2];
  aclmdlRI graph = capture_two(stream, words, tasks);
  aclmdlRITaskParams parameters;
  memset(&parameters, 0, sizeof parameters);
  OK(aclmdlRITaskGetParams(tasks[1], &parameters));
  CHECK(parameters.type == ACL_MODEL_RI_TASK_KERNEL);
  CHECK(parameters.kernelTaskParams.funcHandle == add_kernel(EMULATOR_KERNEL_VECTOR));
  CHECK(parameters.kernelTaskParams.argsSize == sizeof(KernelArguments));
  CHECK(parameters.kernelTaskParams.numBlocks == 1);
  KernelArguments arguments = {words, NULL, 500, 1};
  parameters.kernelTaskParams.args = &arguments;
  parameters.kernelTaskParams.isHostArgs = 1;
  OK(aclmdlRITaskSetParams(tasks[1], &parameters));
  /* Staged until the graph is updated. */
  replay(graph, stream);
  CHECK(read_word(words) == 11);
  OK(aclmdlRIUpdate(graph));
  replay(graph, stream);
  CHECK(read_word(words) == 11 + 501);

  parameters.type = ACL_MODEL_RI_TASK_VALUE_WRITE;
  EXPECT_ERROR(aclmdlRITaskSetParams(tasks[1], &parameters));
  EXPECT_ERROR(aclmdlRITaskSetParams(NULL, &parameters));
  EXPECT_ERROR(aclmdlRITaskGetParams(tasks[0], NULL));
  aclmdlRI built = NULL;
  OK(aclmdlRIBuildBegin(&built, 0));
  EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIUpdate(built));
  OK(aclmdlRIDestroy(built));
  OK(aclmdlRIDestroy(graph));
}

static void updates_idle_graphs_only(void) {
  aclrtStream stream = new_stream();
  uint64_t* gate = new_gate();
  begin_capture(stream);
  aclmdlRICaptureStatus status;
  aclmdlRI graph = NULL;
  OK(aclmdlRICaptureGetInfo(stream, &status, &graph));
  EXPECT(ACL_ERROR_RT_MODEL_UPDATE_FAILED, aclmdlRIUpdate(graph));
  OK(aclrtValueWait(gate, 1, ACL_VALUE_WAIT_EQ, stream));
  CHECK(end_capture(stream) == graph);
  OK(aclmdlRIExecuteAsync(graph, stream));
  EXPECT(ACL_ERROR_RT_MODEL_UPDATE_FAILED, aclmdlRIUpdate(graph));
  open_gate(gate, new_stream());
  synchronize(stream);
  OK(aclmdlRIUpdate(graph));
  OK(aclmdlRIDestroy(graph));
}

static void disables_tasks(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  aclmdlRITask tasks[2];
  aclmdlRI graph = capture_two(stream, words, tasks);
  OK(aclmdlRITaskDisable(tasks[0]));
  EXPECT_ERROR(aclmdlRITaskDisable(NULL));
  EXPECT_ERROR(aclmdlRITaskDisable((aclmdlRITask)stream));
  OK(aclmdlRIUpdate(graph));
  replay(graph, stream);
  CHECK(read_word(words) == 10);
  OK(aclmdlRIDestroy(graph));
  EXPECT_ERROR(aclmdlRITaskDisable(tasks[1]));
}

/* Adds a conditional task to the capture of `stream`; answers where the condition lies. */
static uint64_t* add_condition(aclrtStream stream, aclmdlRICondTaskType type, uint32_t value, aclmdlRI* children,
                               uint32_t count) {
  aclmdlRICaptureStatus status;
  aclmdlRI graph = NULL;
  OK(aclmdlRICaptureGetInfo(stream, &status, &graph));
  aclmdlRICondHandle handle = NULL;
  const aclError code = aclmdlRICondHandleCreate(graph, value, ACL_MODEL_RI_COND_ASSIGN_DEFAULT, &handle);
  if (code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT) unsupported("graphs with conditions are not emulated: 207000");
  EXPECT(ACL_SUCCESS, code);
  uint64_t* condition = NULL;
  OK(aclmdlRICondHandleGetCondPtr(handle, &condition));
  CHECK(condition != NULL);
  const aclmdlRICondTaskParams parameters = {handle, type, count, children};
  OK(aclmdlRIAddCondTask(parameters, stream, 0));
  return condition;
}

static void capture_child(aclmdlRI child, int32_t* words, int32_t value, uint64_t* condition) {
  aclrtStream stream = new_stream();
  OK(aclmdlRICaptureToModelRIBegin(stream, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  launch_add(words, value, stream);
  if (condition) launch_add((int32_t*)condition, -1, stream);
  OK(aclmdlRICaptureEnd(stream, NULL));
}

static void runs_if(uint32_t value, uint32_t children_count, int32_t expected) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  aclmdlRI children[2] = {NULL, NULL};
  begin_capture(stream);
  add_condition(stream, ACL_MODEL_RI_COND_IF, value, children, children_count);
  for (uint32_t i = 0; i < children_count; ++i) capture_child(children[i], words, i == 0 ? 1 : 100, NULL);
  launch_add(words, 1000, stream);
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  CHECK(read_word(words) == expected);
  OK(aclmdlRIDestroy(graph));
}

static void branches(void) {
  runs_if(1, 1, 1001);
  runs_if(0, 1, 1000);
  runs_if(1, 2, 1001);
  runs_if(0, 2, 1100);
  aclmdlRICondHandle handle;
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICondHandleCreate(NULL, 0, 0, &handle));
}

static void loops(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  aclmdlRI body = NULL;
  begin_capture(stream);
  uint64_t* condition = add_condition(stream, ACL_MODEL_RI_COND_WHILE, 3, &body, 1);
  capture_child(body, words, 1, condition);
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  CHECK(read_word(words) == 3);
  replay(graph, stream);
  CHECK(read_word(words) == 6);
  OK(aclmdlRIDestroy(graph));
}

static void switches(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  aclmdlRI children[3] = {NULL, NULL, NULL};
  begin_capture(stream);
  add_condition(stream, ACL_MODEL_RI_COND_SWITCH, 2, children, 3);
  for (int i = 0; i < 3; ++i) capture_child(children[i], words, 1 + i, NULL);
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  CHECK(read_word(words) == 3);
  OK(aclmdlRIDestroy(graph));
}

static void branches_in_a_branch(void) {
  aclrtStream stream = new_stream();
  aclrtStream in_child = new_stream();
  int32_t* words = new_words(1);
  aclmdlRI child = NULL, grandchild = NULL, graph = stream;
  begin_capture(stream);
  add_condition(stream, ACL_MODEL_RI_COND_IF, 1, &child, 1);
  OK(aclmdlRICaptureToModelRIBegin(in_child, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  /* The parent may not end while a child captures. */
  EXPECT(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, aclmdlRICaptureEnd(stream, &graph));
  if (capture_status(stream) != ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE) {
    /* The failed end took the capture down; the next is a fresh one. */
    (void)aclmdlRICaptureEnd(in_child, NULL);
    (void)aclGetRecentErrMsg();
    begin_capture(stream);
    add_condition(stream, ACL_MODEL_RI_COND_IF, 1, &child, 1);
    OK(aclmdlRICaptureToModelRIBegin(in_child, child, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  }
  launch_add(words, 1, in_child);
  add_condition(in_child, ACL_MODEL_RI_COND_IF, 1, &grandchild, 1);
  capture_child(grandchild, words, 10, NULL);
  OK(aclmdlRICaptureEnd(in_child, NULL));
  graph = end_capture(stream);
  replay(graph, stream);
  CHECK(read_word(words) == 11);
  OK(aclmdlRIDestroy(graph));
}

const Case node_cases[] = {
    {46, "a graph lists its streams", lists_streams, NULL},
    {47, "a stream of a graph lists its tasks", lists_tasks, NULL},
    {48, "parameters of a kernel are changed and the graph updated", changes_kernels_task_by_task, NULL},
    {48, "only an idle graph is updated", updates_idle_graphs_only, NULL},
    {49, "a task is disabled", disables_tasks, NULL},
    {50, "a condition branches", branches, NULL},
    {50, "a condition loops", loops, NULL},
    {50, "a condition switches", switches, NULL},
    {50, "a condition in a condition", branches_in_a_branch, NULL},
    {0, NULL, NULL, NULL},
};
