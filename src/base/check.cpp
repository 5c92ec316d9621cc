#include "base/check.h"

#include <cstdlib>
#include <unistd.h>

#include "simpler/status.h"

namespace simpler::internal {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::string text = std::string("simpler: check failed in process ") + std::to_string(::getpid()) + " at " + file +
                     ":" + std::to_string(line) + ": " + condition;
  if (!values.empty()) text += " [" + values + "]";
  text += "\n";
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);
  std::abort();
}

void value_of_failed_result(const Status& status) {
  check_failed_with("simpler/status.h", 0, "Result::ok()", status.describe());
}

}  // namespace simpler::internal
