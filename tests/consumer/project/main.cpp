// A program of somebody else: it sees only what is installed.
#include <cstdio>

#include "simpler/status.h"

int main() {
  const simpler::Status status = simpler::invalid_argument("seven is not a level");
  std::printf("%s\n", std::string(status.message()).c_str());
  return status.code() == simpler::StatusCode::kInvalidArgument ? 0 : 1;
}
