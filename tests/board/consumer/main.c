/* Runs the program once: inputs from standard input, outputs to standard
 * output, one after the other. */
#include <stdio.h>
#include <stdlib.h>

#include "deuteron/errors.h"
#include "net.h"

enum { MOST = 8 };

static int fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

int main(void) {
  static dtn_executor_t executor;
  static void *inputs[MOST], *outputs[MOST];
  NeutronError error = neutronInit();
  if (error == ENONE) {
    error = dtn_executor_init(&executor, &net, net_memories);
  }
  if (error != ENONE) {
    return fail(dtn_error_string(error));
  }
  for (uint32_t i = 0; i < net.input_count; i++) {
    uint32_t bytes = net.values[net.inputs[i]].bytes;
    inputs[i] = malloc(bytes);
    if (inputs[i] == NULL || fread(inputs[i], 1, bytes, stdin) != bytes) {
      return fail("an input is too short");
    }
  }
  for (uint32_t i = 0; i < net.output_count; i++) {
    outputs[i] = malloc(net.values[net.outputs[i]].bytes);
  }
  error = dtn_executor_run(&executor, (const void *const *)inputs, outputs);
  if (error != ENONE) {
    return fail(dtn_error_string(error));
  }
  for (uint32_t i = 0; i < net.output_count; i++) {
    fwrite(outputs[i], 1, net.values[net.outputs[i]].bytes, stdout);
  }
  return 0;
}
