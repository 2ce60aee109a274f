/* Cases 34 to 45: task groups and their updates. */

#include "conformance.h"

enum { kHardwareQueue = 2048 };

static aclrtTaskGrp end_group(aclrtStream stream) {
  aclrtTaskGrp group = NULL;
  OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK(group != NULL);
  return group;
}

static void checks_group_arguments(void) {
  aclrtStream stream = new_stream();
  aclrtTaskGrp group = stream;
  EXPECT(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureTaskGrpBegin(stream));
  EXPECT_ERROR(aclmdlRICaptureTaskGrpEnd(stream, &group));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureTaskGrpBegin(NULL));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureTaskGrpEnd(NULL, &group));
  EXPECT_ERROR(aclmdlRICaptureTaskGrpEnd(stream, NULL));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureTaskUpdateBegin(stream, NULL));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureTaskUpdateEnd(NULL));
}

static void refuses_a_group_in_a_group(void) {
  aclrtStream stream = new_stream();
  begin_capture(stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  EXPECT(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskGrpBegin(stream));
  end_group(stream);
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void pairs_begin_and_end(void) {
  aclrtStream stream = new_stream();
  begin_capture(stream);
  aclrtTaskGrp group = stream;
  EXPECT(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskGrpEnd(stream, &group));
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  aclmdlRI graph = stream;
  EXPECT(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureEnd(stream, &graph));
  CHECK(graph == NULL);
  begin_capture(stream);
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void allows_an_empty_group(void) {
  aclrtStream stream = new_stream();
  aclrtStream updates = new_stream();
  begin_capture(stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  aclrtTaskGrp group = end_group(stream);
  aclmdlRI graph = end_capture(stream);
  OK(aclmdlRICaptureTaskUpdateBegin(updates, group));
  OK(aclmdlRICaptureTaskUpdateEnd(updates));
  synchronize(updates);
  replay(graph, stream);
  OK(aclmdlRIDestroy(graph));
}

/* A graph of one group that adds 1 and 10 to a word. */
typedef struct {
  aclrtStream stream;
  aclrtStream updates;
  int32_t* words;
  aclrtTaskGrp group;
  aclmdlRI graph;
} Grouped;

static Grouped capture_group(void) {
  Grouped made = {new_stream(), new_stream(), new_words(2), NULL, NULL};
  begin_capture(made.stream);
  launch_set(made.words, 1000, made.stream);
  OK(aclmdlRICaptureTaskGrpBegin(made.stream));
  launch_add(made.words, 1, made.stream);
  launch_add(made.words, 10, made.stream);
  made.group = end_group(made.stream);
  launch_copy(made.words + 1, made.words, made.stream);
  made.graph = end_capture(made.stream);
  return made;
}

static void updates_by_an_equal_count(void) {
  Grouped made = capture_group();
  replay(made.graph, made.stream);
  CHECK(read_word(made.words + 1) == 1011);
  OK(aclmdlRICaptureTaskUpdateBegin(made.updates, made.group));
  launch_add(made.words, 2, made.updates);
  /* The function itself may change where its type is the same. */
  launch_set(made.words, 7, made.updates);
  OK(aclmdlRICaptureTaskUpdateEnd(made.updates));
  synchronize(made.updates);
  /* An update runs nothing. */
  CHECK(read_word(made.words) == 1011);
  replay(made.graph, made.stream);
  CHECK(read_word(made.words + 1) == 7);
  /* It stays until the next. */
  replay(made.graph, made.stream);
  CHECK(read_word(made.words + 1) == 7);
  OK(aclmdlRIDestroy(made.graph));
}

static void counts_the_launches_of_an_update(void) {
  Grouped made = capture_group();
  OK(aclmdlRICaptureTaskUpdateBegin(made.updates, made.group));
  launch_add(made.words, 2, made.updates);
  EXPECT(ACL_ERROR_RT_INTERNAL_ERROR, aclmdlRICaptureTaskUpdateEnd(made.updates));
  OK(aclmdlRICaptureTaskUpdateBegin(made.updates, made.group));
  launch_add(made.words, 2, made.updates);
  launch_add(made.words, 3, made.updates);
  EXPECT(ACL_ERROR_RT_INTERNAL_ERROR, try_add(EMULATOR_KERNEL_VECTOR, made.words, 4, made.updates));
  (void)aclmdlRICaptureTaskUpdateEnd(made.updates);
  (void)aclGetRecentErrMsg();
  synchronize(made.updates);
  OK(aclmdlRIDestroy(made.graph));
}

static void pairs_update_begin_and_end(void) {
  Grouped made = capture_group();
  EXPECT(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateEnd(made.updates));
  EXPECT(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureTaskUpdateBegin(made.updates, NULL));
  OK(aclmdlRICaptureTaskUpdateBegin(made.updates, made.group));
  EXPECT(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateBegin(made.updates, made.group));
  EXPECT(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateBegin(new_stream(), made.group));
  EXPECT(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtMemsetAsync(made.words, 4, 0, 4, made.updates));
  EXPECT(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtRecordEvent(new_event(), made.updates));
  launch_add(made.words, 1, made.updates);
  launch_add(made.words, 10, made.updates);
  OK(aclmdlRICaptureTaskUpdateEnd(made.updates));
  synchronize(made.updates);
  aclrtStream capturing = new_stream();
  begin_capture(capturing);
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureTaskUpdateBegin(capturing, made.group));
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureTaskUpdateEnd(capturing));
  OK(aclmdlRIDestroy(end_capture(capturing)));
  OK(aclmdlRIDestroy(made.graph));
}

static void refuses_other_tasks_in_groups(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(2);
  begin_capture(stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  launch_add(words, 1, stream);
  EXPECT(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
         aclrtMemcpyAsync(words + 1, 4, words, 4, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  aclrtTaskGrp group = stream;
  EXPECT(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK(group == NULL);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  EXPECT(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, try_add(EMULATOR_KERNEL_AI_CPU, words, 1, stream));
  EXPECT(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclmdlRICaptureTaskGrpEnd(stream, &group));
  /* The capture itself lives on. */
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  launch_add(words, 1, stream);
  end_group(stream);
  OK(aclmdlRIDestroy(end_capture(stream)));
}

static void refuses_another_stream_of_the_capture(void) {
  aclrtStream stream = new_stream();
  aclrtStream side = new_stream();
  aclrtEvent fork = new_event();
  aclrtEvent join = new_event();
  int32_t* words = new_words(1);
  begin_capture(stream);
  OK(aclrtRecordEvent(fork, stream));
  OK(aclrtStreamWaitEvent(side, fork));
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  EXPECT(ACL_ERROR_STREAM_TASK_GROUP_INTR, try_add(EMULATOR_KERNEL_VECTOR, words, 1, side));
  aclrtTaskGrp group = stream;
  EXPECT(ACL_ERROR_STREAM_TASK_GROUP_INTR, aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK(group == NULL);
  OK(aclrtRecordEvent(join, side));
  OK(aclrtStreamWaitEvent(stream, join));
  OK(aclmdlRIDestroy(end_capture(stream)));
}

/* A capture of `before` kernels, a group of `inside` and one kernel behind it; then all of the group are updated. */
static void update_a_long_capture(int before, int inside) {
  aclrtStream stream = new_stream();
  aclrtStream updates = new_stream();
  int32_t* words = new_words(1);
  begin_capture(stream);
  for (int i = 0; i < before; ++i) launch_add(words, 1, stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  for (int i = 0; i < inside; ++i) launch_add(words, 1, stream);
  aclrtTaskGrp group = end_group(stream);
  launch_add(words, 1, stream);
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  CHECK(read_word(words) == before + inside + 1);
  write_word(words, 0);
  OK(aclmdlRICaptureTaskUpdateBegin(updates, group));
  for (int i = 0; i < inside; ++i) launch_add(words, 3, updates);
  OK(aclmdlRICaptureTaskUpdateEnd(updates));
  synchronize(updates);
  replay(graph, stream);
  CHECK(read_word(words) == before + 3 * inside + 1);
  OK(aclmdlRIDestroy(graph));
}

static void cascades_inside_a_group(void) { update_a_long_capture(10, kHardwareQueue + 500); }

static void keeps_a_group_across_a_cascade(void) {
  /* Around the place where the first inner stream is full, wherever exactly the runtime cuts. */
  for (int reserve = 0; reserve <= 48; reserve += 8) update_a_long_capture(kHardwareQueue - reserve - 5, 10);
}

static void refuses_another_kernel_type(void) {
  Grouped made = capture_group();
  const EmulatorKernelType others[] = {EMULATOR_KERNEL_AI_CORE, EMULATOR_KERNEL_MIX};
  for (int i = 0; i < 2; ++i) {
    OK(aclmdlRICaptureTaskUpdateBegin(made.updates, made.group));
    EXPECT(ACL_ERROR_RT_INTERNAL_ERROR, try_add(others[i], made.words, 1, made.updates));
    (void)aclmdlRICaptureTaskUpdateEnd(made.updates);
    (void)aclGetRecentErrMsg();
  }
  replay(made.graph, made.stream);
  CHECK(read_word(made.words + 1) == 1011);
  OK(aclmdlRIDestroy(made.graph));
}

/* The environment of this case leaves one stream for the capture and none for its second inner stream. */
static void running_out_of_inner_streams_invalidates(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  uint32_t free_streams = 0;
  OK(aclrtGetStreamAvailableNum(&free_streams));
  for (; free_streams > 1; --free_streams) new_stream();
  begin_capture(stream);
  OK(aclmdlRICaptureTaskGrpBegin(stream));
  aclError code = ACL_SUCCESS;
  for (int i = 0; i < 2 * kHardwareQueue && code == ACL_SUCCESS; ++i) {
    code = try_add(EMULATOR_KERNEL_VECTOR, words, 1, stream);
  }
  EXPECT(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, code);
  CHECK(capture_status(stream) == ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  aclrtTaskGrp group = stream;
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK(group == NULL);
  aclmdlRI graph = stream;
  EXPECT(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(stream, &graph));
  CHECK(graph == NULL);
  begin_capture(stream);
  OK(aclmdlRIDestroy(end_capture(stream)));
}

const Case group_cases[] = {
    {34, "arguments of groups are checked", checks_group_arguments, NULL},
    {35, "a group may not begin in a group", refuses_a_group_in_a_group, NULL},
    {36, "a group's end needs its begin, and a capture's end the group's", pairs_begin_and_end, NULL},
    {37, "an empty group can be updated", allows_an_empty_group, NULL},
    {38, "a group is updated by as many kernels", updates_by_an_equal_count, NULL},
    {39, "an update by fewer or more kernels fails", counts_the_launches_of_an_update, NULL},
    {40, "updates begin and end in pairs and take kernels alone", pairs_update_begin_and_end, NULL},
    {41, "another task in a group fails, and its end says so", refuses_other_tasks_in_groups, NULL},
    {41, "a launch on another stream of the capture interrupts a group", refuses_another_stream_of_the_capture, NULL},
    {42, "a new inner stream inside a group is no error", cascades_inside_a_group, NULL},
    {43, "an update keeps the type of kernels", refuses_another_kernel_type, NULL},
    {44, "a group lives across inner streams", keeps_a_group_across_a_cascade, NULL},
    {45, "running out of inner streams invalidates group and capture", running_out_of_inner_streams_invalidates,
     "REPRISE_ACL_PROFILE=910B3,software_sq=0,streams=8"},
    {0, NULL, NULL, NULL},
};
