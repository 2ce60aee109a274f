/* Runs the cases and prints `ok NN title`, `not ok NN title: why` or `unsupported NN title: why`, and a count.
 *   emulator_conformance [REPORT.xml] [NUMBER...]    with numbers, only those cases
 * Exit status 1 when a case failed. */
#define _GNU_SOURCE
#include "conformance.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kCaseSeconds = 60, kUnsupportedExit = 77, kMaximalCases = 200 };

static char scratch[64];
static int reason_pipe = -1;

static const char* basename_of(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static _Noreturn void leave(int status, const char* text) {
  const ssize_t written = write(reason_pipe, text, strlen(text));
  (void)written;
  _exit(status);
}

void fail_case(const char* file, int line, const char* format, ...) {
  char text[1024];
  const int head = snprintf(text, sizeof text, "%s:%d: ", basename_of(file), line);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + head, sizeof text - (size_t)head, format, arguments);
  va_end(arguments);
  leave(1, text);
}

void unsupported(const char* reason) { leave(kUnsupportedExit, reason); }

const char* scratch_path(const char* name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", scratch, name);
  return path;
}

static void set_environment(const char* text) {
  char copy[1024];
  snprintf(copy, sizeof copy, "%s", text);
  char* rest = NULL;
  for (char* item = strtok_r(copy, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
    char* equals = strchr(item, '=');
    *equals = '\0';
    setenv(item, equals + 1, 1);
  }
}

static _Noreturn void run_in_child(const Case* one) {
  alarm(kCaseSeconds);
  if (one->environment) set_environment(one->environment);
  OK(aclInit(NULL));
  OK(aclrtSetDevice(0));
  one->run();
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  /* exit() and not _exit(): sanitizers report there. */
  exit(0);
}

typedef enum { kPassed, kFailed, kUnsupported } Outcome;

static Outcome run_case(const Case* one, char* reason, size_t capacity) {
  int ends[2];
  if (pipe(ends) != 0) exit(2);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    reason_pipe = ends[1];
    run_in_child(one);
  }
  close(ends[1]);
  size_t length = 0;
  ssize_t got;
  while (length + 1 < capacity && (got = read(ends[0], reason + length, capacity - 1 - length)) > 0) {
    length += (size_t)got;
  }
  reason[length] = '\0';
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    snprintf(reason, capacity, "%s", WTERMSIG(status) == SIGALRM ? "still running after 60 s" : "died of a signal");
    return kFailed;
  }
  if (WEXITSTATUS(status) == kUnsupportedExit) return kUnsupported;
  if (WEXITSTATUS(status) != 0 && length == 0) snprintf(reason, capacity, "exit status %d", WEXITSTATUS(status));
  return WEXITSTATUS(status) == 0 ? kPassed : kFailed;
}

static void write_text(FILE* file, const char* text) {
  for (; *text; ++text) {
    switch (*text) {
      case '<':
        fputs("&lt;", file);
        break;
      case '&':
        fputs("&amp;", file);
        break;
      case '"':
        fputs("&quot;", file);
        break;
      default:
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, file);
    }
  }
}

static void report_case(FILE* file, const Case* one, Outcome outcome, const char* reason) {
  if (!file) return;
  fprintf(file, "<testcase classname=\"Conformance\" status=\"run\" result=\"%s\" name=\"%02d ",
          outcome == kUnsupported ? "skipped" : "completed", one->number);
  write_text(file, one->title);
  fputs("\">", file);
  if (outcome != kPassed) {
    fputs(outcome == kFailed ? "<failure message=\"" : "<skipped message=\"", file);
    write_text(file, reason);
    fputs("\"/>", file);
  }
  fputs("</testcase>\n", file);
}

static size_t collect(const Case** cases) {
  const Case* const lists[] = {capture_cases, task_cases,     event_cases, external_cases, group_cases,
                               node_cases,    resource_cases, own_cases,   fault_cases};
  size_t count = 0;
  for (size_t list = 0; list < sizeof lists / sizeof lists[0]; ++list) {
    for (const Case* one = lists[list]; one->run; ++one) {
      if (count < kMaximalCases) cases[count++] = one;
    }
  }
  return count;
}

/* 0 when it is none. */
static int number_of(const char* text) {
  char* end = NULL;
  const long number = strtol(text, &end, 10);
  return *text && !*end && number > 0 && number < 100000 ? (int)number : 0;
}

static bool wanted(const Case* one, int first, int argc, char** argv) {
  if (first >= argc) return true;
  for (int i = first; i < argc; ++i) {
    if (number_of(argv[i]) == one->number) return true;
  }
  return false;
}

/* The first argument that is neither a report nor the number of a case, or null. */
static const char* unknown_argument(const Case* const* cases, size_t count, int first, int argc, char** argv) {
  for (int i = first; i < argc; ++i) {
    bool known = false;
    for (size_t k = 0; k < count; ++k) known = known || number_of(argv[i]) == cases[k]->number;
    if (!known) return argv[i];
  }
  return NULL;
}

static bool ends_with(const char* text, const char* end) {
  const size_t length = strlen(text);
  return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static void remove_scratch(void) {
  DIR* folder = opendir(scratch);
  if (!folder) return;
  for (struct dirent* entry = readdir(folder); entry; entry = readdir(folder)) {
    if (entry->d_name[0] != '.') remove(scratch_path(entry->d_name));
  }
  closedir(folder);
  rmdir(scratch);
}

/* As GoogleTest does it, the folder is made. */
static FILE* open_report(const char* path) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s", path);
  char* slash = strrchr(folder, '/');
  if (slash) {
    *slash = '\0';
    (void)mkdir(folder, 0777);
  }
  return fopen(path, "w");
}

int main(int argc, char** argv) {
  static const Case* cases[kMaximalCases];
  const size_t count = collect(cases);
  const bool with_report = argc > 1 && ends_with(argv[1], ".xml");
  const char* unknown = unknown_argument(cases, count, with_report ? 2 : 1, argc, argv);
  if (unknown) {
    fprintf(stderr, "%s is no case's number: emulator_conformance [REPORT.xml] [NUMBER...]\n", unknown);
    return 2;
  }
  FILE* report = with_report ? open_report(argv[1]) : NULL;
  if (with_report && !report) {
    fprintf(stderr, "cannot write %s\n", argv[1]);
    return 2;
  }
  snprintf(scratch, sizeof scratch, "/tmp/conformance.XXXXXX");
  if (!mkdtemp(scratch)) return 2;
  if (report) fputs("<?xml version=\"1.0\"?>\n<testsuites><testsuite name=\"Conformance\">\n", report);

  int counts[3] = {0, 0, 0};
  for (size_t i = 0; i < count; ++i) {
    if (!wanted(cases[i], with_report ? 2 : 1, argc, argv)) continue;
    char reason[1024];
    const Outcome outcome = run_case(cases[i], reason, sizeof reason);
    static const char* const words[] = {"ok", "not ok", "unsupported"};
    printf("%s %02d %s%s%s\n", words[outcome], cases[i]->number, cases[i]->title, outcome == kPassed ? "" : ": ",
           outcome == kPassed ? "" : reason);
    report_case(report, cases[i], outcome, reason);
    ++counts[outcome];
  }
  remove_scratch();
  if (report) {
    fputs("</testsuite></testsuites>\n", report);
    fclose(report);
  }
  printf("%d passed, %d failed, %d unsupported\n", counts[kPassed], counts[kFailed], counts[kUnsupported]);
  return counts[kFailed] == 0 && counts[kPassed] > 0 ? 0 : 1;
}
