/* Cases 31 to 33: the external flags of record and wait, by which a graph meets the world outside. */
#include "conformance.h"

static aclError record(aclrtEvent event, aclrtStream stream) {
  return aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_EXTERNAL);
}
static aclError await(aclrtStream stream, aclrtEvent event) {
  return aclrtStreamWaitEventWithFlag(stream, event, 0, ACL_EVENT_WAIT_EXTERNAL);
}

static void checks_flags(void) {
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event();
  aclrtEvent old = NULL;
  OK(aclrtCreateEvent(&old));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclrtRecordEventWithFlag(NULL, stream, ACL_EVENT_RECORD_DEFAULT));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclrtStreamWaitEventWithFlag(stream, NULL, 0, ACL_EVENT_WAIT_DEFAULT));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtRecordEventWithFlag(event, stream, 2));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEventWithFlag(stream, event, 0, 2));
  OK(aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_DEFAULT));
  OK(aclrtStreamWaitEventWithFlag(stream, event, 0, ACL_EVENT_WAIT_DEFAULT));
  EXPECT(ACL_ERROR_RT_STREAM_NOT_CAPTURED, record(event, stream));
  EXPECT(ACL_ERROR_RT_STREAM_NOT_CAPTURED, await(stream, event));
  begin_capture(stream);
  EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, record(old, stream));
  EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, await(stream, old));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEventWithFlag(stream, event, 5, ACL_EVENT_WAIT_EXTERNAL));
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  OK(await(stream, new_event()));
  OK(record(new_event(), stream));
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void needs_software_queues(void) {
  aclrtStream stream = new_stream();
  begin_capture(stream);
  EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, record(new_event(), stream));
  EXPECT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, await(stream, new_event()));
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void keeps_an_event_to_one_direction(void) {
  aclrtStream stream = new_stream();
  aclrtEvent recorded = new_event();
  aclrtEvent awaited = new_event();
  begin_capture(stream);
  OK(record(recorded, stream));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, await(stream, recorded));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, record(recorded, stream));
  OK(await(stream, awaited));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, record(awaited, stream));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, await(stream, awaited));
  OK(aclmdlRIDestroy(end_capture(stream)));
  /* In another graph the direction stays, and the same direction is fine. */
  begin_capture(stream);
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, await(stream, recorded));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, record(awaited, stream));
  OK(record(recorded, stream));
  OK(await(stream, awaited));
  OK(aclmdlRIDestroy(end_capture(stream)));
}

/* The occurrences that nodes publish and bind: a graph of a gate and an external record, one of an external wait. */
static void binds_occurrences_at_each_launch(void) {
  aclrtStream stream = new_stream();
  aclrtStream outside = new_stream();
  aclrtEvent awaited = new_event();
  aclrtEvent published = new_event();
  uint64_t* gate = new_gate();
  int32_t* words = new_words(1);
  begin_capture(stream);
  OK(await(stream, awaited));
  launch_add(words, 1, stream);
  aclmdlRI waiting = end_capture(stream);
  /* Nothing was recorded: the wait passes. */
  replay(waiting, stream);
  CHECK(read_word(words) == 1);
  /* The newest occurrence outside holds the replay until it is reached. */
  OK(aclrtValueWait(gate, 1, ACL_VALUE_WAIT_EQ, outside));
  OK(aclrtRecordEvent(awaited, outside));
  OK(aclmdlRIExecuteAsync(waiting, stream));
  sleep_ms(20);
  CHECK(!stream_idle(stream));
  open_gate(gate, new_stream());
  synchronize(stream);
  synchronize(outside);
  CHECK(read_word(words) == 2);

  OK(aclrtMemset(gate, 8, 0, 8));
  begin_capture(stream);
  OK(aclrtValueWait(gate, 1, ACL_VALUE_WAIT_EQ, stream));
  launch_add(words, 10, stream);
  OK(record(published, stream));
  aclmdlRI recording = end_capture(stream);
  for (int i = 1; i <= 2; ++i) {
    /* A wait outside after the launch is for this launch, not for the one before. */
    OK(aclmdlRIExecuteAsync(recording, stream));
    OK(aclrtStreamWaitEvent(outside, published));
    launch_copy((int32_t*)gate + 4, words, outside);
    sleep_ms(20);
    CHECK(!stream_idle(outside));
    open_gate(gate, new_stream());
    synchronize(outside);
    CHECK(read_word((int32_t*)gate + 4) == 2 + 10 * i);
    synchronize(stream);
    OK(aclrtMemset(gate, 8, 0, 8));
  }
  OK(aclmdlRIDestroy(waiting));
  OK(aclmdlRIDestroy(recording));
}

static void failed_launch_publishes_nothing(void) {
  aclrtStream stream = new_stream();
  aclrtStream outside = new_stream();
  aclrtEvent published = new_event();
  begin_capture(stream);
  OK(record(published, stream));
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  EXPECT(ACL_ERROR_RT_MODEL_EXECUTE, aclmdlRIExecuteAsync(graph, stream));
  /* Waits for the occurrence of the launch that succeeded. */
  OK(aclrtStreamWaitEvent(outside, published));
  synchronize(outside);
  OK(aclmdlRIDestroy(graph));
}

const Case external_cases[] = {
    {31, "flags of record and wait are checked", checks_flags, NULL},
    {31, "external flags need queues of the software", needs_software_queues,
     "REPRISE_ACL_PROFILE=910B3,software_sq=0"},
    {32, "an external event keeps its direction and comes once in a graph", keeps_an_event_to_one_direction, NULL},
    {33, "a launch publishes and binds occurrences", binds_occurrences_at_each_launch, NULL},
    {33, "a failed launch publishes nothing", failed_launch_publishes_nothing, "REPRISE_ACL_FAULT=replay:2"},
    {0, NULL, NULL, NULL},
};
