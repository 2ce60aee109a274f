/* What the cases share: checks, resources, kernels, threads. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conformance.h"

enum { kSyncMilliseconds = 5000 };

static void fail_call(const char* file, int line, aclError expected, aclError got, const char* text) {
  const char* message = aclGetRecentErrMsg();
  char wanted[32] = "an error";
  if (expected >= 0) snprintf(wanted, sizeof wanted, "%d", expected);
  fail_case(file, line, "%s answered %d, not %s (%s)", text, got, wanted, message ? message : "no message");
}

void expect_code(const char* file, int line, aclError expected, aclError got, const char* text) {
  if (got != expected) fail_call(file, line, expected, got, text);
  if (got == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  if (!message || !*message) fail_case(file, line, "%s answered %d without a text", text, got);
}

void expect_error(const char* file, int line, aclError got, const char* text) {
  if (got == ACL_SUCCESS) fail_call(file, line, -1, got, text);
  expect_code(file, line, got, got, text);
}

aclrtStream new_stream(void) {
  aclrtStream stream = NULL;
  OK(aclrtCreateStream(&stream));
  CHECK(stream != NULL);
  return stream;
}

aclrtEvent new_event(void) {
  aclrtEvent event = NULL;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  CHECK(event != NULL);
  return event;
}

int32_t* new_words(size_t count) {
  void* words = NULL;
  const size_t bytes = count * sizeof(int32_t);
  OK(aclrtMalloc(&words, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK((uintptr_t)words % 64 == 0);
  OK(aclrtMemset(words, bytes, 0, bytes));
  return words;
}

uint64_t* new_gate(void) { return (uint64_t*)new_words(8); }

int32_t read_word(const int32_t* device_word) {
  int32_t value = 0;
  OK(aclrtMemcpy(&value, sizeof value, device_word, sizeof value, ACL_MEMCPY_DEVICE_TO_HOST));
  return value;
}

void write_word(int32_t* device_word, int32_t value) {
  OK(aclrtMemcpy(device_word, sizeof value, &value, sizeof value, ACL_MEMCPY_HOST_TO_DEVICE));
}

void open_gate(uint64_t* gate, aclrtStream stream) { OK(aclrtValueWrite(gate, 1, 0, stream)); }

void synchronize(aclrtStream stream) { OK(aclrtSynchronizeStreamWithTimeout(stream, kSyncMilliseconds)); }

bool stream_idle(aclrtStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  OK(aclrtStreamQuery(stream, &status));
  return status == ACL_STREAM_STATUS_COMPLETE;
}

/* Kernels. Each checks every address that it was given. */
static bool run_add(const void* arguments, size_t bytes, uint32_t blocks) {
  KernelArguments given;
  if (bytes != sizeof given || blocks == 0) return false;
  memcpy(&given, arguments, sizeof given);
  int32_t* words = emulatorHostAddress(given.words, (size_t)given.count * sizeof(int32_t));
  if (!words) return false;
  for (int32_t i = 0; i < given.count; ++i) words[i] += given.value;
  return true;
}

static bool run_set(const void* arguments, size_t bytes, uint32_t blocks) {
  KernelArguments given;
  if (bytes != sizeof given || blocks == 0) return false;
  memcpy(&given, arguments, sizeof given);
  int32_t* words = emulatorHostAddress(given.words, (size_t)given.count * sizeof(int32_t));
  if (!words) return false;
  for (int32_t i = 0; i < given.count; ++i) words[i] = given.value;
  return true;
}

static bool run_copy(const void* arguments, size_t bytes, uint32_t blocks) {
  KernelArguments given;
  if (bytes != sizeof given || blocks == 0) return false;
  memcpy(&given, arguments, sizeof given);
  const size_t size = (size_t)given.count * sizeof(int32_t);
  int32_t* words = emulatorHostAddress(given.words, size);
  const int32_t* from = emulatorHostAddress(given.from, size);
  if (!words || !from) return false;
  memcpy(words, from, size);
  return true;
}

static const EmulatorKernel adds[] = {
    {EMULATOR_KERNEL_MAGIC, "add_ai_core", EMULATOR_KERNEL_AI_CORE, run_add, NULL, NULL},
    {EMULATOR_KERNEL_MAGIC, "add_vector", EMULATOR_KERNEL_VECTOR, run_add, NULL, NULL},
    {EMULATOR_KERNEL_MAGIC, "add_mix", EMULATOR_KERNEL_MIX, run_add, NULL, NULL},
    {EMULATOR_KERNEL_MAGIC, "add_ai_cpu", EMULATOR_KERNEL_AI_CPU, run_add, NULL, NULL},
};
static const EmulatorKernel set_kernel = {EMULATOR_KERNEL_MAGIC, "set", EMULATOR_KERNEL_VECTOR, run_set, NULL, NULL};
static const EmulatorKernel copy_kernel = {EMULATOR_KERNEL_MAGIC, "copy", EMULATOR_KERNEL_VECTOR, run_copy, NULL, NULL};

aclrtFuncHandle add_kernel(EmulatorKernelType type) { return (aclrtFuncHandle)(uintptr_t)&adds[type]; }

static aclError launch(const EmulatorKernel* kernel, KernelArguments arguments, aclrtStream stream) {
  return aclrtLaunchKernelV2((aclrtFuncHandle)(uintptr_t)kernel, 1, &arguments, sizeof arguments, NULL, stream);
}

aclError try_add(EmulatorKernelType type, int32_t* words, int32_t value, aclrtStream stream) {
  return launch(&adds[type], (KernelArguments){words, NULL, value, 1}, stream);
}

void launch_add(int32_t* words, int32_t value, aclrtStream stream) {
  OK(try_add(EMULATOR_KERNEL_VECTOR, words, value, stream));
}

void launch_set(int32_t* words, int32_t value, aclrtStream stream) {
  OK(launch(&set_kernel, (KernelArguments){words, NULL, value, 1}, stream));
}

void launch_copy(int32_t* to, const int32_t* from, aclrtStream stream) {
  OK(launch(&copy_kernel, (KernelArguments){to, from, 0, 1}, stream));
}

void begin_capture(aclrtStream stream) { OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)); }

aclmdlRI end_capture(aclrtStream stream) {
  aclmdlRI graph = NULL;
  OK(aclmdlRICaptureEnd(stream, &graph));
  CHECK(graph != NULL);
  return graph;
}

aclmdlRICaptureStatus capture_status(aclrtStream stream) {
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  aclmdlRI graph = NULL;
  OK(aclmdlRICaptureGetInfo(stream, &status, &graph));
  CHECK((graph == NULL) == (status == ACL_MODEL_RI_CAPTURE_STATUS_NONE));
  return status;
}

void replay(aclmdlRI graph, aclrtStream stream) {
  OK(aclmdlRIExecuteAsync(graph, stream));
  synchronize(stream);
}

typedef struct {
  void (*function)(void*);
  void* argument;
} ThreadStart;

static void* start_thread(void* data) {
  const ThreadStart* start = data;
  /* A thread has a context of its own only after this. */
  OK(aclrtSetDevice(0));
  start->function(start->argument);
  return NULL;
}

void in_other_thread(void (*function)(void*), void* argument) {
  ThreadStart start = {function, argument};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, start_thread, &start) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

void sleep_ms(int milliseconds) {
  const struct timespec time = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
  nanosleep(&time, NULL);
}
