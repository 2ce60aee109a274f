/* What ran on an emulated device, as counts and as times of the timing model. For programs that find these functions in
 * libascendcl.so by name; the real library has none of them. */
#ifndef REPRISE_EMULATOR_STATISTICS_H
#define REPRISE_EMULATOR_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a JSON object as text that ends with 0, cut to `bytes`; the bytes that all of it takes, 0 for no such device.
 * {"launches", "replays", "updates": calls of the host; "kernels", "graph_kernels", "other_tasks": what ran;
 *  "bytes_read", "bytes_written", "multiply_adds": of kernels; "bytes_copied": of copies and fills;
 *  "kernel_time", "device_time", "host_time": seconds of the timing model since the last reset;
 *  "streams", "events", "notifies", "models": in use now; "memory_bytes": in use now} */
__attribute__((visibility("default"))) size_t emulatorStatistics(int32_t device, char* text, size_t bytes);
/* Counts and times start at 0 again. The device must be idle. */
__attribute__((visibility("default"))) void emulatorResetStatistics(int32_t device);

#ifdef __cplusplus
}
#endif

#endif /* REPRISE_EMULATOR_STATISTICS_H */
