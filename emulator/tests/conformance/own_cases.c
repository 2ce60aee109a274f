/* Cases behind the list of the runtime's own tests: what they leave out and clients rely on. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conformance.h"

static void replays_read_memory_as_it_is(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(2);
  begin_capture(stream);
  launch_copy(words + 1, words, stream);
  aclmdlRI graph = end_capture(stream);
  for (int32_t value = 5; value < 8; ++value) {
    write_word(words, value);
    replay(graph, stream);
    CHECK(read_word(words + 1) == value);
  }
  OK(aclmdlRIDestroy(graph));
}

static void replays_back_to_back(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  begin_capture(stream);
  launch_add(words, 1, stream);
  aclmdlRI graph = end_capture(stream);
  for (int i = 0; i < 100; ++i) OK(aclmdlRIExecuteAsync(graph, stream));
  synchronize(stream);
  CHECK(read_word(words) == 100);
  OK(aclmdlRIDestroy(graph));
}

/* A graph that waits for a word, clears it and runs a group of one kernel. */
typedef struct {
  aclrtStream stream;
  aclrtStream updates;
  int32_t* words;
  uint64_t* gate;
  aclrtTaskGrp group;
  aclmdlRI graph;
} Updatable;

static Updatable capture_updatable(bool gated) {
  Updatable made = {new_stream(), new_stream(), new_words(2), new_gate(), NULL, NULL};
  begin_capture(made.stream);
  launch_set(made.words, 0, made.stream);
  if (gated) {
    OK(aclrtValueWait(made.gate, 1, ACL_VALUE_WAIT_EQ, made.stream));
    OK(aclrtValueWrite(made.gate, 0, 0, made.stream));
  }
  OK(aclmdlRICaptureTaskGrpBegin(made.stream));
  launch_add(made.words, 1, made.stream);
  OK(aclmdlRICaptureTaskGrpEnd(made.stream, &made.group));
  launch_copy(made.words + 1, made.words, made.stream);
  made.graph = end_capture(made.stream);
  return made;
}

static void update(const Updatable* made, int32_t value) {
  OK(aclmdlRICaptureTaskUpdateBegin(made->updates, made->group));
  launch_add(made->words, value, made->updates);
  OK(aclmdlRICaptureTaskUpdateEnd(made->updates));
}

static void executes_then_updates(void) {
  Updatable made = capture_updatable(true);
  for (int32_t value = 10; value < 15; ++value) {
    OK(aclmdlRIExecuteAsync(made.graph, made.stream));
    update(&made, value);
    open_gate(made.gate, made.updates);
    synchronize(made.stream);
    CHECK(read_word(made.words + 1) == value);
  }
  OK(aclmdlRIDestroy(made.graph));
}

static void updates_then_executes(void) {
  Updatable made = capture_updatable(false);
  aclrtEvent updated = new_event();
  for (int32_t value = 10; value < 15; ++value) {
    update(&made, value);
    OK(aclrtRecordEvent(updated, made.updates));
    OK(aclrtStreamWaitEvent(made.stream, updated));
    replay(made.graph, made.stream);
    CHECK(read_word(made.words + 1) == value);
  }
  OK(aclmdlRIDestroy(made.graph));
}

static void execute_returns_while_the_graph_waits(void) {
  Updatable made = capture_updatable(true);
  OK(aclmdlRIExecuteAsync(made.graph, made.stream));
  sleep_ms(30);
  CHECK(!stream_idle(made.stream));
  /* Other streams are not held up. */
  aclrtStream other = new_stream();
  launch_set(made.words + 1, 77, other);
  synchronize(other);
  CHECK(read_word(made.words + 1) == 77);
  CHECK(!stream_idle(made.stream));
  EXPECT(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(made.stream, 30));
  open_gate(made.gate, other);
  synchronize(made.stream);
  CHECK(read_word(made.words + 1) == 1);
  OK(aclmdlRIDestroy(made.graph));
}

static void freed_memory_is_a_fault_at_replay(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  begin_capture(stream);
  launch_add(words, 1, stream);
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  OK(aclrtFree(words));
  OK(aclmdlRIExecuteAsync(graph, stream));
  EXPECT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStreamWithTimeout(stream, 5000));
}

static void pageable_memory_and_asynchronous_copies(void) {
  aclrtStream stream = new_stream();
  aclrtStream other = new_stream();
  int32_t* words = new_words(1);
  int32_t pageable = 3;
  int32_t* pinned = NULL;
  OK(aclrtMallocHost((void**)&pinned, sizeof *pinned));
  OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyAsync(words, 4, &pageable, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  EXPECT(ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
         aclrtMemcpyAsync(words, 4, &pageable, 4, ACL_MEMCPY_HOST_TO_DEVICE, other));
  OK(aclrtMemcpyAsync(words, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  aclmdlRI graph = end_capture(stream);
  for (int32_t value = 1; value < 4; ++value) {
    *pinned = value;
    replay(graph, stream);
    CHECK(read_word(words) == value);
  }
  OK(aclrtMemcpyAsync(words, 4, &pageable, 4, ACL_MEMCPY_HOST_TO_DEVICE, other));
  synchronize(other);
  CHECK(read_word(words) == 3);
  OK(aclmdlRIDestroy(graph));
  OK(aclrtFreeHost(pinned));
}

static void captures_more_than_a_queue_holds(void) {
  enum { kKernels = 5000 };
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  begin_capture(stream);
  for (int i = 0; i < kKernels; ++i) launch_add(words, 1, stream);
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  replay(graph, stream);
  CHECK(read_word(words) == 2 * kKernels);
  OK(aclmdlRIDestroy(graph));
}

static void destroying_a_running_graph_fails(void) {
  Updatable made = capture_updatable(true);
  OK(aclmdlRIExecuteAsync(made.graph, made.stream));
  EXPECT(ACL_ERROR_RT_MODEL_RUNNING, aclmdlRIDestroy(made.graph));
  open_gate(made.gate, made.updates);
  synchronize(made.stream);
  OK(aclmdlRIDestroy(made.graph));
}

static void hosts_cannot_look_through_device_addresses(void) {
  volatile int32_t* words = new_words(1);
  const pid_t child = fork();
  if (child == 0) {
    (void)words[0];
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  /* A sanitizer turns the signal into an exit status of its own. */
  CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

static void every_resource_ends(void) {
  aclrtStream stream = NULL;
  aclrtEvent event = NULL;
  void* memory = NULL;
  aclError code = ACL_SUCCESS;
  int count = 0;
  while (count < 100 && (code = aclrtCreateStream(&stream)) == ACL_SUCCESS) ++count;
  EXPECT(ACL_ERROR_RT_NO_STREAM_RESOURCE, code);
  CHECK(count >= 6 && count <= 8);
  count = 0;
  while (count < 100 && (code = aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC)) == ACL_SUCCESS) ++count;
  EXPECT(ACL_ERROR_RT_NO_EVENT_RESOURCE, code);
  CHECK(count == 10);
  OK(aclrtDestroyEvent(event));
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  EXPECT(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&memory, 2 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&memory, 1 << 19, ACL_MEM_MALLOC_NORMAL_ONLY));
  EXPECT_ERROR(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void nothing_works_without_init(void) {
  aclrtStream stream = NULL;
  EXPECT(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  EXPECT(ACL_ERROR_UNINITIALIZE, aclrtCreateStream(&stream));
  EXPECT_ERROR(aclFinalize());
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
}

static void device_errors_stay_until_the_reset(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(1);
  launch_add(words, 1, stream);
  EXPECT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStreamWithTimeout(stream, 5000));
  EXPECT_ERROR(aclrtSynchronizeDeviceWithTimeout(5000));
  int32_t value;
  EXPECT_ERROR(aclrtMemcpy(&value, 4, words, 4, ACL_MEMCPY_DEVICE_TO_HOST));
  OK(aclrtResetDeviceForce(0));
  OK(aclrtSetDevice(0));
  stream = new_stream();
  words = new_words(1);
  launch_add(words, 1, stream);
  synchronize(stream);
  CHECK(read_word(words) == 1);
}

static void endless_kernels_end_with_the_wait(void) {
  aclrtStream stream = new_stream();
  launch_add(new_words(1), 1, stream);
  EXPECT(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 50));
  OK(aclrtStreamAbort(stream));
  OK(aclrtDestroyStreamForce(stream));
}

static void last_errors_are_kept_and_taken(void) {
  EXPECT(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(NULL));
  CHECK(aclGetRecentErrMsg() == NULL);
  CHECK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == ACL_ERROR_INVALID_PARAM);
  CHECK(aclrtGetLastError(ACL_RT_THREAD_LEVEL) == ACL_ERROR_INVALID_PARAM);
  CHECK(aclrtGetLastError(ACL_RT_THREAD_LEVEL) == ACL_SUCCESS);
}

static void core_limits_act_where_they_are_used(void) {
  aclrtStream stream = new_stream();
  uint32_t hardware = 0, limited = 0;
  OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &hardware));
  CHECK(hardware == 20);
  OK(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 8));
  OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &limited));
  CHECK(limited == hardware);
  OK(aclrtUseStreamResInCurrentThread(stream));
  OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &limited));
  CHECK(limited == 8);
  OK(aclrtUnuseStreamResInCurrentThread(stream));
  OK(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 12));
  OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &limited));
  CHECK(limited == 12);
  OK(aclrtResetDeviceResLimit(0));
  EXPECT_ERROR(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 1000));
  EXPECT_ERROR(aclrtSetStreamResLimit(stream, ACL_RT_DEV_RES_CUBE_CORE, 0));
}

static void inner_streams_run_side_by_side(void) {
  aclrtStream origin = new_stream();
  aclrtStream side = new_stream();
  aclrtEvent fork = new_event();
  aclrtEvent join = new_event();
  uint64_t* gate = new_gate();
  begin_capture(origin);
  OK(aclrtRecordEvent(fork, origin));
  OK(aclrtStreamWaitEvent(side, fork));
  /* The origin waits for what only the side stream does. */
  OK(aclrtValueWrite(gate, 1, 0, side));
  OK(aclrtRecordEvent(join, side));
  OK(aclrtValueWait(gate, 1, ACL_VALUE_WAIT_EQ, origin));
  OK(aclrtStreamWaitEvent(origin, join));
  aclmdlRI graph = end_capture(origin);
  replay(graph, origin);
  OK(aclmdlRIDestroy(graph));
}

static void a_reset_ends_captures(void) {
  aclrtStream stream = new_stream();
  begin_capture(stream);
  launch_add(new_words(1), 1, stream);
  OK(aclrtResetDeviceForce(0));
  OK(aclrtSetDevice(0));
  EXPECT_ERROR(aclrtSynchronizeStreamWithTimeout(stream, 100));
  /* The captures of before forbid nothing any more. */
  int32_t* words = new_words(1);
  stream = new_stream();
  begin_capture(stream);
  launch_add(words, 2, stream);
  aclmdlRI graph = end_capture(stream);
  replay(graph, stream);
  CHECK(read_word(words) == 2);
  OK(aclmdlRIDestroy(graph));
}

/* A context that one thread uses, its default stream among the rest, while another resets the device. */
typedef struct {
  aclrtContext context;
  int32_t* words;
} Shared;

static void* use_default_stream(void* argument) {
  const Shared* shared = argument;
  aclError code = ACL_SUCCESS;
  for (int i = 0; i < 20000 && code != ACL_ERROR_RT_CONTEXT_NULL; ++i) {
    (void)aclrtSetCurrentContext(shared->context);
    code = aclrtMemsetAsync(shared->words, 4, 0, 4, NULL);
    aclrtStream stream = NULL;
    (void)aclrtCtxGetCurrentDefaultStream(&stream);
    (void)aclrtSynchronizeStreamWithTimeout(NULL, 1);
  }
  return code == ACL_ERROR_RT_CONTEXT_NULL ? argument : NULL;
}

static void a_reset_ends_default_streams_of_other_threads(void) {
  for (int round = 0; round < 20; ++round) {
    Shared shared = {NULL, NULL};
    OK(aclrtSetDevice(0));
    OK(aclrtCreateContext(&shared.context, 0));
    shared.words = new_words(1);
    /* A stream that does not end by itself makes the reset wait in its middle. */
    OK(aclrtValueWait(new_gate(), 1, ACL_VALUE_WAIT_EQ, new_stream()));
    pthread_t threads[3];
    for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, use_default_stream, &shared) == 0);
    nanosleep(&(struct timespec){0, 200000}, NULL);
    OK(aclrtResetDeviceForce(0));
    for (int i = 0; i < 3; ++i) {
      void* told = NULL;
      CHECK(pthread_join(threads[i], &told) == 0);
      CHECK(told != NULL);
    }
  }
}

static aclError code_of_host_function;
static void finalize_inside(void* argument) {
  (void)argument;
  code_of_host_function = aclFinalize();
}
static void reset_inside(void* argument) {
  (void)argument;
  code_of_host_function = aclrtResetDevice(0);
}
static void synchronize_inside(void* stream) {
  aclrtContext context = NULL;
  if (aclrtGetCurrentContext(&context) != ACL_SUCCESS) (void)aclrtSetDevice(0);
  code_of_host_function = aclrtSynchronizeStream(stream);
}

static void host_functions_cannot_wait_for_themselves(void) {
  aclrtContext context = NULL;
  OK(aclrtSetDevice(0));
  OK(aclrtGetCurrentContext(&context));
  aclrtStream stream = new_stream();
  const aclrtHostFunc functions[] = {finalize_inside, reset_inside, synchronize_inside};
  for (int i = 0; i < 3; ++i) {
    code_of_host_function = ACL_SUCCESS;
    OK(aclrtLaunchHostFunc(stream, functions[i], stream));
    synchronize(stream);
    CHECK(code_of_host_function == ACL_ERROR_RT_PARAM_INVALID);
  }
  /* All goes on. */
  int32_t* words = new_words(1);
  launch_add(words, 3, stream);
  synchronize(stream);
  CHECK(read_word(words) == 3);
}

/* What is no memory of the host, and what can be read but not written. */
static void unmapped_memory_is_an_error(void) {
  aclrtStream stream = new_stream();
  int32_t* words = new_words(2048);
  void* nowhere = (void*)64;
  static const char constant[8192] = {1};
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(words, 8192, nowhere, 8192, ACL_MEMCPY_HOST_TO_DEVICE));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(nowhere, 8192, words, 8192, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpyAsync(words, 64, nowhere, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy2d(words, 64, nowhere, 64, 64, 4, ACL_MEMCPY_HOST_TO_DEVICE));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy((void*)constant, 8192, words, 8192, ACL_MEMCPY_DEVICE_TO_HOST));
  OK(aclrtMemcpy(words, 8192, constant, 8192, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK(read_word(words) == 1);
  KernelArguments arguments = {words, words, 1, 1};
  EXPECT(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchKernelV2(nowhere, 1, &arguments, sizeof(arguments), NULL, stream));
  EXPECT(ACL_ERROR_RT_PARAM_INVALID,
         aclrtLaunchKernelV2(add_kernel(EMULATOR_KERNEL_VECTOR), 1, nowhere, sizeof(arguments), NULL, stream));
  /* None of it was the device's fault. */
  launch_add(words, 1, stream);
  synchronize(stream);
  CHECK(read_word(words) == 2);
}

/* Pinned memory that a graph copies and that is no more when it is replayed. */
static void pinned_memory_is_missed_at_replay(void) {
  for (int to_host = 0; to_host < 2; ++to_host) {
    const size_t bytes = 4 << 20;
    aclrtStream stream = new_stream();
    int32_t* words = new_words(bytes / 4);
    void* pinned = NULL;
    OK(aclrtMallocHost(&pinned, bytes));
    begin_capture(stream);
    if (to_host) {
      OK(aclrtMemcpyAsync(pinned, bytes, words, bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    } else {
      OK(aclrtMemcpyAsync(words, bytes, pinned, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    }
    aclmdlRI graph = end_capture(stream);
    OK(aclrtFreeHost(pinned));
    OK(aclmdlRIExecuteAsync(graph, stream));
    EXPECT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStreamWithTimeout(stream, 5000));
    OK(aclmdlRIDestroy(graph));
    OK(aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
  }
}

const Case own_cases[] = {
    {55, "a replay reads memory as it is then", replays_read_memory_as_it_is, NULL},
    {56, "replays follow each other without a wait", replays_back_to_back, NULL},
    {57, "execute, then update, then release", executes_then_updates, NULL},
    {58, "update, then execute", updates_then_executes, NULL},
    {59, "execute returns while the graph waits for outside", execute_returns_while_the_graph_waits, NULL},
    {60, "memory freed before a replay is a fault", freed_memory_is_a_fault_at_replay, NULL},
    {61, "pageable memory is refused, pinned memory is read at each replay", pageable_memory_and_asynchronous_copies,
     NULL},
    {62, "a capture may be longer than a queue", captures_more_than_a_queue_holds, NULL},
    {63, "a running graph is not destroyed", destroying_a_running_graph_fails,
     "REPRISE_ACL_PROFILE=910B3,destroy_timeout_ms=100"},
    {64, "the host cannot look through a device address", hosts_cannot_look_through_device_addresses, NULL},
    {65, "streams, events and memory end", every_resource_ends,
     "REPRISE_ACL_PROFILE=910B3,streams=8,events=10,memory_bytes=1048576"},
    {66, "nothing works without aclInit", nothing_works_without_init, NULL},
    {67, "a device error stays until the reset", device_errors_stay_until_the_reset, "REPRISE_ACL_FAULT=device:1"},
    {68, "a kernel that never ends does not hold the host", endless_kernels_end_with_the_wait,
     "REPRISE_ACL_FAULT=timeout:1"},
    {69, "the last error is kept and taken", last_errors_are_kept_and_taken, NULL},
    {70, "core limits act where a thread uses them", core_limits_act_where_they_are_used, NULL},
    {71, "inner streams of a replay run side by side", inner_streams_run_side_by_side, NULL},
    {74, "a reset of the device ends captures", a_reset_ends_captures, NULL},
    {83, "a reset ends default streams that other threads use", a_reset_ends_default_streams_of_other_threads, NULL},
    {84, "host functions cannot wait for themselves", host_functions_cannot_wait_for_themselves, NULL},
    {85, "addresses that are no memory of the host are errors", unmapped_memory_is_an_error, NULL},
    {86, "pinned memory freed before a replay is a fault", pinned_memory_is_missed_at_replay, NULL},
    {0, NULL, NULL, NULL},
};
