#include "replay/step_batch.h"

namespace reprise::replay {

void StepBatch::clear() {
  for (std::vector<int32_t>* list :
       {&token_ids, &positions, &slots, &query_lengths, &kv_lengths, &sequence_slots, &block_tables}) {
    list->clear();
  }
  max_pages = 0;
  all_logits = false;
  reads_prompts = false;
}

}  // namespace reprise::replay
