#pragma once

#include "text/jinja_value.h"

namespace reprise::text {

/// Brings the messages of an OpenAI request into the form that templates of text models are written for:
/// - `content` becomes one string: text parts are joined by a space, as SGLang does; null, absent and `[]` become "".
/// - `arguments` of a function in `tool_calls` that are the text of a JSON object become that object, so that both
/// forms
///   render alike.
/// Throws kInvalidArgument, naming the place (`messages[2].content[0]`), for messages that are not objects with a
/// string `role`, content of another type, parts that are no text, and arguments that are no object.
JinjaValue normalize_messages(const JinjaValue& messages);

}  // namespace reprise::text
