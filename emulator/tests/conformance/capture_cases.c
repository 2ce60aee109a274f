/* Cases 1 to 12: beginning and ending captures, and what their modes forbid. */
#include <stdlib.h>

#include "conformance.h"

static const aclmdlRICaptureMode kGlobal = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
static const aclmdlRICaptureMode kThreadLocal = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
static const aclmdlRICaptureMode kRelaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

static void begins_and_ends(void) {
  aclrtStream stream = new_stream();
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  begin_capture(stream);
  aclmdlRICaptureStatus status;
  aclmdlRI live = NULL;
  OK(aclmdlRICaptureGetInfo(stream, &status, &live));
  CHECK(status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE && live != NULL);
  aclmdlRI graph = end_capture(stream);
  CHECK(graph == live);
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  OK(aclmdlRIDestroy(graph));
  OK(aclrtDestroyStream(stream));
}

static void refuses_a_second_begin_and_end(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  begin_capture(stream);
  launch_add(words, 1, stream);
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureBegin(stream, kRelaxed));
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  launch_add(words, 2, stream);
  aclmdlRI graph = end_capture(stream);
  aclmdlRI second = graph;
  EXPECT(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureEnd(stream, &second));
  replay(graph, stream);
  CHECK(read_word(words) == 3);
  OK(aclmdlRIDestroy(graph));
}

static void survives_a_failed_begin(void) {
  aclrtStream stream = new_stream();
  aclrtStream by_default = NULL;
  OK(aclrtCtxGetCurrentDefaultStream(&by_default));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureBegin(NULL, kGlobal));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureBegin(stream, (aclmdlRICaptureMode)3));
  EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRICaptureBegin(by_default, kGlobal));
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  /* The first allowed one fails by injection (the environment of this case). */
  EXPECT(ACL_ERROR_RT_NO_STREAM_RESOURCE, aclmdlRICaptureBegin(stream, kGlobal));
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  begin_capture(stream);
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void wants_an_output_for_info(void) {
  aclrtStream stream = new_stream();
  aclmdlRICaptureStatus status;
  aclmdlRI graph;
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureGetInfo(stream, NULL, NULL));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureGetInfo(NULL, &status, &graph));
  OK(aclmdlRICaptureGetInfo(stream, &status, NULL));
  OK(aclmdlRICaptureGetInfo(stream, NULL, &graph));
}

static void knows_an_idle_stream(void) {
  aclrtStream stream = new_stream();
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
  aclmdlRI graph = stream;
  OK(aclmdlRICaptureGetInfo(stream, &status, &graph));
  CHECK(status == ACL_MODEL_RI_CAPTURE_STATUS_NONE && graph == NULL);
}

typedef struct {
  aclrtStream stream;
  aclmdlRI graph;
  aclError code;
} EndElsewhere;

static void end_here(void* data) {
  EndElsewhere* end = data;
  end->graph = end->stream;
  end->code = aclmdlRICaptureEnd(end->stream, &end->graph);
  CHECK((end->code == ACL_SUCCESS) == (aclGetRecentErrMsg() == NULL));
}

static void lets_only_relaxed_captures_end_elsewhere(void) {
  const int modes[] = {(int)kGlobal, (int)kThreadLocal};
  for (int i = 0; i < 2; ++i) {
    aclrtStream stream = new_stream();
    OK(aclmdlRICaptureBegin(stream, (aclmdlRICaptureMode)modes[i]));
    EndElsewhere end = {stream, NULL, 0};
    in_other_thread(end_here, &end);
    CHECK(end.code == ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
    /* The capture is torn down; the stream is as before. */
    CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    begin_capture(stream);
    OK(aclmdlRIDestroy(end_capture(stream)));
  }
  aclrtStream stream = new_stream();
  begin_capture(stream);
  EndElsewhere end = {stream, NULL, 0};
  in_other_thread(end_here, &end);
  CHECK(end.code == ACL_SUCCESS && end.graph != NULL);
  OK(aclmdlRIDestroy(end.graph));
}

/* Sets the thread's mode and answers the one before. */
static int exchange(int mode) {
  aclmdlRICaptureMode exchanged = (aclmdlRICaptureMode)mode;
  OK(aclmdlRICaptureThreadExchangeMode(&exchanged));
  return (int)exchanged;
}

static void exchanges_the_thread_mode(void) {
  CHECK(exchange((int)kRelaxed) == (int)kGlobal);
  CHECK(exchange((int)kThreadLocal) == (int)kRelaxed);
  CHECK(exchange((int)kGlobal) == (int)kThreadLocal);
  CHECK(exchange((int)kGlobal) == (int)kGlobal);
  aclmdlRICaptureMode bad = (aclmdlRICaptureMode)7;
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureThreadExchangeMode(&bad));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureThreadExchangeMode(NULL));
  CHECK(exchange((int)kGlobal) == (int)kGlobal);
}

static int32_t* target;

static aclError fill(void) { return aclrtMemset(target, sizeof(int32_t), 0, sizeof(int32_t)); }

static void fills_freely_without_capture(void) {
  target = new_words(1);
  for (int mode = (int)kGlobal; mode <= (int)kRelaxed; ++mode) {
    exchange(mode);
    OK(fill());
  }
}

static void forbids_by_mode_and_goes_on(void) {
  target = new_words(1);
  int32_t* other = new_words(1);
  int32_t host = 0;
  const aclError expected[] = {ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, 0};
  for (int mode = (int)kGlobal; mode <= (int)kRelaxed; ++mode) {
    aclrtStream stream = new_stream();
    OK(aclmdlRICaptureBegin(stream, (aclmdlRICaptureMode)mode));
    EXPECT(expected[mode], fill());
    EXPECT(expected[mode], aclrtMemcpy(&host, 4, target, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(expected[mode], aclrtMemcpy(other, 4, target, 4, ACL_MEMCPY_DEVICE_TO_DEVICE));
    EXPECT(expected[mode], aclrtMemcpy2d(other, 4, target, 4, 4, 1, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    OK(aclmdlRIDestroy(end_capture(stream)));
    OK(fill());
  }
}

static void fill_in_thread(void* code) { *(aclError*)code = fill(); }

static aclError fill_elsewhere(void) {
  aclError code = ACL_SUCCESS;
  in_other_thread(fill_in_thread, &code);
  return code;
}

static void applies_the_strictest_of_live_modes(void) {
  target = new_words(1);
  aclrtStream streams[3];
  for (int mode = (int)kGlobal; mode <= (int)kRelaxed; ++mode) {
    streams[mode] = new_stream();
    OK(aclmdlRICaptureBegin(streams[mode], (aclmdlRICaptureMode)mode));
  }
  EXPECT(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, fill());
  CHECK(fill_elsewhere() == ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  OK(aclmdlRIDestroy(end_capture(streams[kGlobal])));
  /* A thread-local capture forbids its own thread only. */
  EXPECT(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, fill());
  CHECK(fill_elsewhere() == ACL_SUCCESS);
  OK(aclmdlRIDestroy(end_capture(streams[kThreadLocal])));
  OK(fill());
  OK(aclmdlRIDestroy(end_capture(streams[kRelaxed])));
  OK(fill());
}

static void fill_as_thread_local(void* code) {
  exchange((int)kThreadLocal);
  *(aclError*)code = fill();
}

static void thread_local_exchange_frees_other_threads_only(void) {
  target = new_words(1);
  aclrtStream stream = new_stream();
  OK(aclmdlRICaptureBegin(stream, kGlobal));
  exchange((int)kThreadLocal);
  EXPECT(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, fill());
  CHECK(fill_elsewhere() == ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
  aclError code = ACL_SUCCESS;
  in_other_thread(fill_as_thread_local, &code);
  CHECK(code == ACL_SUCCESS);
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void relaxed_exchange_permits(void) {
  target = new_words(1);
  for (int mode = (int)kGlobal; mode <= (int)kThreadLocal; ++mode) {
    aclrtStream stream = new_stream();
    OK(aclmdlRICaptureBegin(stream, (aclmdlRICaptureMode)mode));
    const int before = exchange((int)kRelaxed);
    OK(fill());
    exchange(before);
    EXPECT(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, fill());
    OK(aclmdlRIDestroy(end_capture(stream)));
  }
}

const Case capture_cases[] = {
    {1, "a capture begins, is active and ends", begins_and_ends, NULL},
    {2, "a second begin and a second end fail", refuses_a_second_begin_and_end, NULL},
    {3, "a failed begin leaves the stream usable", survives_a_failed_begin, "REPRISE_ACL_FAULT=capture:4"},
    {4, "info without an output fails", wants_an_output_for_info, NULL},
    {5, "info of an idle stream is NONE and no graph", knows_an_idle_stream, NULL},
    {6, "only a relaxed capture ends in another thread", lets_only_relaxed_captures_end_elsewhere, NULL},
    {7, "the thread's mode is exchanged and restored", exchanges_the_thread_mode, NULL},
    {8, "without capture a fill is allowed in every mode", fills_freely_without_capture, NULL},
    {9, "synchronous work is forbidden by mode, and the capture goes on", forbids_by_mode_and_goes_on, NULL},
    {10, "of three live modes the strictest holds", applies_the_strictest_of_live_modes, NULL},
    {11, "a thread-local exchange does not free the capturing thread", thread_local_exchange_frees_other_threads_only,
     NULL},
    {12, "a relaxed exchange permits", relaxed_exchange_permits, NULL},
    {0, NULL, NULL, NULL},
};
