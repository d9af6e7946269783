/* Runs both programs once, one after the other: inputs from standard input,
 * outputs to standard output. */
#include <stdio.h>
#include <stdlib.h>

#include "first.h"
#include "second.h"

enum { MOST = 8 };

static NeutronError run(const dtn_bundle_t *bundle, const dtn_memory_t *memories) {
  static dtn_executor_t executor;
  void *inputs[MOST], *outputs[MOST];
  NeutronError error = dtn_executor_init(&executor, bundle, memories);
  if (error != ENONE) {
    return error;
  }
  for (uint32_t i = 0; i < bundle->input_count; i++) {
    uint32_t bytes = bundle->values[bundle->inputs[i]].bytes;
    inputs[i] = malloc(bytes);
    if (inputs[i] == NULL || fread(inputs[i], 1, bytes, stdin) != bytes) {
      exit(2);
    }
  }
  for (uint32_t i = 0; i < bundle->output_count; i++) {
    outputs[i] = malloc(bundle->values[bundle->outputs[i]].bytes);
  }
  error = dtn_executor_run(&executor, (const void *const *)inputs, outputs);
  for (uint32_t i = 0; i < bundle->output_count; i++) {
    fwrite(outputs[i], 1, bundle->values[bundle->outputs[i]].bytes, stdout);
  }
  return error;
}

int main(void) {
  NeutronError error = neutronInit();
  if (error == ENONE) {
    error = run(&first, first_memories);
  }
  if (error == ENONE) {
    error = run(&second, second_memories);
  }
  return error == ENONE ? 0 : 1;
}
