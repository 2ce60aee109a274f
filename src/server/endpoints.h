#pragma once

#include "server/api_context.h"
#include "server/router.h"

namespace reprise::server {

/// Each adds a family of endpoints, which keep a reference to the context.
void add_health_endpoints(Router& router, ApiContext& context);     ///< /health, /metrics ...
void add_model_endpoints(Router& router, ApiContext& context);      ///< /v1/models, /get_model_info ...
void add_state_endpoint(Router& router, ApiContext& context);       ///< /state: what goes on, with the last steps
void add_completion_endpoint(Router& router, ApiContext& context);  ///< /v1/completions
void add_chat_endpoint(Router& router, ApiContext& context);        ///< /v1/chat/completions
void add_generate_endpoint(Router& router, ApiContext& context);    ///< /generate
void add_token_endpoints(Router& router, ApiContext& context);      ///< /tokenize, /detokenize
void add_page_endpoint(Router& router, ApiContext& context);        ///< /
void add_control_endpoints(Router& router, ApiContext& context);    ///< /flush_cache, /abort_request ...

}  // namespace reprise::server
