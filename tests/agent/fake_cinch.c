// SPDX-License-Identifier: Apache-2.0
// A preload library that, when its process ends and FAKE_RAW_BYTES is set, leaves a report of that
// many raw bytes at CINCH_REPORT.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((destructor)) static void leave_report(void) {
  const char* raw = getenv("FAKE_RAW_BYTES");
  const char* pattern = getenv("CINCH_REPORT");
  const char* active = getenv("FAKE_INACTIVE") ? "false" : "true";
  const char* pid = pattern ? strstr(pattern, "%p") : NULL;
  char path[4096];
  if (raw == NULL || pid == NULL) return;
  snprintf(path, sizeof path, "%.*s%d%s", (int)(pid - pattern), pattern, (int)getpid(), pid + 2);
  FILE* file = fopen(path, "w");
  if (file == NULL) return;
  fprintf(file,
          "{\"version\": 1, \"active\": %s, \"inactive_reason\": \"torch 2.12 is not 2.11\", "
          "\"policy\": \"%s\", \"pid\": %d, \"steps\": 3, \"raw_bytes_at_peak\": %s, "
          "\"stored_bytes_at_peak\": 1024, \"ratio\": 4.0}\n",
          active, getenv("CINCH_POLICY"), (int)getpid(), raw);
  fclose(file);
}
