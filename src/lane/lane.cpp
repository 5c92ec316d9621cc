#include "lane/lane.h"

namespace simpler::lane {

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSuccess:
      return "success";
    case Outcome::kTaskFailure:
      return "task failure";
    case Outcome::kEndpointFailure:
      return "endpoint failure";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "unknown outcome";
}

Status skipped_task() {
  return skipped("not run: a task that it comes after failed, or its run was cancelled");
}

}  // namespace simpler::lane
