/* Conformance cases of the graph interface: what a case is, and what all of them need. Cases know the public interface
 * only. Each runs in a process of its own, so that one which hangs or dies harms no other. */
#ifndef REPRISE_EMULATOR_CONFORMANCE_H
#define REPRISE_EMULATOR_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/ascend/interface/acl_graph.h"
#include "device/ascend/interface/acl_runtime.h"
#include "emulator/kernel.h"

typedef struct {
  /* Number of the case in the list of the runtime's own tests; the own additions go on behind 54. */
  int number;
  const char* title;
  void (*run)(void);
  /* "NAME=VALUE ..." for the environment of the case, or null. */
  const char* environment;
} Case;

extern const Case capture_cases[];
extern const Case task_cases[];
extern const Case event_cases[];
extern const Case external_cases[];
extern const Case group_cases[];
extern const Case node_cases[];
extern const Case resource_cases[];
extern const Case own_cases[];
extern const Case fault_cases[];

/* Ends the case. */
_Noreturn void fail_case(const char* file, int line, const char* format, ...) __attribute__((format(printf, 3, 4)));
/* Ends the case as one that the emulator does not support. */
_Noreturn void unsupported(const char* reason);

#define FAIL(...) fail_case(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                               \
  do {                                                 \
    if (!(condition)) FAIL("%s is false", #condition); \
  } while (0)
/* The call answers exactly this code; a failure must come with a text. */
#define EXPECT(expected, call_) expect_code(__FILE__, __LINE__, (expected), (call_), #call_)
#define OK(call_) EXPECT(ACL_SUCCESS, call_)
void expect_code(const char* file, int line, aclError expected, aclError got, const char* text);
/* `got` is an error, whichever. */
#define EXPECT_ERROR(call_) expect_error(__FILE__, __LINE__, (call_), #call_)
void expect_error(const char* file, int line, aclError got, const char* text);

/* Streams, events, memory; end the case when they cannot be had. */
aclrtStream new_stream(void);
/* Of the kind that captures follow (Ex, SYNC). */
aclrtEvent new_event(void);
/* Device memory of 32-bit words, all zero. */
int32_t* new_words(size_t count);
/* A 64-bit word of device memory for aclrtValueWait/Write. */
uint64_t* new_gate(void);
/* Reads one word; waits for nothing. */
int32_t read_word(const int32_t* device_word);
void write_word(int32_t* device_word, int32_t value);
/* Opens a gate from the stream, so that a wait for 1 goes on. */
void open_gate(uint64_t* gate, aclrtStream stream);
/* Waits of at most five seconds. */
void synchronize(aclrtStream stream);
bool stream_idle(aclrtStream stream);
/* Makes a file in a folder that the parent removes; valid until the process ends. */
const char* scratch_path(const char* name);

/* Kernels: add `value` to each word, set each word, copy words. */
void launch_add(int32_t* words, int32_t value, aclrtStream stream);
void launch_set(int32_t* words, int32_t value, aclrtStream stream);
void launch_copy(int32_t* to, const int32_t* from, aclrtStream stream);
/* As launch_add, for any type of kernel, with the code that the launch answers. */
aclError try_add(EmulatorKernelType type, int32_t* words, int32_t value, aclrtStream stream);
/* The handles and arguments behind them. */
aclrtFuncHandle add_kernel(EmulatorKernelType type);
typedef struct {
  int32_t* words;
  const int32_t* from;
  int32_t value;
  int32_t count;
} KernelArguments;

/* Captures. */
void begin_capture(aclrtStream stream);
aclmdlRI end_capture(aclrtStream stream);
aclmdlRICaptureStatus capture_status(aclrtStream stream);
/* Runs a graph to its end. */
void replay(aclmdlRI graph, aclrtStream stream);

/* Runs a function in another thread and waits for it. */
void in_other_thread(void (*function)(void* argument), void* argument);
void sleep_ms(int milliseconds);

#endif /* REPRISE_EMULATOR_CONFORMANCE_H */
