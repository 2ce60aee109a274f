/* Cases 51 to 54: many graphs, codes that pass through, failures in the middle and at the end. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "conformance.h"

static aclmdlRI capture_add(aclrtStream stream, int32_t* words) {
  begin_capture(stream);
  launch_add(words, 1, stream);
  return end_capture(stream);
}

/* Captures a graph of `width` streams side by side. */
static aclmdlRI capture_wide(aclrtStream origin, int width, int32_t* words) {
  begin_capture(origin);
  for (int i = 1; i < width; ++i) {
    aclrtStream side = new_stream();
    aclrtEvent fork = new_event();
    aclrtEvent join = new_event();
    OK(aclrtRecordEvent(fork, origin));
    OK(aclrtStreamWaitEvent(side, fork));
    launch_add(words + i, 1, side);
    OK(aclrtRecordEvent(join, side));
    OK(aclrtStreamWaitEvent(origin, join));
  }
  return end_capture(origin);
}

/* Four queues, and idle graphs give theirs back. */
static void recycles_queues_of_idle_graphs(void) {
  enum { kGraphs = 12 };
  aclrtStream stream = new_stream();
  int32_t* words = new_words(16);
  aclmdlRI graphs[kGraphs];
  for (int i = 0; i < kGraphs; ++i) graphs[i] = capture_add(stream, words);
  for (int i = 0; i < kGraphs; ++i) replay(graphs[i], stream);
  CHECK(read_word(words) == kGraphs);
  aclmdlRI wide = capture_wide(stream, 6, words);
  EXPECT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, aclmdlRIExecuteAsync(wide, stream));
  /* What failed to start harms nobody. */
  replay(graphs[0], stream);
  CHECK(read_word(words) == kGraphs + 1);
  OK(aclmdlRIDestroy(wide));
  for (int i = 0; i < kGraphs; ++i) OK(aclmdlRIDestroy(graphs[i]));
}

/* Where the hardware keeps the queues each graph holds a stream, and the streams end. */
static void runs_out_of_streams(void) {
  enum { kMost = 64 };
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  aclmdlRI graphs[kMost];
  int count = 0;
  aclError code = ACL_SUCCESS;
  for (; count < kMost; ++count) {
    code = aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
    if (code != ACL_SUCCESS) break;
    launch_add(words, 1, stream);
    graphs[count] = end_capture(stream);
  }
  EXPECT(ACL_ERROR_RT_NO_STREAM_RESOURCE, code);
  CHECK(count >= 4 && count < 16);
  for (int i = 0; i < count; ++i) replay(graphs[i], stream);
  CHECK(read_word(words) == count);
  OK(aclmdlRIDestroy(graphs[0]));
  graphs[0] = capture_add(stream, words);
  for (int i = 0; i < count; ++i) OK(aclmdlRIDestroy(graphs[i]));
}

enum { kStrangeCode = 507899 };

/* Starts anew with a fault at one call. */
static void restart(const char* fault) {
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  char text[64];
  snprintf(text, sizeof text, "%s=%d", fault, kStrangeCode);
  setenv("REPRISE_ACL_FAULT", text, 1);
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
}

static void passes_codes_through(void) {
  aclmdlRI graph = NULL;
  aclrtTaskGrp group = NULL;
  restart("capture:1");
  EXPECT(kStrangeCode, aclmdlRICaptureBegin(new_stream(), ACL_MODEL_RI_CAPTURE_MODE_RELAXED));

  restart("capture:2");
  aclrtStream stream = new_stream();
  begin_capture(stream);
  EXPECT(kStrangeCode, aclmdlRICaptureEnd(stream, &graph));
  CHECK(graph == NULL && capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);

  restart("capture:2");
  stream = new_stream();
  begin_capture(stream);
  EXPECT(kStrangeCode, aclmdlRICaptureTaskGrpBegin(stream));
  OK(aclmdlRIDestroy(end_capture(stream)));

  restart("capture:3");
  stream = new_stream();
  begin_capture(stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  EXPECT(kStrangeCode, aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK(group == NULL);
  OK(aclmdlRIDestroy(end_capture(stream)));

  restart("replay:1");
  stream = new_stream();
  begin_capture(stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  graph = end_capture(stream);
  EXPECT(kStrangeCode, aclmdlRIExecuteAsync(graph, stream));
  restart("replay:1");
  stream = new_stream();
  graph = capture_add(stream, new_words(1));
  EXPECT(kStrangeCode, aclmdlRIExecute(graph, 1000));

  for (int call = 1; call <= 2; ++call) {
    restart(call == 1 ? "update:1" : "update:2");
    stream = new_stream();
    begin_capture(stream);
    OK(aclmdlRICaptureTaskGrpBegin(stream));
    OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
    graph = end_capture(stream);
    EXPECT(call == 1 ? kStrangeCode : ACL_SUCCESS, aclmdlRICaptureTaskUpdateBegin(stream, group));
    if (call == 2) EXPECT(kStrangeCode, aclmdlRICaptureTaskUpdateEnd(stream));
    /* The stream is free again. */
    replay(graph, stream);
  }
}

/* The runtime's own call that adds streams (rtStreamAddToModel) is not public; a stream that joins by an event is added
 * by the same code. */
static void failing_to_add_a_stream_invalidates(void) {
  aclrtStream origin = new_stream();
  aclrtStream side = new_stream();
  aclrtEvent fork = new_event();
  uint32_t free_streams = 0;
  OK(aclrtGetStreamAvailableNum(&free_streams));
  for (; free_streams > 1; --free_streams) new_stream();
  begin_capture(origin);
  OK(aclrtRecordEvent(fork, origin));
  EXPECT_ERROR(aclrtStreamWaitEvent(side, fork));
  CHECK(capture_status(origin) == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  aclmdlRI graph = origin;
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(origin, &graph));
  CHECK(graph == NULL);
  CHECK(capture_status(side) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
}

static void failing_at_the_end_leaves_nothing(void) {
  aclrtStream stream = new_stream();
  begin_capture(stream);
  launch_add(new_words(1), 1, stream);
  aclmdlRICaptureStatus status;
  aclmdlRI live = NULL;
  OK(aclmdlRICaptureGetInfo(stream, &status, &live));
  aclmdlRI graph = stream;
  EXPECT(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, aclmdlRICaptureEnd(stream, &graph));
  CHECK(graph == NULL);
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDestroy(live));
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  OK(aclrtDestroyStream(stream));
}

const Case resource_cases[] = {
    {51, "idle graphs give their queues back, and too wide a graph fails", recycles_queues_of_idle_graphs,
     "REPRISE_ACL_PROFILE=910B3,software_queues=4"},
    {51, "graphs hold streams where the hardware keeps the queues", runs_out_of_streams,
     "REPRISE_ACL_PROFILE=910B3,software_sq=0,streams=12"},
    {52, "codes of the runtime pass through", passes_codes_through, NULL},
    {53, "a stream that cannot be added invalidates the capture", failing_to_add_a_stream_invalidates,
     "REPRISE_ACL_PROFILE=910B3,software_sq=0,streams=8"},
    {54, "a failure late in the end destroys the graph", failing_at_the_end_leaves_nothing,
     "REPRISE_ACL_PROFILE=910B3,notifies=0"},
    {0, NULL, NULL, NULL},
};
