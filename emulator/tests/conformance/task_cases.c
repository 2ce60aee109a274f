/* Cases 13 to 21: what is captured, and what a capture refuses. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

static void captures_kernels_without_running_them(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  begin_capture(stream);
  launch_add(words, 5, stream);
  CHECK(read_word(words) == 0);
  aclmdlRI graph = end_capture(stream);
  synchronize(stream);
  CHECK(read_word(words) == 0);
  replay(graph, stream);
  CHECK(read_word(words) == 5);
  OK(aclmdlRIDestroy(graph));
}

/* A graph of a value write and wait, a kernel and a copy on the device. */
static void run_values_and_copies(void) {
  aclrtStream stream = new_stream();
  int32_t* from = new_words(1);
  int32_t* to = new_words(1);
  uint64_t* gate = new_gate();
  begin_capture(stream);
  OK(aclrtValueWrite(gate, 1, 0, stream));
  OK(aclrtValueWait(gate, 1, ACL_VALUE_WAIT_EQ, stream));
  OK(aclrtValueWrite(gate, 0, 0, stream));
  launch_add(from, 3, stream);
  OK(aclrtMemcpyAsync(to, 4, from, 4, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  aclmdlRI graph = end_capture(stream);
  OK(aclmdlRIExecute(graph, 5000));
  CHECK(read_word(to) == 3);
  replay(graph, stream);
  CHECK(read_word(to) == 6);
  CHECK(read_word((const int32_t*)gate) == 0);
  OK(aclmdlRIDestroy(graph));
  EXPECT_ERROR(aclmdlRIDestroy(graph));
}

static void refuses_to_destroy_a_capturing_stream(void) {
  aclrtStream stream = new_stream();
  begin_capture(stream);
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclrtDestroyStream(stream));
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  aclmdlRI graph = end_capture(stream);
  OK(aclrtDestroyStream(stream));
  OK(aclmdlRIDestroy(graph));
}

static aclmdlRI graph_of(aclrtStream stream) {
  aclmdlRICaptureStatus status;
  aclmdlRI graph = NULL;
  OK(aclmdlRICaptureGetInfo(stream, &status, &graph));
  CHECK(graph != NULL);
  return graph;
}

static void refuses_to_destroy_a_graph_that_captures(void) {
  aclrtStream stream = new_stream();
  begin_capture(stream);
  aclmdlRI graph = graph_of(stream);
  EXPECT(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIDestroy(graph));
  CHECK(end_capture(stream) == graph);
  OK(aclmdlRIDestroy(graph));
}

static void refuses_to_execute_a_graph_that_captures(void) {
  aclrtStream stream = new_stream();
  aclrtStream other = new_stream();
  begin_capture(stream);
  aclmdlRI graph = graph_of(stream);
  EXPECT(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIExecuteAsync(graph, other));
  EXPECT(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIExecute(graph, 1000));
  /* Nor may a ready graph run on a stream that captures. */
  begin_capture(other);
  aclmdlRI ready = end_capture(other);
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRIExecuteAsync(ready, stream));
  OK(aclmdlRIDestroy(end_capture(stream)));
  OK(aclmdlRIDestroy(ready));
}

static void refuses_building_calls_on_a_captured_graph(void) {
  aclrtStream stream = new_stream();
  aclrtStream persistent = NULL;
  OK(aclrtCreateStreamWithConfig(&persistent, 0, ACL_STREAM_PERSISTENT));
  begin_capture(stream);
  aclmdlRI graph = graph_of(stream);
  EXPECT(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIBindStream(graph, persistent, 0));
  EXPECT(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIUnbindStream(graph, stream));
  EXPECT(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIEndTask(graph, stream));
  EXPECT(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIBuildEnd(graph, NULL));
  aclmdlRI built = NULL;
  OK(aclmdlRIBuildBegin(&built, 0));
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRIBindStream(built, stream, 0));
  OK(aclmdlRIDestroy(built));
  CHECK(end_capture(stream) == graph);
  EXPECT_ERROR(aclmdlRIBindStream(graph, persistent, 0));
  EXPECT_ERROR(aclmdlRIBuildEnd(graph, NULL));
  OK(aclmdlRIDestroy(graph));
}

static void prints_graphs(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  begin_capture(stream);
  launch_add(words, 1, stream);
  OK(aclmdlRIDebugPrint(graph_of(stream)));
  aclmdlRI graph = end_capture(stream);
  const char* path = scratch_path("graph.json");
  OK(aclmdlRIDebugJsonPrint(graph, path, ACL_MODEL_RI_JSON_VERBOSE));
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  char text[8192];
  const size_t length = fread(text, 1, sizeof text - 1, file);
  text[length] = '\0';
  fclose(file);
  CHECK(strstr(text, "add_vector") != NULL);
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDebugJsonPrint(graph, "/no/such/folder/graph.json", 0));
  EXPECT_ERROR(aclmdlRIDebugJsonPrint(graph, NULL, 0));
  OK(aclmdlRIDestroy(graph));
}

static atomic_int host_calls;
static void count_call(void* amount) { atomic_fetch_add(&host_calls, *(int*)amount); }

static atomic_bool reports_wanted;
static void* process_reports(void* unused) {
  (void)unused;
  while (atomic_load(&reports_wanted)) (void)aclrtProcessReport(50);
  return NULL;
}

static void captures_host_functions_and_callbacks(void) {
  aclrtStream stream = new_stream();
  aclrtStream with_callbacks = new_stream();
  static int one = 1, hundred = 100;
  begin_capture(stream);
  OK(aclrtLaunchHostFunc(stream, count_call, &one));
  aclmdlRI graph = end_capture(stream);
  CHECK(atomic_load(&host_calls) == 0);
  replay(graph, stream);
  replay(graph, stream);
  CHECK(atomic_load(&host_calls) == 2);

  EXPECT(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtLaunchCallback(count_call, &hundred, ACL_CALLBACK_BLOCK, with_callbacks));
  pthread_t thread;
  atomic_store(&reports_wanted, true);
  CHECK(pthread_create(&thread, NULL, process_reports, NULL) == 0);
  OK(aclrtSubscribeReport((uint64_t)thread, with_callbacks));
  begin_capture(with_callbacks);
  OK(aclrtLaunchCallback(count_call, &hundred, ACL_CALLBACK_BLOCK, with_callbacks));
  aclmdlRI callbacks = end_capture(with_callbacks);
  CHECK(atomic_load(&host_calls) == 2);
  replay(callbacks, with_callbacks);
  CHECK(atomic_load(&host_calls) == 102);
  OK(aclrtUnSubscribeReport((uint64_t)thread, with_callbacks));
  atomic_store(&reports_wanted, false);
  CHECK(pthread_join(thread, NULL) == 0);
  OK(aclmdlRIDestroy(callbacks));
  OK(aclmdlRIDestroy(graph));
}

const Case task_cases[] = {
    {13, "a kernel is captured and not run", captures_kernels_without_running_them, NULL},
    {14, "value write, value wait and device copies are captured and run", run_values_and_copies, NULL},
    {15, "the same where the hardware keeps the queues", run_values_and_copies,
     "REPRISE_ACL_PROFILE=910B3,software_sq=0"},
    {16, "a capturing stream is not destroyed", refuses_to_destroy_a_capturing_stream, NULL},
    {17, "a graph is destroyed only when its capture has ended", refuses_to_destroy_a_graph_that_captures, NULL},
    {18, "a graph that captures is not executed", refuses_to_execute_a_graph_that_captures, NULL},
    {19, "calls that build graphs refuse a captured one", refuses_building_calls_on_a_captured_graph, NULL},
    {20, "graphs are printed, also while they capture", prints_graphs, NULL},
    {21, "host functions and callbacks run at each replay", captures_host_functions_and_callbacks, NULL},
    {0, NULL, NULL, NULL},
};
