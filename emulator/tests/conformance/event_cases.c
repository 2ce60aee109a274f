/* Cases 22 to 30: events of captures. */
#include "conformance.h"

/* A fork that joins: origin adds 1, side adds 10 after it, origin adds 100 after the side. */
static void forks_and_joins(void) {
  aclrtStream origin = new_stream();
  aclrtStream side = new_stream();
  aclrtEvent fork = new_event();
  aclrtEvent join = new_event();
  int32_t* words = new_words(2);
  /* What the side stream was given before is not part of the capture. */
  launch_add(words + 1, 1, side);
  begin_capture(origin);
  launch_add(words, 1, origin);
  OK(aclrtRecordEvent(fork, origin));
  CHECK(capture_status(side) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  OK(aclrtStreamWaitEvent(side, fork));
  CHECK(capture_status(side) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  launch_copy(words + 1, words, side);
  OK(aclrtRecordEvent(join, side));
  OK(aclrtStreamWaitEvent(origin, join));
  launch_add(words, 100, origin);
  aclmdlRI graph = end_capture(origin);
  CHECK(capture_status(side) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  synchronize(side);
  CHECK(read_word(words) == 0 && read_word(words + 1) == 1);
  replay(graph, origin);
  CHECK(read_word(words) == 101 && read_word(words + 1) == 1);
  replay(graph, origin);
  CHECK(read_word(words) == 202 && read_word(words + 1) == 102);
  /* The events are ordinary again. */
  OK(aclrtRecordEvent(fork, side));
  OK(aclrtSynchronizeEventWithTimeout(fork, 5000));
  OK(aclmdlRIDestroy(graph));
}

static void refuses_old_events_in_captures(void) {
  aclrtStream stream = new_stream();
  aclrtEvent events[2] = {NULL, NULL};
  OK(aclrtCreateEvent(&events[0]));
  OK(aclrtCreateEventWithFlag(&events[1], ACL_EVENT_SYNC));
  begin_capture(stream);
  for (int i = 0; i < 2; ++i) {
    EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEvent(events[i], stream));
    EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtStreamWaitEvent(stream, events[i]));
    EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtResetEvent(events[i], stream));
  }
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  OK(aclmdlRIDestroy(end_capture(stream)));
  OK(aclrtRecordEvent(events[0], stream));
  synchronize(stream);
}

static void external_events_join_nothing(void) {
  aclrtStream stream = new_stream();
  aclrtStream other = new_stream();
  int32_t* words = new_words(1);
  aclrtEvent released = NULL, done = NULL;
  EXPECT_ERROR(aclrtCreateEventWithFlag(&released, ACL_EVENT_EXTERNAL | ACL_EVENT_SYNC));
  OK(aclrtCreateEventWithFlag(&released, ACL_EVENT_EXTERNAL));
  OK(aclrtCreateEventWithFlag(&done, ACL_EVENT_EXTERNAL));
  begin_capture(stream);
  OK(aclrtStreamWaitEvent(stream, released));
  OK(aclrtResetEvent(released, stream));
  launch_add(words, 1, stream);
  OK(aclrtRecordEvent(done, stream));
  OK(aclrtStreamWaitEvent(other, done));
  CHECK(capture_status(other) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  aclmdlRI graph = end_capture(stream);
  aclrtEventRecordedStatus status;
  EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtQueryEventStatus(released, &status));
  EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtSynchronizeEventWithTimeout(released, 100));
  CHECK(!stream_idle(other));
  OK(aclmdlRIExecuteAsync(graph, stream));
  CHECK(!stream_idle(stream));
  OK(aclrtRecordEvent(released, new_stream()));
  synchronize(stream);
  synchronize(other);
  CHECK(read_word(words) == 1);
  OK(aclmdlRIDestroy(graph));
}

static void refuses_events_from_before_the_capture(void) {
  aclrtStream stream = new_stream();
  aclrtStream other = new_stream();
  aclrtEvent before = new_event();
  aclrtEvent fresh = new_event();
  OK(aclrtRecordEvent(before, other));
  synchronize(other);
  begin_capture(stream);
  EXPECT(ACL_ERROR_RT_CAPTURE_DEPENDENCY, aclrtStreamWaitEvent(stream, before));
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  OK(aclrtRecordEvent(fresh, stream));
  OK(aclrtStreamWaitEvent(stream, fresh));
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  OK(aclmdlRIDestroy(graph));
  /* One that nobody ever recorded is no dependency. */
  aclrtEvent never = new_event();
  begin_capture(stream);
  OK(aclrtStreamWaitEvent(stream, never));
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void crossing_graphs_invalidates_both(void) {
  aclrtStream a = new_stream();
  aclrtStream b = new_stream();
  aclrtEvent event = new_event();
  begin_capture(a);
  begin_capture(b);
  OK(aclrtRecordEvent(event, a));
  EXPECT(ACL_ERROR_STREAM_CAPTURE_CONFLICT, aclrtStreamWaitEvent(b, event));
  CHECK(capture_status(a) == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  CHECK(capture_status(b) == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  aclmdlRI graph = a;
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(a, &graph));
  CHECK(graph == NULL);
  graph = b;
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(b, &graph));
  CHECK(graph == NULL);
  int32_t* words = new_words(1);
  begin_capture(a);
  launch_add(words, 1, a);
  graph = end_capture(a);
  replay(graph, b);
  CHECK(read_word(words) == 1);
  OK(aclmdlRIDestroy(graph));
}

/* Forks `side` off `origin`, which captures. */
static void fork_to(aclrtStream origin, aclrtStream side) {
  aclrtEvent fork = new_event();
  OK(aclrtRecordEvent(fork, origin));
  OK(aclrtStreamWaitEvent(side, fork));
}

static void expect_unjoined(aclrtStream origin, aclrtStream side) {
  aclmdlRI graph = origin;
  EXPECT(ACL_ERROR_RT_STREAM_UNJOINED, aclmdlRICaptureEnd(origin, &graph));
  CHECK(graph == NULL);
  CHECK(capture_status(origin) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  CHECK(capture_status(side) == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  int32_t* words = new_words(1);
  launch_add(words, 1, side);
  synchronize(side);
  CHECK(read_word(words) == 1);
  begin_capture(origin);
  OK(aclmdlRIDestroy(end_capture(origin)));
}

static void refuses_an_unjoined_stream(void) {
  aclrtStream origin = new_stream();
  aclrtStream side = new_stream();
  int32_t* words = new_words(1);
  begin_capture(origin);
  fork_to(origin, side);
  launch_add(words, 1, side);
  aclmdlRI graph = side;
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, aclmdlRICaptureEnd(side, &graph));
  expect_unjoined(origin, side);
}

static void refuses_work_after_the_join(void) {
  aclrtStream origin = new_stream();
  aclrtStream side = new_stream();
  aclrtEvent join = new_event();
  int32_t* words = new_words(1);
  begin_capture(origin);
  fork_to(origin, side);
  launch_add(words, 1, side);
  OK(aclrtRecordEvent(join, side));
  OK(aclrtStreamWaitEvent(origin, join));
  launch_add(words, 1, side);
  expect_unjoined(origin, side);
}

static void default_stream_may_not_join(void) {
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event();
  begin_capture(stream);
  OK(aclrtRecordEvent(event, stream));
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, aclrtStreamWaitEvent(NULL, event));
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, aclrtRecordEvent(event, NULL));
  OK(aclrtStreamWaitEvent(stream, event));
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void host_may_not_ask_captured_events(void) {
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event();
  aclrtEvent ordinary = new_event();
  aclrtEventStatus status;
  aclrtEventRecordedStatus recorded;
  aclrtEventWaitStatus waited;
  float milliseconds;
  uint64_t timestamp;
  begin_capture(stream);
  OK(aclrtRecordEvent(event, stream));
  EXPECT(ACL_ERROR_RT_EVENT_CAPTURED, aclrtSynchronizeEvent(event));
  EXPECT(ACL_ERROR_RT_EVENT_CAPTURED, aclrtSynchronizeEventWithTimeout(event, 100));
  EXPECT(ACL_ERROR_RT_EVENT_CAPTURED, aclrtQueryEvent(event, &status));
  EXPECT(ACL_ERROR_RT_EVENT_CAPTURED, aclrtQueryEventStatus(event, &recorded));
  EXPECT(ACL_ERROR_RT_EVENT_CAPTURED, aclrtQueryEventWaitStatus(event, &waited));
  EXPECT(ACL_ERROR_RT_EVENT_CAPTURED, aclrtEventElapsedTime(&milliseconds, event, ordinary));
  EXPECT(ACL_ERROR_RT_EVENT_CAPTURED, aclrtEventGetTimestamp(event, &timestamp));
  /* Nor wait for the stream, or for all of them. */
  aclrtStreamStatus stream_status;
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStream(stream));
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStreamWithTimeout(stream, 100));
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclrtStreamQuery(stream, &stream_status));
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeDevice());
  OK(aclrtStreamWaitEvent(stream, event));
  OK(aclmdlRIDestroy(end_capture(stream)));
}

const Case event_cases[] = {
    {22, "a stream forks off by an event and joins", forks_and_joins, NULL},
    {23, "events of the old kind are refused", refuses_old_events_in_captures, NULL},
    {24, "an external event joins no stream and is a node", external_events_join_nothing, NULL},
    {25, "a wait for what was recorded before is refused, and the capture goes on",
     refuses_events_from_before_the_capture, NULL},
    {26, "an event between two captures invalidates both", crossing_graphs_invalidates_both, NULL},
    {27, "a fork without a join fails at the end", refuses_an_unjoined_stream, NULL},
    {28, "work behind the join fails at the end", refuses_work_after_the_join, NULL},
    {29, "the default stream may not meet a captured event", default_stream_may_not_join, NULL},
    {30, "the host may not ask captured events and streams", host_may_not_ask_captured_events, NULL},
    {0, NULL, NULL, NULL},
};
