#include "text/jinja_run.h"

#include "text/jinja_value.h"

namespace reprise::text {

JinjaRun::~JinjaRun() {
  for (const auto& object : objects_) object->release();
}

}  // namespace reprise::text
