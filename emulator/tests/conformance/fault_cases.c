/* Case 72: a fault at every call in turn. Whatever fails, a program that looks at codes gets a code with a text, can
 * give back what it has, and ends. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

enum { kMet = 10, kNotMet = 0, kBroken = 11, kSecondsEach = 20 };

/* What the scenario holds. A release never fails, so that all of it can go at any point. */
typedef struct {
  aclrtContext context;
  aclrtStream stream;
  aclrtStream updates;
  aclrtEvent updated;
  int32_t* words;
  int32_t* pinned;
  aclrtTaskGrp group;
  aclmdlRI graph;
} Held;

static const char* failed_call;

#define TRY(call_)                                                \
  do {                                                            \
    const aclError code_ = (call_);                               \
    if (code_ != ACL_SUCCESS) return failed_call = #call_, code_; \
  } while (0)

static aclError add(Held* held, int32_t value, aclrtStream stream) {
  return try_add(EMULATOR_KERNEL_VECTOR, held->words, value, stream);
}

static aclError prepare(Held* held) {
  TRY(aclrtSetDevice(0));
  TRY(aclrtMalloc((void**)&held->words, 256, ACL_MEM_MALLOC_HUGE_FIRST));
  TRY(aclrtMallocHost((void**)&held->pinned, 256));
  TRY(aclrtCreateStream(&held->stream));
  TRY(aclrtCreateStreamWithConfig(&held->updates, 0, ACL_STREAM_FAST_LAUNCH));
  TRY(aclrtCreateEventExWithFlag(&held->updated, ACL_EVENT_SYNC));
  TRY(aclrtMemset(held->words, 256, 0, 256));
  held->pinned[0] = 5;
  TRY(aclrtMemcpyAsync(held->words, 4, held->pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, held->stream));
  TRY(add(held, 1, held->stream));
  TRY(aclrtSynchronizeStreamWithTimeout(held->stream, 1000));
  return ACL_SUCCESS;
}

static aclError capture(Held* held) {
  TRY(aclmdlRICaptureBegin(held->stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  TRY(add(held, 1, held->stream));
  TRY(aclmdlRICaptureTaskGrpBegin(held->stream));
  TRY(add(held, 10, held->stream));
  TRY(aclmdlRICaptureTaskGrpEnd(held->stream, &held->group));
  TRY(aclrtMemcpyAsync(held->pinned, 4, held->words, 4, ACL_MEMCPY_DEVICE_TO_HOST, held->stream));
  TRY(aclmdlRICaptureEnd(held->stream, &held->graph));
  return ACL_SUCCESS;
}

static aclError run(Held* held) {
  TRY(aclmdlRIExecuteAsync(held->graph, held->stream));
  TRY(aclrtSynchronizeStreamWithTimeout(held->stream, 1000));
  TRY(aclmdlRICaptureTaskUpdateBegin(held->updates, held->group));
  TRY(add(held, 20, held->updates));
  TRY(aclmdlRICaptureTaskUpdateEnd(held->updates));
  TRY(aclrtRecordEvent(held->updated, held->updates));
  TRY(aclrtStreamWaitEvent(held->stream, held->updated));
  TRY(aclmdlRIExecuteAsync(held->graph, held->stream));
  TRY(aclrtSynchronizeStreamWithTimeout(held->stream, 1000));
  return ACL_SUCCESS;
}

/* Says on standard error what is wrong and ends the process. */
static _Noreturn void broken(const char* what, const char* detail) {
  fprintf(stderr, "  %s: %s (%s)\n", getenv("REPRISE_ACL_FAULT"), what, detail);
  _exit(kBroken);
}

#define RELEASE(call_)                                                              \
  do {                                                                              \
    if ((call_) != ACL_SUCCESS) {                                                   \
      const char* text_ = aclGetRecentErrMsg();                                     \
      broken("could not give back: " #call_, text_ ? text_ : "and without a text"); \
    }                                                                               \
  } while (0)

static void give_back(Held* held) {
  if (held->stream) {
    /* Whatever the failed call left open: a capture, a kernel that does not end. */
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    (void)aclmdlRICaptureGetInfo(held->stream, &status, NULL);
    if (status != ACL_MODEL_RI_CAPTURE_STATUS_NONE) {
      (void)aclmdlRICaptureEnd(held->stream, &held->graph);
    }
    (void)aclrtStreamAbort(held->stream);
  }
  if (held->updates) (void)aclrtStreamAbort(held->updates);
  (void)aclGetRecentErrMsg();
  if (held->graph) RELEASE(aclmdlRIDestroy(held->graph));
  if (held->updated) RELEASE(aclrtDestroyEvent(held->updated));
  if (held->updates) RELEASE(aclrtDestroyStream(held->updates));
  if (held->stream) RELEASE(aclrtDestroyStream(held->stream));
  if (held->words) RELEASE(aclrtFree(held->words));
  if (held->pinned) RELEASE(aclrtFreeHost(held->pinned));
}

static int scenario(void) {
  alarm(kSecondsEach);
  Held held;
  memset(&held, 0, sizeof held);
  RELEASE(aclInit(NULL));
  aclError code = prepare(&held);
  if (code == ACL_SUCCESS) code = capture(&held);
  if (code == ACL_SUCCESS) code = run(&held);
  const bool right = code != ACL_SUCCESS || held.pinned[0] == 6 + 11 + 21;
  int32_t device = -1;
  if (code != ACL_SUCCESS) {
    const char* text = aclGetRecentErrMsg();
    if (!text || !*text) broken("failed without a text", failed_call);
    if (aclGetRecentErrMsg()) broken("the text was not taken", failed_call);
  }
  give_back(&held);
  if (aclrtGetDevice(&device) == ACL_SUCCESS) RELEASE(aclrtResetDevice(0));
  RELEASE(aclFinalize());
  if (!right) broken("nothing failed, and the result is wrong", "");
  return code == ACL_SUCCESS ? kNotMet : kMet;
}

/* Runs the scenario in a process of its own. */
static int run_with(const char* fault) {
  setenv("REPRISE_ACL_FAULT", fault, 1);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) _exit(scenario());
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) FAIL("with %s the program ended by signal %d", fault, WTERMSIG(status));
  return WEXITSTATUS(status);
}

static long count_of(const char* text, const char* name) {
  const char* found = strstr(text, name);
  CHECK(found != NULL);
  return strtol(found + strlen(name), NULL, 10);
}

static void every_call_may_fail(void) {
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  setenv("REPRISE_ACL_FAULT_COUNT", scratch_path("counts.json"), 1);
  CHECK(run_with("") == kNotMet);
  unsetenv("REPRISE_ACL_FAULT_COUNT");
  char text[512];
  FILE* file = fopen(scratch_path("counts.json"), "r");
  CHECK(file != NULL);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  const long calls = count_of(text, "\"any\": ");
  const long kernels = count_of(text, "\"kernel\": ");
  CHECK(calls >= 25 && calls < 100 && kernels == 5);
  const struct {
    const char* what;
    long count;
  } kinds[] = {{"any", calls}, {"device", kernels}, {"timeout", kernels}};
  for (int kind = 0; kind < 3; ++kind) {
    for (long number = 1; number <= kinds[kind].count; ++number) {
      char fault[32];
      snprintf(fault, sizeof fault, "%s:%ld", kinds[kind].what, number);
      const int outcome = run_with(fault);
      if (outcome != kMet) FAIL("with %s the scenario ended with %d", fault, outcome);
    }
  }
  setenv("REPRISE_ACL_FAULT", "", 1);
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
}

static void nonsense_is_no_fault(void) {
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  const char* const wrong[] = {"malloc", "malloc:0", "malloc:x", "nothing:1", "malloc:1,,", "malloc:1=0"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    setenv("REPRISE_ACL_FAULT", wrong[i], 1);
    EXPECT(ACL_ERROR_INVALID_PARAM, aclInit(NULL));
  }
  setenv("REPRISE_ACL_FAULT", "", 1);
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
}

const Case fault_cases[] = {
    {72, "a fault at every call and every kernel in turn", every_call_may_fail, NULL},
    {73, "a wrong setting of faults is refused", nonsense_is_no_fault, NULL},
    {0, NULL, NULL, NULL},
};
