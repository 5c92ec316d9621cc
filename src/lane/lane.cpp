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

}  // namespace simpler::lane
